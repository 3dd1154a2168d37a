"""Files of the Extreme Classification Repository."""

import tempfile
import time
from pathlib import Path

import numpy as np

from shore.datasets import load_xmc, save_xmc

from .fitting import text_like
from .problems import sparse_outputs


class Xmc:
    """About 30 MB of tf-idf text, by the digits of its values: six as published files have, or all of their dtype."""

    params = (["six", "all"], ["float32", "float64"])
    param_names = ("digits", "dtype")
    rounds, repeat = 1, 3

    def setup(self, digits, dtype):
        X = text_like(20_000, 100_000, per_row=140 if digits == "six" else 115 if dtype == "float32" else 72)
        self.X = X.astype(dtype)
        if digits == "six":
            self.X.data = np.round(self.X.data.astype(np.float64), 6).astype(dtype)
        elif dtype == "float64":
            self.X.data = np.sqrt(self.X.data)  # digits that float32 does not have
        self.Y = sparse_outputs(20_000, 30_000, 5)
        self.Y.data[:] = 1
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "rows.txt")
        save_xmc(self.path, self.X, self.Y)

    def teardown(self, digits, dtype):
        self.folder.cleanup()

    def time_load(self, digits, dtype):
        load_xmc(self.path, dtype=dtype)

    def time_save(self, digits, dtype):
        save_xmc(self.path, self.X, self.Y)

    def peakmem_load(self, digits, dtype):
        load_xmc(self.path, dtype=dtype)

    def track_megabytes_per_second(self, digits, dtype):
        seconds = []
        for _ in range(9):
            start = time.perf_counter()
            load_xmc(self.path, dtype=dtype)
            seconds.append(time.perf_counter() - start)
        return self.path.stat().st_size / 1e6 / float(np.median(seconds))

    track_megabytes_per_second.unit = "MB/s"
