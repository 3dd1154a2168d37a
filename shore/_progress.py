"""Progress of long work: a bar where tqdm is installed, else a line now and then; nothing unless asked for."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

__all__ = ["Progress"]


class Progress:
    """A context manager with `advance(n)`.

    Parameters
    ----------
    label : str
    total : int
        What `advance` adds up to.
    show : bool
        Without it nothing is printed.
    """

    def __init__(self, label: str, total: int, *, show: bool) -> None:
        self._label, self._total, self._show = label, total, show
        self._done = 0
        self._bar: Any = None
        self._started = self._said = time.monotonic()

    def __enter__(self) -> Progress:
        if self._show:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return self
            self._bar = tqdm(total=self._total, desc=self._label, file=sys.stderr)
        return self

    def advance(self, n: int) -> None:
        """Report that n more of the total are done."""
        self._done += n
        if self._bar is not None:
            self._bar.update(n)
        elif self._show and (time.monotonic() - self._said > 2 or self._done >= self._total):
            self._said = time.monotonic()
            seconds = self._said - self._started
            print(f"{self._label}: {self._done:,} of {self._total:,}, {seconds:.1f} s", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
