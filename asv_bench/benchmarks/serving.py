"""One row at a time: `Predictor`, and `predict` of one row beside it."""

import threading
import time

import numpy as np

import shore

from .fitting import text_like
from .problems import sparse_outputs


def sparse_rows(X):
    """(indices, values) of every row."""
    return [(X.indices[a:b].copy(), X.data[a:b].copy()) for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]


def latencies(call, rows):
    """Microseconds of every call, after a round to warm up."""
    times = np.empty(len(rows))
    for record in (False, True):
        for i, row in enumerate(rows):
            started = time.perf_counter()
            call(*row)
            if record:
                times[i] = 1e6 * (time.perf_counter() - started)
    return times


def calls_per_second(call, rows, n_threads):
    """Of `n_threads` threads that all call for all rows, each in an order of its own."""

    def loop(thread, barrier):
        mine = rows[thread * len(rows) // n_threads :] + rows[: thread * len(rows) // n_threads]
        barrier.wait()
        for row in mine:
            call(*row)

    barrier = threading.Barrier(n_threads + 1)
    threads = [threading.Thread(target=loop, args=(thread, barrier)) for thread in range(n_threads)]
    for thread in threads:
        thread.start()
    barrier.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return n_threads * len(rows) / (time.perf_counter() - started)


class Serve:
    """Rows of 20 words among d, K = 6,845, m = 1,000, s = 5; dense rows with d = 1,000."""

    params = (["sparse_sign", "gaussian"],)
    param_names = ("compression",)

    def setup(self, compression):
        outputs = sparse_outputs(2000, 6845, 5)
        self.model, self.dense_model = (
            shore.ShoreRegressor(5, n_components=1000, compression=compression, alpha=2.0).fit(X, outputs)
            for X in (text_like(2000, 20_000), text_like(2000, 1000))
        )
        X = text_like(200, 20_000, seed=1)
        self.rows, self.single = sparse_rows(X), [X[i : i + 1] for i in range(200)]
        self.dense = text_like(200, 1000, seed=1).toarray()
        self.predictor, self.dense_predictor = self.model.predictor(), self.dense_model.predictor()

    def time_predictor_sparse(self, compression):
        for row in self.rows:
            self.predictor(*row)

    def time_predictor_dense(self, compression):
        for row in self.dense:
            self.dense_predictor(row)

    def time_predict_one_row(self, compression):
        for x in self.single:
            self.model.predict(x, n_threads=1)

    def track_p99(self, compression):
        return float(np.quantile(latencies(self.predictor, self.rows * 5), 0.99))

    track_p99.unit = "us"

    def track_two_threads(self, compression):
        rows = self.rows * 2
        turns = [[calls_per_second(self.predictor, rows, n) for n in (1, 2)] for _ in range(7)]
        return float(np.median([two / one for one, two in turns]))

    track_two_threads.unit = "times one thread"
