"""Model files."""

import tempfile
from pathlib import Path

import numpy as np

import shore


def large_model(d, m, n_outputs, seed=0):
    """A model with a random W, as if it had been fitted."""
    W = np.random.default_rng(seed).standard_normal((d, m), dtype=np.float32)
    model = shore.ShoreRegressor(5, n_components=m)
    phi = shore.SparseSignCompression(m, n_outputs)
    model._keep(None, W, np.zeros(m, dtype=np.float32), phi, n_outputs, 1.0, "cg", 1)
    return model


class ModelFile:
    """40 MB of W, sparse signs of 20,000 outputs."""

    params = ([True, False], [False, True])
    param_names = ("mmap", "verify")

    def setup(self, mmap, verify):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "m.shore")
        large_model(20_000, 500, 20_000).save(self.path)

    def teardown(self, mmap, verify):
        self.folder.cleanup()

    def time_load(self, mmap, verify):
        shore.load(self.path, mmap=mmap, verify=verify)

    def peakmem_load(self, mmap, verify):
        shore.load(self.path, mmap=mmap, verify=verify)


class Saving:
    """The same model."""

    params = ([None, "float16"],)
    param_names = ("weights",)

    def setup(self, weights):
        self.folder = tempfile.TemporaryDirectory()
        self.model = large_model(20_000, 500, 20_000)

    def teardown(self, weights):
        self.folder.cleanup()

    def time_save(self, weights):
        self.model.save(Path(self.folder.name, "m.shore"), weights=weights)
