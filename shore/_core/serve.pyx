"""Prediction of one row: x W + intercept and its decoding in one call, with a workspace from a pool."""

from cpython.exc cimport PyErr_Clear
from cpython.ref cimport Py_DECREF, PyObject
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from shore._core._typedefs cimport index_t, int32_t, int64_t, real_t, uint8_t
from shore._core.decode cimport STOPPED, RowDecoder, pending_error
from shore._core.linear cimport RowTimes
from shore._core.projection cimport RowProjector

cimport numpy as cnp

import numpy as np

cnp.import_array()

cdef extern from "Python.h":
    PyObject *PyObject_CallMethodObjArgs(object, object, ...)  # NULL, and an error is set

ctypedef fused other_t:
    float
    double


cdef class _Workspace:
    """What a call writes beside its result. One call has it at a time."""

    cdef uint8_t[::1] memory
    cdef char *engine
    cdef char *x                       # (d,) in the dtype of W, for a row that comes in the other one
    cdef char *b                       # (m,) in the dtype of W
    cdef char *b_decoded               # the same in the dtype of the result: b itself, if that is of W too
    cdef int64_t *index                # (s,)
    cdef char *value                   # (s,)


cdef class RowPredictor:
    """The prediction for one row. It is only read: any number of threads may call it.

    A call takes a workspace from the pool, or makes one if there is none left, and puts it back. The pool is a
    list: its pop and append are atomic, with and without the GIL.

    Parameters
    ----------
    times : RowTimes
        W.
    intercept : array of shape (m,)
        In the dtype of W.
    engine : RowDecoder or RowProjector
        In either dtype, which is that of the result.
    n_outputs, sparsity : int
        K, and s ≤ K.
    """

    cdef RowTimes times
    cdef object intercept_owner
    cdef const void *intercept
    cdef RowDecoder decoder
    cdef RowProjector projector
    cdef bint is_double
    cdef int index_type
    cdef list pool
    cdef readonly int64_t n_features
    cdef readonly int64_t n_outputs
    cdef readonly int64_t sparsity

    def __cinit__(self, RowTimes times not None, intercept, engine not None, int64_t n_outputs, int64_t sparsity):
        self.times = times
        self.intercept_owner = np.require(intercept, np.float64 if times.is_double else np.float32, ["C", "A"])
        if self.intercept_owner.shape != (times.width,):
            raise ValueError(f"intercept must have shape ({times.width},), got {self.intercept_owner.shape}")
        self.intercept = cnp.PyArray_DATA(<cnp.ndarray> self.intercept_owner)
        cdef int64_t width, keep
        if isinstance(engine, RowDecoder):
            self.decoder = engine
            width, keep = self.decoder.phi.c.n_components, self.decoder.options.keep
        else:
            self.projector = engine
            width, keep = self.projector.n_outputs, self.projector.sparsity
        if width != times.width:  # it would read or write behind a workspace
            raise ValueError(f"the engine takes rows of {width} numbers, but W has {times.width} columns")
        if keep != sparsity:
            raise ValueError(f"the engine keeps {keep} entries, but sparsity is {sparsity}")
        self.is_double = engine.is_double
        self.n_features, self.n_outputs, self.sparsity = times.n_features, n_outputs, sparsity
        self.index_type = cnp.NPY_INT64 if n_outputs > np.iinfo(np.int32).max else cnp.NPY_INT32
        self.pool = [self._new_workspace()]

    def __call__(self, row, values=None, /):
        """`row` is a dense row, or with `values` the indices of a sparse one."""
        if values is None:
            return self._call_dense(row)
        return self._call_sparse(row, values)

    cdef _call_sparse(self, indices, values):
        if not _is_index_vector(indices):
            indices = _as_indices(indices, self.n_features)
        if not _is_real_vector(values):
            values = self._as_reals(values, "values")
        cdef cnp.ndarray columns = indices, x = values
        cdef int64_t n = cnp.PyArray_DIM(columns, 0), outside, count = 0
        if cnp.PyArray_DIM(x, 0) != n:
            raise ValueError(f"indices and values must have the same length, got {n} and {cnp.PyArray_DIM(x, 0)}")
        if n > self.n_features and not self._is_as_W(x):  # more than a workspace has room for
            x = self._as_reals(x, "values")
        cdef bint wide = cnp.PyArray_ITEMSIZE(columns) == 8, as_is = self._is_as_W(x)
        cdef const void *numbers = cnp.PyArray_DATA(x)
        cdef const void *at = cnp.PyArray_DATA(columns)
        cdef _Workspace workspace = self._take_workspace()
        with nogil:
            if wide:
                outside = _first_outside(<const int64_t *> at, n, self.n_features)
            else:
                outside = _first_outside(<const int32_t *> at, n, self.n_features)
            if outside == n:
                if not as_is:
                    numbers = self._convert_row(numbers, n, workspace)
                self.times.sparse(numbers, at, wide, n, workspace.b)
                count = self._decode(workspace)
        if outside < n:
            self.pool.append(workspace)
            raise _outside(self.n_features, columns[outside])
        return self._result(workspace, count)

    cdef _call_dense(self, row):
        if not _is_real_vector(row):
            row = self._as_reals(row, "dense_row")
        cdef cnp.ndarray x = row
        if cnp.PyArray_DIM(x, 0) != self.n_features:
            raise ValueError(
                f"dense_row must have {self.n_features} numbers, one per feature, got {cnp.PyArray_DIM(x, 0)}")
        cdef bint as_is = self._is_as_W(x)
        cdef const void *numbers = cnp.PyArray_DATA(x)
        cdef int64_t count
        cdef _Workspace workspace = self._take_workspace()
        with nogil:
            if not as_is:
                numbers = self._convert_row(numbers, self.n_features, workspace)
            self.times.dense(numbers, workspace.b)
            count = self._decode(workspace)
        return self._result(workspace, count)

    # ------------------------------------------------------------ workspaces

    cdef _Workspace _new_workspace(self):
        cdef _Workspace w = _Workspace.__new__(_Workspace)
        cdef size_t real = 8 if self.times.is_double else 4, found = 8 if self.is_double else 4
        cdef size_t width = self.times.width, s = self.sparsity
        cdef size_t engine_bytes
        if self.decoder is not None:
            engine_bytes = self.decoder.workspace_bytes
        else:
            engine_bytes = self.projector.workspace_bytes
        cdef size_t[6] sizes = [
            engine_bytes, width * real, width * found if real != found else 0, s * 8, s * found, self.n_features * real]
        cdef size_t[6] starts
        cdef size_t total = 0
        cdef int part
        for part in range(6):
            starts[part] = total
            total += (sizes[part] + 63) // 64 * 64
        # Cache lines of its own: 128 bytes more, to start on one and to end before the next.
        w.memory = np.zeros(total + 128, dtype=np.uint8)
        cdef char *start = <char *> &w.memory[0]
        start = start + (64 - <size_t> start % 64) % 64
        w.engine = start + starts[0]
        w.b = start + starts[1]
        w.b_decoded = start + starts[2] if real != found else w.b
        w.index = <int64_t *> (start + starts[3])
        w.value = start + starts[4]
        w.x = start + starts[5]
        return w

    cdef _Workspace _take_workspace(self):
        # Not by `except IndexError`: what Cython makes of that crashes where there is no memory for a traceback.
        cdef PyObject *taken = PyObject_CallMethodObjArgs(self.pool, "pop", NULL)
        cdef _Workspace workspace
        if taken == NULL:
            PyErr_Clear()
            return self._new_workspace()
        workspace = <_Workspace> taken
        Py_DECREF(workspace)
        return workspace

    # ------------------------------------------------------------ the parts of a call

    cdef bint _is_as_W(self, cnp.ndarray x):
        return (cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT64) == self.times.is_double

    cdef const void *_convert_row(self, const void *x, int64_t n, _Workspace workspace) noexcept nogil:
        if self.times.is_double:
            _convert(<const float *> x, n, <double *> workspace.x)
        else:
            _convert(<const double *> x, n, <float *> workspace.x)
        return workspace.x

    cdef int64_t _decode(self, _Workspace workspace) noexcept nogil:
        """From b = x W to the entries of the result. Returns how many; -1 where b is not finite."""
        cdef int64_t width = self.times.width
        if self.times.is_double:
            _add(<double *> workspace.b, <const double *> self.intercept, width)
        else:
            _add(<float *> workspace.b, <const float *> self.intercept, width)
        if self.is_double and not self.times.is_double:
            _convert(<const float *> workspace.b, width, <double *> workspace.b_decoded)
        elif self.times.is_double and not self.is_double:
            _convert(<const double *> workspace.b, width, <float *> workspace.b_decoded)
        if self.decoder is not None:
            return self.decoder.decode(workspace.b_decoded, workspace.engine, workspace.index, workspace.value)
        return self.projector.project(workspace.b_decoded, workspace.engine, workspace.index, workspace.value)

    cdef tuple _result(self, _Workspace workspace, int64_t count):
        if count == STOPPED:  # with its workspace in the middle of a row
            pending_error()
        cdef cnp.npy_intp size = max(count, 0), e
        cdef cnp.ndarray indices = cnp.PyArray_EMPTY(1, &size, self.index_type, 0)
        cdef cnp.ndarray values = cnp.PyArray_EMPTY(1, &size, cnp.NPY_FLOAT64 if self.is_double else cnp.NPY_FLOAT32, 0)
        cdef int32_t *narrow
        if self.index_type == cnp.NPY_INT64:
            memcpy(cnp.PyArray_DATA(indices), workspace.index, size * sizeof(int64_t))
        else:
            narrow = <int32_t *> cnp.PyArray_DATA(indices)
            for e in range(size):
                narrow[e] = <int32_t> workspace.index[e]
        memcpy(cnp.PyArray_DATA(values), workspace.value, size * (8 if self.is_double else 4))
        self.pool.append(workspace)
        return indices, values

    cdef _as_reals(self, x, str name):
        """Whatever else may stand for a vector of real numbers, in the dtype of W."""
        x = _as_vector(x, name)
        if x.dtype.kind not in "fiub":
            raise TypeError(f"{name} must hold real numbers (float32, float64 or integers), got dtype {x.dtype}")
        with np.errstate(over="ignore"):
            return np.require(x, np.float64 if self.times.is_double else np.float32, ["C", "A"])


# ---------------------------------------------------------------- vectors

cdef inline bint _is_vector(x) noexcept:
    """Whether its memory can be read as it is."""
    return (cnp.PyArray_CheckExact(x) and cnp.PyArray_NDIM(<cnp.ndarray> x) == 1
            and cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray> x) and cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray> x))


cdef inline bint _is_real_vector(x) noexcept:
    if not _is_vector(x):
        return False
    cdef int kind = cnp.PyArray_TYPE(<cnp.ndarray> x)
    return kind == cnp.NPY_FLOAT32 or kind == cnp.NPY_FLOAT64


cdef inline bint _is_index_vector(x) noexcept:
    if not _is_vector(x):
        return False
    cdef int kind = cnp.PyArray_TYPE(<cnp.ndarray> x)
    if kind != cnp.NPY_INT and kind != cnp.NPY_LONG and kind != cnp.NPY_LONGLONG:
        return False
    return cnp.PyArray_ITEMSIZE(<cnp.ndarray> x) == 4 or cnp.PyArray_ITEMSIZE(<cnp.ndarray> x) == 8


cdef _as_vector(x, str name):
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill its masked entries first, e.g. with filled(0)")
    x = np.asarray(x)
    if x.ndim != 1:
        raise ValueError(
            f"{name} must be 1-D, got shape {x.shape}; a sparse row is given as predictor(row.indices, row.data)")
    return x


cdef _outside(int64_t n_features, index):
    return ValueError(f"indices must be from 0 to {n_features - 1}, got {index}")


cdef _as_indices(indices, int64_t n_features):
    """Whatever else may stand for a vector of integers below `n_features`, as int64."""
    indices = _as_vector(indices, "indices")
    if indices.dtype.kind not in "iu" and indices.size:
        raise TypeError(f"indices must hold integers, got dtype {indices.dtype}")
    if indices.dtype == np.uint64:  # what is past int64 would turn negative
        outside = indices[indices >= <uint64_t> n_features]
        if outside.size:
            raise _outside(n_features, outside[0])
    return np.require(indices, np.int64, ["C", "A"])


# ---------------------------------------------------------------- leaves

cdef inline int64_t _first_outside(const index_t *indices, int64_t n, int64_t end) noexcept nogil:
    """The first entry that is not in [0, end), or n."""
    cdef int64_t e
    for e in range(n):
        if indices[e] < 0 or indices[e] >= end:
            return e
    return n


cdef inline void _add(real_t *b, const real_t *intercept, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        b[i] += intercept[i]


cdef inline void _convert(const real_t *x, int64_t n, other_t *out) noexcept nogil:
    """To the other dtype, rounded as NumPy does it."""
    cdef int64_t i
    for i in range(n):
        out[i] = <other_t> x[i]
