"""From training rows to predictions: one class for each package, with its own defaults.

fit(X, Y)        train; what is measured as training
ready(folder)    save to the folder and load as one would to serve; the folder's size is the model's
predict(X)       CSR of at most five outputs a row
one_row(X, i)    a call that predicts row i, prepared in the form the package takes
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from scipy import sparse

TOP = 5


def as_matrix(A):
    """csr_matrix with 32-bit indices, which older packages ask for."""
    return sparse.csr_matrix((A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), shape=A.shape)


def pairs_to_csr(rows, n_outputs):
    """CSR of lists of (output, score)."""
    counts = [len(row) for row in rows]
    flat = [pair for row in rows for pair in row]
    columns, values = (np.array(part) for part in zip(*flat, strict=True))
    at = np.repeat(np.arange(len(rows)), counts)
    return sparse.csr_array((values, (at, columns.astype(np.int64))), shape=(len(rows), n_outputs))


class Shore:
    def __init__(self, threads, weights=None, **parameters):
        import shore

        self.shore, self.weights = shore, weights
        self.model = shore.ShoreRegressor(TOP, n_threads=threads, **parameters)

    def fit(self, X, Y):
        self.model.fit(X, Y)

    def ready(self, folder):
        threads = self.model.n_threads
        self.model.save(folder / "model.shore", weights=self.weights)
        self.model = self.shore.load(folder / "model.shore").set_params(n_threads=threads)
        self.predictor = self.model.predictor()

    def predict(self, X):
        return self.model.predict(X)

    def one_row(self, X, i):
        here = slice(X.indptr[i], X.indptr[i + 1])
        indices, values = X.indices[here], X.data[here]
        return lambda: self.predictor(indices, values)


class Pecos:
    """XLinear: label features by PIFA, hierarchical k-means, then linear models down the tree."""

    def __init__(self, threads, as_trained=False):
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.xlinear.model import XLinearModel

        self.parts = XLinearModel, Indexer, LabelEmbeddingFactory
        self.threads, self.as_trained = threads, as_trained

    def fit(self, X, Y):
        model, indexer, embedding = self.parts
        X, Y = as_matrix(X), as_matrix(Y)
        features = embedding.create(Y, X, method="pifa", threads=self.threads)
        chain = indexer.gen(features, indexer_type="hierarchicalkmeans", threads=self.threads)
        self.model = model.train(X, Y, C=chain, threads=self.threads)

    def ready(self, folder):
        self.model.save(str(folder))
        if not self.as_trained:
            self.model = self.parts[0].load(str(folder), is_predict_only=True)

    def predict(self, X):
        return sparse.csr_array(self.model.predict(as_matrix(X), only_topk=TOP, threads=self.threads))

    def one_row(self, X, i):
        row = as_matrix(X[i : i + 1])
        return lambda: self.model.predict(row, only_topk=TOP, threads=1)


class Napkin:
    """PLT: a probabilistic label tree."""

    def __init__(self, threads):
        from napkinxc.models import PLT

        self.make, self.threads = PLT, threads

    def fit(self, X, Y):
        self.folder = Path("napkin-model")
        self.model = self.make(str(self.folder), threads=self.threads)
        self.n_outputs = Y.shape[1]
        self.model.fit(as_matrix(X), as_matrix(Y))

    def ready(self, folder):
        for file in self.folder.iterdir():
            os.link(file, folder / file.name)
        self.model = self.make(str(folder), threads=self.threads)
        self.model.load()

    def predict(self, X):
        return pairs_to_csr(self.model.predict_proba(as_matrix(X), top_k=TOP), self.n_outputs)

    def one_row(self, X, i):
        row = as_matrix(X[i : i + 1])
        return lambda: self.model.predict_proba(row, top_k=TOP)


class Omikuji:
    """Parabel-like trees; its Python interface takes one row at a time, so batches are rows on a pool of threads."""

    def __init__(self, threads):
        import omikuji

        self.package, self.threads = omikuji, threads

    def prepare(self, X, Y):
        """It trains from a text file, whose writing is not part of training."""
        from shore.datasets import save_xmc

        save_xmc("train.txt", X, Y)
        self.n_outputs = Y.shape[1]

    def fit(self, X, Y):
        hyper_param = self.package.Model.default_hyper_param()
        self.model = self.package.Model.train_on_data("train.txt", hyper_param, n_threads=self.threads)

    def ready(self, folder):
        self.model.save(str(folder / "model"))
        self.model = self.package.Model.load(str(folder / "model"))

    def pairs(self, X, i):
        here = slice(X.indptr[i], X.indptr[i + 1])
        return list(zip(X.indices[here].tolist(), X.data[here].tolist(), strict=True))

    def predict(self, X):
        rows = [self.pairs(X, i) for i in range(X.shape[0])]
        with ThreadPoolExecutor(self.threads) as pool:
            return pairs_to_csr(list(pool.map(lambda row: self.model.predict(row, top_k=TOP), rows)), self.n_outputs)

    def one_row(self, X, i):
        row = self.pairs(X, i)
        return lambda: self.model.predict(row, top_k=TOP)


class Sklearn:
    """Ridge on all outputs, which it takes dense, and argpartition."""

    def __init__(self, threads, alpha):
        from sklearn.linear_model import Ridge

        self.model = Ridge(alpha=alpha, fit_intercept=False, solver="cholesky")

    def fit(self, X, Y):
        self.model.fit(as_matrix(X), Y.toarray())

    def ready(self, folder):
        np.save(folder / "coef.npy", self.model.coef_)
        self.coef = np.ascontiguousarray(np.load(folder / "coef.npy").T, dtype=np.float32)

    def top(self, X):
        scores = X @ self.coef
        columns = np.argpartition(-scores, TOP - 1, axis=1)[:, :TOP]
        values = np.take_along_axis(scores, columns, axis=1)
        at = np.repeat(np.arange(X.shape[0]), TOP)
        return sparse.csr_array((values.ravel(), (at, columns.ravel())), shape=scores.shape)

    def predict(self, X):
        return self.top(X)

    def one_row(self, X, i):
        row = X[i : i + 1]
        return lambda: self.top(row)


# name: how it is made, and how many rounds it is worth
MODELS = {
    "shore, m = 500, alpha = 2": (lambda threads: Shore(threads, n_components=500, alpha=2.0), 3),
    "shore, m = 1000, alpha = 1": (lambda threads: Shore(threads, n_components=1000, alpha=1.0), 3),
    "shore, m = 1000, alpha = 2": (lambda threads: Shore(threads, n_components=1000, alpha=2.0), 3),
    "shore, m = 1000, alpha = 2, correlation": (
        lambda threads: Shore(threads, n_components=1000, alpha=2.0, decoder="cd"),
        3,
    ),
    "shore, m = 1000, alpha = 2, float16": (
        lambda threads: Shore(threads, weights="float16", n_components=1000, alpha=2.0),
        3,
    ),
    "shore, m = 2000, alpha = 2": (lambda threads: Shore(threads, n_components=2000, alpha=2.0), 3),
    "shore, uncompressed ridge, alpha = 2": (lambda threads: Shore(threads, compression=None, alpha=2.0), 1),
    "PECOS XLinear, loaded for prediction": (Pecos, 3),
    "PECOS XLinear, as trained": (lambda threads: Pecos(threads, as_trained=True), 1),
    "napkinXC PLT": (Napkin, 3),
    "omikuji": (Omikuji, 3),
    "scikit-learn Ridge + argpartition": (lambda threads: Sklearn(threads, alpha=2.0), 1),
}
PEERS = ("PECOS XLinear, loaded for prediction", "PECOS XLinear, as trained", "napkinXC PLT", "omikuji")
