"""Fit a model on made-up texts, tag others without Python in the loop, and compare with the model's own predictions."""

import numpy as np
from scipy import sparse
from texttags import Tagger, features

import shore

N_FEATURES, N_TAGS, N_TEXTS = 4096, 300, 4000


def make_texts(rng):
    """Texts of words that three tags suggest, and some that nothing does."""
    tags = np.array([rng.choice(N_TAGS, 3, replace=False) for _ in range(N_TEXTS)])
    words = 3 * tags.repeat(4, axis=1) + rng.integers(3, size=(N_TEXTS, 12))
    noise = rng.integers(10_000, size=(N_TEXTS, 4))
    texts = [
        " ".join([f"word{word}" for word in row] + [f"other{word}" for word in others]).encode()
        for row, others in zip(words, noise, strict=True)
    ]
    ends = np.arange(0, 3 * N_TEXTS + 1, 3)
    return texts, sparse.csr_array((np.ones(3 * N_TEXTS), np.sort(tags).ravel(), ends), shape=(N_TEXTS, N_TAGS))


texts, Y = make_texts(np.random.default_rng(0))
X = features(texts, N_FEATURES)
model = shore.ShoreRegressor(sparsity=3, n_components=120, fit_intercept=False).fit(X[:3000], Y[:3000])

tagger = Tagger(model)
found = tagger(texts[3000:], n_threads=2)
expected = model.predict(X[3000:])

same = np.array_equal(found.indices, expected.indices) and np.array_equal(found.indptr, expected.indptr)
print("precision at 3:", round(shore.metrics.precision_at_k(Y[3000:], found, 3), 2))
print("the tags of model.predict:", same)
print("values that differ by more than rounding:", int((np.abs(found.data - expected.data) > 1e-4).sum()))
