"""Compressed outputs to decode: sparse y, b = Φy plus noise as in the paper's synthetic data."""

import numpy as np
from scipy import sparse

import shore
from shore.datasets import load_dataset

KINDS = {"gaussian": shore.GaussianCompression, "sparse_sign": shore.SparseSignCompression}


def sparse_outputs(n, n_outputs, sparsity, seed=0):
    """Rows with `sparsity` outputs each, values uniform in [0.5, 1.5]."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, n_outputs, (n, sparsity))
    while True:  # draw again where a row drew an output twice
        ranked = np.sort(columns, axis=1)
        twice = (ranked[:, 1:] == ranked[:, :-1]).any(axis=1)
        if not twice.any():
            break
        columns[twice] = rng.integers(0, n_outputs, (int(twice.sum()), sparsity))
    values = rng.uniform(0.5, 1.5, (n, sparsity))
    return sparse.csr_array((values.ravel(), ranked.ravel(), np.arange(n + 1) * sparsity), shape=(n, n_outputs))


def compressed(phi, Y, snr_db=10.0, seed=1):
    """Y Φᵀ with Gaussian noise of the given signal-to-noise ratio in every row."""
    B = phi.compress(Y)
    noise = np.random.default_rng(seed).standard_normal(B.shape)
    noise *= (
        10 ** (-snr_db / 20) * np.linalg.norm(B, axis=1, keepdims=True) / np.linalg.norm(noise, axis=1, keepdims=True)
    )
    return (B + noise).astype(phi.dtype)


def unit_rows(X):
    """CSR rows in float32, of length one."""
    X = sparse.csr_array(X).astype(np.float32)
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)))
    X.data /= np.repeat(np.maximum(lengths, 1e-30), np.diff(X.indptr)).astype(np.float32)
    return X


def load_normalised(folder):
    """Training and test rows of a data set, X with rows of length one; None where it is not there."""
    if not folder.is_dir():
        return None
    data = load_dataset(folder)
    return unit_rows(data.X_train), data.Y_train, unit_rows(data.X_test), data.Y_test


def tagged_text(n, n_features, n_outputs, tail, *, tags=5, words=6, noise=8, seed=0):
    """Rows like documents with tags: X (n, d) of unit rows, Y (n, K) of zeros and ones.

    A tag is as frequent as 1/rank^tail, 0 for all alike, and has words of its own, each of which a document with the
    tag uses half of the time. Other words, as frequent as 1/rank, are noise.
    """
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1.0, n_outputs + 1) ** tail
    share = rng.permutation(share / share.sum())
    # the largest of log(share) + Gumbel noise: tags without repetition
    Y = np.empty((n, tags), dtype=np.int64)
    for start in range(0, n, 1000):
        here = slice(start, min(n, start + 1000))
        keys = np.log(share) + rng.gumbel(size=(here.stop - start, n_outputs))
        Y[here] = np.argpartition(-keys, tags - 1, axis=1)[:, :tags]
    rows = np.repeat(np.arange(n), tags)
    outputs = sparse.csr_array((np.ones(n * tags, np.float32), (rows, Y.ravel())), shape=(n, n_outputs))
    own = rng.integers(0, n_features, (n_outputs, words))[Y]
    said = rng.random(own.shape) < 0.5
    common = 1 / np.arange(1.0, n_features + 1)
    other = rng.choice(n_features, (n, noise), p=common / common.sum())
    at = np.concatenate([np.broadcast_to(np.arange(n)[:, None, None], own.shape)[said], np.repeat(np.arange(n), noise)])
    columns = np.concatenate([own[said], other.ravel()])
    X = sparse.csr_array((np.ones(len(at), np.float32), (at, columns)), shape=(n, n_features))
    X.sum_duplicates()
    return unit_rows(X), outputs


def large_tagged_text(n, n_features, n_outputs, *, tags=5, words=6, noise=8, seed=0):
    """The same kind of rows in time and memory that do not depend on n·K: tags and noise as frequent as 1/rank.

    A row may draw a tag twice and has one fewer then. Which outputs are frequent, and which words are a tag's own, is
    the same for every seed.
    """
    rng = np.random.default_rng(seed)
    rank = np.minimum((n_outputs ** rng.random((n, tags))).astype(np.int64), n_outputs - 1)
    order = np.random.default_rng(1).permutation(n_outputs)
    rows = np.repeat(np.arange(n), tags)
    Y = sparse.csr_array((np.ones(n * tags, np.float32), (rows, order[rank].ravel())), shape=(n, n_outputs))
    Y.sum_duplicates()
    Y.data[:] = 1
    own = (rank[:, :, None] * words + np.arange(words)) * 2_654_435_761 % 4_294_967_291 % n_features
    said = rng.random(own.shape) < 0.5
    other = np.minimum((n_features ** rng.random((n, noise))).astype(np.int64), n_features - 1)
    at = np.concatenate([np.broadcast_to(np.arange(n)[:, None, None], own.shape)[said], np.repeat(np.arange(n), noise)])
    columns = np.concatenate([own[said], other.ravel()])
    X = sparse.csr_array((np.ones(len(at), np.float32), (at, columns)), shape=(n, n_features))
    X.sum_duplicates()
    return unit_rows(X), Y
