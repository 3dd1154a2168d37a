"""Decoding of many rows: one engine a thread, rows from a shared counter. Or of one row, by whoever calls."""

from cython.parallel cimport parallel, prange
from libc.stdlib cimport free, malloc

from shore._core._typedefs cimport int64_t, real_t, uint8_t
from shore._core.compression cimport Phi, shore_compression
from shore._core.feasible cimport FeasibleSet, shore_is_absolute, shore_support
from shore._core.runtime cimport simd_level
from shore.capi cimport (
    SHORE_CD, SHORE_OMP, SHORE_PGD, SHORE_REAL, shore_constraint, shore_decode_outcome)

import numpy as np


cdef extern from "decode.h" nogil:
    int SHORE_FISTA
    ctypedef size_t (*bytes_fn)(const shore_decode_options *) noexcept
    ctypedef int64_t (*lanes_fn)(const shore_compression *) noexcept
    ctypedef void (*rows_float_fn)(
        const shore_decode_options *, const float *, int64_t, const shore_support *, int64_t *, int64_t, char *,
        int64_t *, float *, int64_t *, shore_decode_outcome *) noexcept
    ctypedef void (*rows_double_fn)(
        const shore_decode_options *, const double *, int64_t, const shore_support *, int64_t *, int64_t, char *,
        int64_t *, double *, int64_t *, shore_decode_outcome *) noexcept
    double shore_note_quantile(int64_t, int) noexcept
    void shore_wait_for_others(const shore_decode_options *) noexcept
    int shore_add(int *, int) noexcept
    bytes_fn *shore_decode_bytes_float
    bytes_fn *shore_decode_bytes_double
    lanes_fn *shore_decode_lanes_float
    lanes_fn *shore_decode_lanes_double
    rows_float_fn *shore_decode_rows_float
    rows_double_fn *shore_decode_rows_double

# The layout of shore_decode_outcome.
OUTCOME = np.dtype([
    ("n_iter", np.int64), ("full_passes", np.int64), ("residual", np.float64), ("step", np.float64),
    ("converged", np.int64),
])

METHODS = {"pgd": SHORE_PGD, "cd": SHORE_CD, "omp": SHORE_OMP, "fista": SHORE_FISTA}

cdef extern from "Python.h":
    int PyErr_CheckSignals() noexcept  # -1, and an error is set

# Rows in work at once take no more than this in a thread, unless one alone does. With omp, where it is the factors
# that take the memory, a row's own work is by far more than what it saves to pass over the outputs with others.
cdef enum:
    WORKSPACE_BYTES = 1 << 28
    OMP_WORKSPACE_BYTES = 1 << 26


cdef void set_options(
    shore_decode_options *options, shore_constraint *by_size, int method, const shore_compression *phi,
    const shore_constraint *constraint, int64_t sparsity, int64_t keep, double step, int64_t max_iter, double tol,
    double l1,
) noexcept nogil:
    """All but max_rows. The options point to `by_size`, which is written here, and to all that is given."""
    by_size.kind = SHORE_REAL
    options.method = method
    options.phi = phi
    options.constraint = constraint
    options.search = constraint if method == SHORE_PGD or method == SHORE_CD else by_size
    options.sparsity, options.keep = sparsity, keep
    options.max_iter = max_iter
    options.step = step
    options.tol = tol
    options.l1 = l1
    options.note_quantile = shore_note_quantile(phi.n_outputs, shore_is_absolute(options.search))
    options.screening = True
    options.interrupt = NULL
    options.asks = False


cdef int _ask_python() noexcept nogil:
    """Runs the handlers of signals that have come. Not 0 if one has raised: the error stays set for pending_error."""
    with gil:
        return PyErr_CheckSignals()


cdef int pending_error() except -1:
    """Raises what _ask_python left."""
    return -1


cdef void _begin_to_ask(shore_interrupt *interrupt) noexcept nogil:
    interrupt.ask = _ask_python
    interrupt.asked = 0
    interrupt.stop = interrupt.at_work = 0


cdef inline size_t _bytes(const shore_decode_options *options, bint is_double) noexcept nogil:
    if is_double:
        return shore_decode_bytes_double[simd_level()](options)
    return shore_decode_bytes_float[simd_level()](options)


cdef size_t set_max_rows(shore_decode_options *options, bint is_double, int64_t most) noexcept nogil:
    """Sets how many of `most` rows are in work at once. Returns the bytes of a workspace: no fewer for more rows."""
    cdef int64_t lanes
    if is_double:
        lanes = shore_decode_lanes_double[simd_level()](options.phi)
    else:
        lanes = shore_decode_lanes_float[simd_level()](options.phi)
    options.max_rows = max(1, min(lanes, most))
    cdef size_t most_bytes = OMP_WORKSPACE_BYTES if options.method == SHORE_OMP else WORKSPACE_BYTES
    while options.max_rows > 1 and _bytes(options, is_double) > most_bytes:
        options.max_rows -= 1
    return _bytes(options, is_double)


cdef void run_engine(
    const shore_decode_options *options, const real_t *B, int64_t n, const shore_support *permits, bint one_permit,
    int64_t *counter, char *workspace, int64_t *index, real_t *value, int64_t *count,
    shore_decode_outcome *outcome,
) noexcept nogil:
    """Decodes rows until the counter is at n. The workspace starts on a cache line."""
    if real_t is float:
        shore_decode_rows_float[simd_level()](
            options, B, n, permits, counter, one_permit, workspace, index, value, count, outcome)
    else:
        shore_decode_rows_double[simd_level()](
            options, B, n, permits, counter, one_permit, workspace, index, value, count, outcome)


def decode_rows(
    int method,                        # IN   one of METHODS
    const real_t[:, ::1] B,            # IN   (n, m)
    Phi phi,                           # IN
    FeasibleSet feasible,              # IN
    int64_t first_row,                 # IN   number of B[0] in `feasible`
    int64_t sparsity,                  # IN   of the vectors in work, at least s
    double step,
    int64_t max_iter,
    double tol,
    double l1,
    int64_t[:, ::1] index,             # OUT  (n, s)
    real_t[:, ::1] value,              # OUT  (n, s)
    int64_t[::1] count,                # OUT  (n,)
    uint8_t[::1] outcome,              # OUT  (n,) of OUTCOME, as bytes
    int n_threads,
    bint screening=True,
    int64_t max_rows=0,
):
    """Decode every row, or raise what a handler of a signal does.

    `screening` and `max_rows` (in work at once, 0 for what suits) are for tests.
    """
    cdef int64_t n = B.shape[0], counter = 0, i, most = max_rows if max_rows > 0 else (n + n_threads - 1) // n_threads
    cdef shore_decode_options options, asking
    cdef shore_interrupt interrupt
    cdef shore_constraint by_size
    cdef size_t workspace_bytes
    cdef shore_support *permits
    cdef int64_t n_permits = n if feasible.has_list and not feasible.list_is_shared else 1
    cdef bint is_double = real_t is double
    if B.shape[1] != phi.c.n_components or phi.is_double != is_double:
        raise ValueError("B does not fit phi")
    if n == 0:
        return
    set_options(&options, &by_size, method, &phi.c, &feasible.constraint, sparsity, index.shape[1], step, max_iter, tol,
                l1)
    options.screening = screening
    workspace_bytes = set_max_rows(&options, is_double, most)
    _begin_to_ask(&interrupt)
    options.interrupt = &interrupt
    asking = options
    asking.asks = True
    # Cache lines of its own for every thread: 64 bytes more, to start on one.
    cdef uint8_t[:, ::1] workspace = np.zeros((n_threads, workspace_bytes + 128), dtype=np.uint8)

    permits = <shore_support *> malloc(n_permits * sizeof(shore_support))
    if permits == NULL:
        raise MemoryError
    try:
        for i in range(n_permits):
            permits[i] = feasible.support_of(first_row + i)
        with nogil, parallel(num_threads=n_threads, use_threads_if=n_threads > 1):
            for i in prange(n_threads, schedule="static", chunksize=1):  # the first is the caller's own
                shore_add(&interrupt.at_work, 1)
                run_engine(&asking if i == 0 else &options, &B[0, 0], n, permits, n_permits == 1, &counter,
                           _aligned(&workspace[i, 0]), &index[0, 0], &value[0, 0], &count[0],
                           <shore_decode_outcome *> &outcome[0])
                shore_add(&interrupt.at_work, -1)
                if i == 0:
                    shore_wait_for_others(&asking)
        if interrupt.stop:
            pending_error()
    finally:
        free(permits)


cdef inline char *_aligned(uint8_t *memory) noexcept nogil:
    return <char *> memory + (64 - <size_t> memory % 64) % 64


cdef class RowDecoder:
    """The engine for one row at a time. It is only read: any number of threads may use it, each with a workspace.

    Parameters
    ----------
    method : int
        One of METHODS.
    phi, feasible, sparsity, step, max_iter, tol, l1
        As of decode_rows; `feasible` lets every row use the same outputs.
    keep : int
        Entries of a result at most, s.

    Attributes
    ----------
    workspace_bytes : int
        Of a workspace, which starts on a cache line and is zeroed before it is first used.
    """

    def __cinit__(self, int method, Phi phi not None, FeasibleSet feasible not None, int64_t sparsity, int64_t keep,
                  double step, int64_t max_iter, double tol, double l1):
        if not 1 <= keep <= sparsity:
            raise ValueError(f"keep must be from 1 to sparsity={sparsity}, got {keep}")
        self.phi, self.feasible = phi, feasible
        self.permit = feasible.support_of(0)
        self.is_double = phi.is_double
        set_options(&self.options, &self.by_size, method, &phi.c, &feasible.constraint, sparsity, keep, step, max_iter,
                    tol, l1)
        self.workspace_bytes = set_max_rows(&self.options, self.is_double, 1)

    cdef int64_t decode(
        self,
        const void *b,                 # IN   (m,)
        char *workspace,
        int64_t *index,                # OUT  (s,)
        void *value,                   # OUT  (s,)
    ) noexcept nogil:
        """Returns how many entries were written: none for a row with NaN, infinity, or a norm past 1e150. STOPPED
        where a handler of a signal has raised."""
        cdef int64_t counter = 0, count = 0
        cdef shore_decode_outcome outcome
        cdef shore_interrupt interrupt
        cdef shore_decode_options asking = self.options
        _begin_to_ask(&interrupt)
        asking.interrupt = &interrupt
        asking.asks = True
        if self.is_double:
            run_engine(&asking, <const double *> b, 1, &self.permit, True, &counter, workspace, index,
                       <double *> value, &count, &outcome)
        else:
            run_engine(&asking, <const float *> b, 1, &self.permit, True, &counter, workspace, index,
                       <float *> value, &count, &outcome)
        return STOPPED if interrupt.stop else count
