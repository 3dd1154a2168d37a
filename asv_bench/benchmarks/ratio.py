"""Time of one thing over the time of another, measured so that the machine's moods cancel.

Both run in one process, in turns, after a warm-up; a ratio is taken within every turn, and the median over the
turns is the result, with the quartiles as its spread. Before each measurement there is a pause: the threads of the
other side's pool spin on the cores for a while after their work is done.
"""

import time
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ratio:
    median: float
    low: float
    high: float
    seconds: float  # median time of the first
    reference_seconds: float  # median time of the second

    def times(self, factor):
        """The ratio where the first does 1/factor of the second's work."""
        return Ratio(self.median * factor, self.low * factor, self.high * factor, self.seconds, self.reference_seconds)

    def __str__(self):
        return f"{self.median:.3g} ({self.low:.3g} to {self.high:.3g})"


def ratio(first, second, *, turns=9, min_seconds=0.02, pause=0.15):
    """time(first) / time(second), each call repeated until a turn takes `min_seconds`."""
    repeats = []
    for function in (first, second):
        function()
        started = time.perf_counter()
        function()
        repeats.append(max(1, int(min_seconds / max(1e-9, time.perf_counter() - started))))
    times = np.empty((turns, 2))
    for turn in range(turns):
        order = (0, 1) if turn % 2 else (1, 0)
        for which in order:
            function = (first, second)[which]
            time.sleep(pause)
            started = time.perf_counter()
            for _ in range(repeats[which]):
                function()
            times[turn, which] = (time.perf_counter() - started) / repeats[which]
    ratios = times[:, 0] / times[:, 1]
    return Ratio(*np.quantile(ratios, [0.5, 0.25, 0.75]), *np.median(times, axis=0))
