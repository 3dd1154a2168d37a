"""What commands write: predictions and explanations in several formats, and tables to read."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._files import replacing
from shore.datasets.files import find_files
from shore.datasets.xmc import format_rows
from shore.explanation import Explanation

__all__ = ["FORMATS", "bytes_in_words", "check_output", "explanation_lines", "format_of", "json_text", "open_output",
           "prediction_bytes", "prediction_header", "print_table", "require_stdout"]  # fmt: skip

FORMATS = ("xmc", "csv", "jsonl")


def check_output(path: str, option: str, inputs: Mapping[str, str | None], *, streams: bool) -> None:
    """Refuse an output that cannot be written, or that is an input, before anything is computed for it.

    Parameters
    ----------
    path : str
    option : str
        What named it, for errors.
    inputs : dict of str or None
        The files and folders that the command reads, by their arguments; ``-`` is standard input.
    streams : bool
        Whether it may be standard output, a device or a pipe.
    """
    target = Path(path)
    folder = target.parent
    if path == "-" and streams:
        require_stdout()
    if path == "-" or (target.exists() and not target.is_file() and not target.is_dir()):
        if not streams:
            raise ValueError(f"{path}: a model is written to a regular file")
        return
    if not folder.is_dir():
        raise ValueError(f"{path}: there is no folder {folder}")
    if target.is_dir():
        raise ValueError(f"{path}: is a folder")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path}: the folder {folder} cannot be written to")
    if target.exists():
        written = target.stat()
        for name, given in inputs.items():
            if any(os.path.samestat(written, read) for read in _stats(given)):
                raise ValueError(f"{option} {path} would replace {name}, which is read: give another name")


def require_stdout() -> None:
    """Refuse to work for a standard output that was closed, which would lose it all."""
    if sys.stdout is None:
        raise ValueError("standard output is closed, and the results go there")


def _stats(given: str | None) -> Iterator[os.stat_result]:
    """What the system knows of a file that is read, or of those of a data set's folder; nothing of what is not there.

    Links lead to their file, and all names of a file are the same.
    """
    with suppress(OSError, ValueError, AttributeError):  # whoever reads it says what is wrong
        if given == "-":
            yield os.fstat(sys.stdin.fileno())
        elif given is not None and os.path.isdir(given):
            for files in find_files(Path(given)):
                yield from map(os.stat, files or ())
        elif given is not None:
            yield os.stat(given)


@contextmanager
def open_output(path: str) -> Iterator[Any]:
    """A binary file that is there when it is complete, or standard output.

    Parameters
    ----------
    path : str
        ``-`` for standard output.
    """
    if path == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with replacing(path) as file:
            yield file


def format_of(path: str, given: str | None) -> str:
    """The format asked for, or else what the name of the file says, or else XMC text.

    Parameters
    ----------
    path : str
    given : str or None
    """
    if given is not None:
        return given
    suffix = Path(path.lower().removesuffix(".gz")).suffix
    return {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}.get(suffix, "xmc")


# ------------------------------------------------------------ predictions


def prediction_header(kind: str, shape: tuple[int, int], names: Sequence[str] | None, plain: bool) -> bytes:
    """What stands before the first row.

    Parameters
    ----------
    kind : {'xmc', 'csv', 'jsonl'}
    shape : (int, int)
        Rows and outputs.
    names : sequence of str or None
        Of the outputs.
    plain : bool
        XMC text without values.
    """
    if kind == "xmc":
        return f"{shape[0]} 0 {shape[1]}{'' if plain else ' values'}\n".encode()
    if kind == "csv":
        return b"row,output,value\n" if names is None else b"row,output,name,value\n"
    return b""


def _ranked(found: Any) -> tuple[npt.NDArray[np.int64], list[int], list[str]]:
    """Entries row by row, the highest value first: their rows, outputs, and values in shortest decimals."""
    rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
    order = np.lexsort((found.indices, -found.data, rows))
    return rows, found.indices[order].tolist(), found.data[order].astype("U32").tolist()


def prediction_bytes(kind: str, start: int, found: Any, names: Sequence[str] | None, plain: bool) -> Any:
    """A block of predictions as text.

    Parameters
    ----------
    kind, names, plain
        As in `prediction_header`.
    start : int
        The number of its first row.
    found : csr_array of shape (n, K)
    """
    if kind == "xmc":
        return format_rows(sparse.csr_array((found.shape[0], 0), dtype=found.dtype), found, plain=plain)
    rows, outputs, values = _ranked(found)
    text = io.StringIO()
    if kind == "csv":
        numbers = (rows + start).tolist()
        columns = [numbers, outputs, values] if names is None else [
            numbers, outputs, [names[j] for j in outputs], values]  # fmt: skip
        csv.writer(text, lineterminator="\n").writerows(zip(*columns, strict=True))
        return text.getvalue().encode()
    entries = [
        f'{{"output":{j},"value":{value}}}' if names is None else
        f'{{"output":{j},"name":{json.dumps(names[j], ensure_ascii=False)},"value":{value}}}'
        for j, value in zip(outputs, values, strict=True)
    ]  # fmt: skip
    for i in range(found.shape[0]):
        text.write(f'{{"row":{start + i},"outputs":[{",".join(entries[found.indptr[i] : found.indptr[i + 1]])}]}}\n')
    return text.getvalue().encode()


# ------------------------------------------------------------ explanations


def _named(kind: str, index: int, names: Sequence[str] | None) -> dict[str, Any]:
    return {kind: index} if names is None or index < 0 else {kind: index, "name": names[index]}


def _rounded(value: Any) -> float:
    return float(f"{float(value):.6g}")


def _tree(
    start: int, found: Any, why: Explanation, outputs: Sequence[str] | None, features: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    """Rows with their outputs, the highest value first, and these with their features."""
    reasons: dict[tuple[int, int], list[int]] = {}
    for line, key in enumerate(zip(why.row.tolist(), why.output.tolist(), strict=True)):
        reasons.setdefault(key, []).append(line)
    _, ranked, values = _ranked(found)
    for i in range(found.shape[0]):
        entries = []
        for e in range(found.indptr[i], found.indptr[i + 1]):
            lines = reasons.get((i, ranked[e]), [])
            entries.append({
                **_named("output", ranked[e], outputs),
                "value": float(values[e]),
                "score": _rounded(why.score[lines[0]]) if lines else 0.0,
                "features": [
                    {**_named("feature", int(why.feature[k]), features), "contribution": _rounded(why.contribution[k])}
                    for k in lines
                ],
            })  # fmt: skip
        yield {"row": start + i, "outputs": entries}


def _feature_words(feature: dict[str, Any]) -> str:
    if feature["feature"] < 0:
        return "intercept"
    return f"feature {feature['feature']}" + (f"  {feature['name']}" if "name" in feature else "")


def explanation_lines(
    kind: str, start: int, found: Any, why: Explanation, outputs: Sequence[str] | None, features: Sequence[str] | None
) -> Iterator[str]:
    """Lines that say which features spoke for and against the predicted outputs.

    Parameters
    ----------
    kind : {'text', 'jsonl'}
    start : int
        The number of the first row.
    found : csr_array
        What was predicted.
    why : Explanation
        Of it.
    outputs, features : sequence of str or None
        Names.
    """
    for row in _tree(start, found, why, outputs, features):
        if kind == "jsonl":
            yield json_text(row)
            continue
        yield f"row {row['row']}" + ("" if row["outputs"] else ": no outputs")
        for output in row["outputs"]:
            name = f"  {output['name']}" if "name" in output else ""
            yield f"  output {output['output']}{name}: value {output['value']:.4g}, score {output['score']:.4g}"
            for feature in output["features"]:
                yield f"    {feature['contribution']:>+12.4g}  {_feature_words(feature)}"


# ------------------------------------------------------------ tables


def json_text(value: Any) -> str:
    """One line of JSON; what is not a number becomes null.

    Parameters
    ----------
    value : dict
    """
    return json.dumps(_without_nan(value), ensure_ascii=False, separators=(",", ":"))


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def bytes_in_words(size: float) -> str:
    """A number of bytes as people read it.

    Parameters
    ----------
    size : float
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def print_table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Names and values below a title.

    Parameters
    ----------
    title : str
    rows : sequence of (str, str)
    """
    width = max(len(name) for name, _ in rows)
    print(title)
    print("-" * len(title))
    for name, value in rows:
        print(f"{name:<{width}}  {value:>12}")
