"""results.csv: tidy, appended to as cells are finished, read again when a stopped run goes on."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["COLUMNS", "Store"]

# What identifies a row, and what was measured.
KEYS = ("dataset", "compression", "snr_db", "sparsity", "m", "trial", "method")
MEASURES = (
    "rows", "precision", "output_difference", "prediction_loss", "training_loss", "loss_ratio", "seconds",
    "us_per_row", "iterations", "full_passes", "converged",
)  # fmt: skip
COLUMNS = (*KEYS, *MEASURES)
_TEXT = ("dataset", "compression", "method")
_WHOLE = ("sparsity", "m", "trial", "rows")


def _parse(column: str, text: str) -> Any:
    if column in _TEXT:
        return text
    if text == "":
        return None
    return int(text) if column in _WHOLE else float(text)


def _format(value: Any) -> str:
    return "" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def _row(line: list[str]) -> dict[str, Any]:
    return {column: _parse(column, text) for column, text in zip(COLUMNS, line, strict=True)}


class Store:
    """The results of one experiment in a folder.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    settings : dict
        What must not change while results are collected: sizes, seeds, options. Kept in settings.json; a folder
        with results of other settings is refused.
    """

    def __init__(self, folder: str | os.PathLike[str], settings: dict[str, Any]) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"output {folder}: cannot be made a folder: {error.strerror}") from None
        self.path = self.folder / "results.csv"
        self.rows: list[dict[str, Any]] = []
        self._read()
        self._check_settings(json.loads(json.dumps(settings)))

    def _check_settings(self, settings: dict[str, Any]) -> None:
        path = self.folder / "settings.json"
        if not path.exists() or not self.rows:  # a run that failed before its first result binds nobody
            _write(path, json.dumps(settings, indent=2) + "\n")
            return
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(f"{path} is not JSON; give another output folder") from None
        for name in sorted({*before, *settings}):
            if before.get(name) != settings.get(name):
                raise ValueError(
                    f"output {self.folder} holds results of another run: {name} was {before.get(name)!r}, not "
                    f"{settings.get(name)!r}; give another output folder"
                )

    def _read(self) -> None:
        """All whole lines; what a stopped run left of its last cell is dropped."""
        if not self.path.exists():
            _write(self.path, ",".join(COLUMNS) + "\n")
            return
        text = self.path.read_bytes().decode("utf-8", "replace")
        whole = text[: text.rfind("\n") + 1]
        lines = list(csv.reader(io.StringIO(whole, newline="")))
        if not lines or tuple(lines[0]) != COLUMNS:
            raise ValueError(f"{self.path} is not a results file of this version; give another output folder")
        for number, line in enumerate(lines[1:], start=2):
            try:
                self.rows.append(_row(line))
            except ValueError:
                raise ValueError(f"{self.path}:{number}: not a line of results: {','.join(line)!r}") from None
        if whole != text:
            _write(self.path, whole)

    def has(self, **key: Any) -> bool:
        """Whether there is a row with these keys."""
        return any(all(row[name] == value for name, value in key.items()) for row in self.rows)

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Append the rows of one cell, all at once."""
        lines = [[_format(row.get(column)) for column in COLUMNS] for row in rows]
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(lines)
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())
        self.rows += [_row(line) for line in lines]  # as they will be read


def _write(path: Path, text: str) -> None:
    """Write a file so that it is never seen half-written."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(text.encode())
    os.replace(temporary, path)
