"""Long work in pieces: while a kernel runs, Python hears no signal, so Ctrl-C has to wait for its end."""

from __future__ import annotations

import time
from collections.abc import Iterator

__all__ = ["pieces"]

# Seconds of a piece: soon enough for who presses Ctrl-C, and far more than a call costs.
_GOAL = 0.25
# How much larger than the one before a piece may be, should that have been quick by chance.
_GROWTH = 8


def pieces(n: int, seconds: float, *, least: int = 1, most: int | None = None) -> Iterator[slice]:
    """Rows 0 to n - 1 in pieces that take about a quarter second each, by what those before have taken.

    For work whose results do not depend on the pieces. Small work is one piece.

    Parameters
    ----------
    n : int
    seconds : float
        What a row takes, about: for the first piece.
    least, most : int, optional
        Rows of a piece.

    Yields
    ------
    slice
    """
    most = n if most is None else max(1, most)
    least = min(max(1, least), most)
    size = int(min(max(least, _GOAL / max(seconds, 1e-12)), most))
    start = 0
    while start < n:
        left = n - start
        stop = start + (left if left <= min(1.5 * size, most) else size)  # no small one at the end
        began = time.monotonic()
        yield slice(start, stop)
        took = max(time.monotonic() - began, 1e-9)
        size = int(min(max(least, min(_GROWTH * size, (stop - start) * _GOAL / took)), most))
        start = stop
