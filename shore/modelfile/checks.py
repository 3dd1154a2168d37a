"""Nothing that is read is trusted: the error of a file that is refused, and readers of JSON that raise it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn

__all__ = ["ModelFileError", "canonical", "count", "parse", "record", "sha256"]


class ModelFileError(ValueError):
    """The file is no model file that this version can read, or it is damaged.

    Examples
    --------
    >>> import shore
    >>> try:
    ...     shore.load(shore.__file__)
    ... except shore.ModelFileError as error:
    ...     print("refused:", str(error).partition(": ")[2])
    refused: not a model file, or cut short: its header would end behind its end
    """


def canonical(value: Any) -> str:
    """JSON as it is written, and as checksums are made of it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ModelFileError("JSON with a key that is there twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ModelFileError(f"JSON with the number {name}")


def parse(text: str, what: str) -> Any:
    """JSON of a file; `what` it is called in errors."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise ModelFileError(f"{what} is nested too deeply") from None
    except ModelFileError:
        raise
    except ValueError as error:  # also an integer of too many digits
        raise ModelFileError(f"{what} is not JSON: {error}") from None


def record(value: Any, keys: set[str], what: str) -> dict[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(value, dict) or set(value) != keys:
        raise ModelFileError(f"{what} must be an object with the keys {', '.join(sorted(keys))}")
    return value


def count(value: Any, what: str, least: int = 1) -> int:
    """An integer, and no boolean, of at least `least`."""
    if type(value) is not int or value < least:
        raise ModelFileError(f"{what} must be an integer of at least {least}")
    return value


def sha256(data: Any) -> str:
    """The checksum of bytes, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
