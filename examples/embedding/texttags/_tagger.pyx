# cython: boundscheck=False, wraparound=False
"""Texts to tags in one parallel loop without the GIL: hash the words, b = Wx, decode b by shore."""

from cython.parallel cimport parallel, prange, threadid
from libc.math cimport sqrt
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

from shore.capi cimport (
    SHORE_OK, import_shore, shore_api, shore_borrow_phi, shore_decoding, shore_phi, SHORE_NONNEG)

import numpy as np
import shore
from scipy import sparse

cdef const shore_api *api = import_shore()


cdef int64_t next_word(const uint8_t *text, int64_t size, int64_t n_features, int64_t *feature) noexcept nogil:
    """The feature of the first word (FNV-1a of its letters). Returns where the text goes on; 0 if there is no word."""
    cdef int64_t i = 0
    cdef uint64_t code = <uint64_t> 0xcbf29ce484222325, prime = <uint64_t> 0x100000001b3
    while i < size and text[i] <= 32:
        i += 1
    if i == size:
        return 0
    while i < size and text[i] > 32:
        code = (code ^ text[i]) * prime
        i += 1
    feature[0] = <int64_t> (code % <uint64_t> n_features)
    return i


cdef void add_rows(const uint8_t *text, int64_t size, const float[:, ::1] weights, float *b) noexcept nogil:
    """b += Wx for the features x of a text: a row of Wᵀ for every word, over the root of their number."""
    cdef int64_t m = weights.shape[1], feature = 0, n_words = 0, i = 0, at, k
    cdef float scale
    while True:
        at = next_word(text + i, size - i, weights.shape[0], &feature)
        if at == 0:
            break
        for k in range(m):
            b[k] += weights[feature, k]
        n_words += 1
        i += at
    if n_words:
        scale = 1 / sqrt(<float> n_words)
        for k in range(m):
            b[k] *= scale


def features(texts, int64_t n_features):
    """The same features as a CSR matrix, to fit a model on: counts of hashed words, over the root of their number."""
    cdef int64_t feature = 0, i, at
    cdef const uint8_t[::1] letters
    counts, columns, ends = [], [], [0]
    for text in texts:
        letters = text
        i, words = 0, {}
        while i < letters.shape[0]:
            at = next_word(&letters[i], letters.shape[0] - i, n_features, &feature)
            if at == 0:
                break
            words[feature] = words.get(feature, 0) + 1
            i += at
        columns += sorted(words)
        counts += [words[column] / np.sqrt(sum(words.values())) for column in sorted(words)]
        ends.append(len(columns))
    return sparse.csr_array((np.array(counts, dtype=np.float32), columns, ends), shape=(len(texts), n_features))


cdef class Tagger:
    """The tags of texts by a fitted model.

    Parameters
    ----------
    model : shore.ShoreRegressor
        Fitted on `features`, in float32, with a compression, constraint 'nonneg' and no intercept.
    """

    cdef object capsule                # Φ is borrowed: this keeps it
    cdef const shore_phi *phi
    cdef const float[:, ::1] weights   # Wᵀ (d, m)
    cdef shore_decoding decoding
    cdef int64_t n_outputs

    def __init__(self, model):
        cdef int64_t m
        cdef int is_double
        self.capsule = shore.capi.phi(model.compression_)
        self.phi = shore_borrow_phi(self.capsule)
        api.phi_shape(self.phi, &m, &self.n_outputs, &is_double)
        if is_double:
            raise TypeError("model must be fitted with dtype=float32")
        self.weights = np.ascontiguousarray(model.coef_.T, dtype=np.float32)
        api.decode_defaults(&self.decoding)
        self.decoding.constraint.kind = SHORE_NONNEG
        self.decoding.sparsity = model.sparsity

    def __call__(self, texts, int n_threads=1):
        """Tags and their values, a csr_array of shape (texts, K), for a list of bytes."""
        cdef const uint8_t[::1] letters = np.frombuffer(b"".join(texts), dtype=np.uint8)
        cdef int64_t[::1] ends = np.cumsum([0] + [len(text) for text in texts], dtype=np.int64)
        cdef int64_t n = len(texts), m = self.weights.shape[1], s = self.decoding.sparsity, i
        cdef size_t n_bytes = api.decode_workspace(self.phi, &self.decoding, 1)
        if n_bytes == 0:
            raise ValueError(f"the model's sparsity must be from 1 to {self.n_outputs}, got {s}")
        if n == 0 or letters.shape[0] == 0:
            return sparse.csr_array((n, self.n_outputs), dtype=np.float32)
        cdef uint8_t[:, ::1] workspace = np.empty((n_threads, n_bytes), dtype=np.uint8)
        cdef float[:, ::1] b = np.empty((n_threads, m), dtype=np.float32), value = np.empty((n, s), dtype=np.float32)
        cdef int64_t[:, ::1] index = np.empty((n, s), dtype=np.int64)
        cdef int64_t[::1] count = np.zeros(n, dtype=np.int64)
        cdef int[::1] code = np.zeros(n, dtype=np.intc)

        with nogil, parallel(num_threads=n_threads):
            for i in prange(n, schedule="dynamic"):
                memset(&b[threadid(), 0], 0, m * sizeof(float))
                add_rows(&letters[0] + ends[i], ends[i + 1] - ends[i], self.weights, &b[threadid(), 0])
                code[i] = api.decode_float(
                    self.phi, &b[threadid(), 0], 1, &self.decoding, NULL, &workspace[threadid(), 0], &index[i, 0],
                    &value[i, 0], &count[i], NULL)

        for i in range(n):
            if code[i] == SHORE_OK and count[i] < 0:
                code[i] = <int> count[i]
            if code[i] != SHORE_OK:
                raise ValueError(f"text {i}: {api.message(code[i]).decode()}")
        used = np.arange(s) < np.asarray(count)[:, None]
        starts = np.concatenate([[0], np.cumsum(count)])
        return sparse.csr_array(
            (np.asarray(value)[used], np.asarray(index)[used], starts), shape=(n, self.n_outputs))
