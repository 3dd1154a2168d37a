"""The table of functions of shore.h: arguments are checked here, the work is that of the other modules."""

from cpython.pycapsule cimport (
    PyCapsule_GetContext, PyCapsule_GetPointer, PyCapsule_New, PyCapsule_SetContext, PyCapsule_SetDestructor)
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.math cimport INFINITY, NAN, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from shore._core._typedefs cimport int64_t, real_t, uint8_t
from shore._core.compression cimport Phi, shore_compression
from shore._core.decode cimport run_engine, set_max_rows, set_options, shore_decode_options
from shore._core.feasible cimport shore_support
from shore._core.projection cimport project_bytes, project_row
from shore.capi cimport *


cdef extern from "shore.h":
    const char *SHORE_API_CAPSULE
    const char *SHORE_PHI_CAPSULE

cdef extern from "capi.h" nogil:
    const double FLT_MIN, FLT_MAX, DBL_MIN, DBL_MAX
    ctypedef struct phi_members "struct shore_phi":
        const shore_compression *compression
        bint is_double
    double shore_round_to_float(double x) noexcept

# Workspaces begin on a cache line.
cdef enum:
    CACHE_LINE = 64


cdef inline size_t _rounded_up(size_t number) noexcept nogil:
    return (number + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE


cdef inline char *_aligned(void *workspace) noexcept nogil:
    return <char *> _rounded_up(<size_t> workspace)


cdef inline const shore_compression *_compression(const shore_phi *phi) noexcept nogil:
    return (<const phi_members *> phi).compression


cdef inline bint _is_double(const shore_phi *phi) noexcept nogil:
    return (<const phi_members *> phi).is_double


# ---------------------------------------------------------------- what is accepted

cdef const char *message(int code) noexcept nogil:
    if code == SHORE_OK:
        return "no error"
    if code == SHORE_NOT_FINITE:
        return "a row holds NaN or infinity, or its norm is past 1e150"
    if code == SHORE_BAD_DTYPE:
        return "phi must be of the dtype that the function is for: float or double"
    if code == SHORE_BAD_N_ROWS:
        return "n_rows must be from 0 to 2^48"
    if code == SHORE_BAD_N_OUTPUTS:
        return "n_outputs must be at least 1"
    if code == SHORE_BAD_SPARSITY:
        return "sparsity must be from 1 to the number of outputs, and decode_sparsity at least 0"
    if code == SHORE_BAD_CONSTRAINT:
        return ("constraint must be of a kind of shore.h, a box with low <= 0 <= high, and a simplex with a positive "
                "total whose square is in the range of the dtype")
    if code == SHORE_BAD_FORBIDDEN:
        return "forbidden must leave an output to a simplex"
    if code == SHORE_BAD_METHOD:
        return "method must be SHORE_PGD, SHORE_CD or SHORE_OMP"
    if code == SHORE_BAD_MAX_ITER:
        return "max_iter must be at least 1"
    if code == SHORE_BAD_STEP:
        return "step must be a positive number"
    if code == SHORE_BAD_TOL:
        return "tol must be a non-negative number"
    return "not a code of shore"


cdef int _check_n_rows(int64_t n_rows) noexcept nogil:
    # no memory holds more, and the bytes of a workspace for so many do not overflow
    return SHORE_OK if 0 <= n_rows <= <int64_t> 1 << 48 else SHORE_BAD_N_ROWS


cdef int _check_sparsity(int64_t sparsity, int64_t n_outputs) noexcept nogil:
    return SHORE_OK if 1 <= sparsity <= n_outputs else SHORE_BAD_SPARSITY


cdef int _check_set(
    const shore_constraint *given, const uint8_t *forbidden, int64_t n_outputs, bint is_double,
    shore_constraint *constraint,      # OUT  with bounds rounded to the dtype, as shore.constraints does
) noexcept nogil:
    cdef double tiny = DBL_MIN if is_double else FLT_MIN, most = DBL_MAX if is_double else FLT_MAX
    cdef int64_t j
    constraint[0] = given[0]
    if not SHORE_REAL <= given.kind <= SHORE_SIMPLEX:
        return SHORE_BAD_CONSTRAINT
    if given.kind == SHORE_BOX:
        if not given.low <= 0 <= given.high:
            return SHORE_BAD_CONSTRAINT
        if not is_double:
            constraint.low, constraint.high = shore_round_to_float(given.low), shore_round_to_float(given.high)
    if given.kind == SHORE_SIMPLEX:
        if not tiny <= given.total <= sqrt(most):
            return SHORE_BAD_CONSTRAINT
        if forbidden != NULL:
            for j in range(n_outputs):
                if not forbidden[j]:
                    return SHORE_OK
            return SHORE_BAD_FORBIDDEN
    return SHORE_OK


cdef int _check_decoding(const shore_decoding *decoding, int64_t n_outputs) noexcept nogil:
    if not SHORE_PGD <= decoding.method <= SHORE_OMP:
        return SHORE_BAD_METHOD
    if decoding.decode_sparsity < 0:
        return SHORE_BAD_SPARSITY
    if decoding.max_iter < 1:
        return SHORE_BAD_MAX_ITER
    if not 0 < decoding.step < INFINITY:
        return SHORE_BAD_STEP
    if not 0 <= decoding.tol < INFINITY:
        return SHORE_BAD_TOL
    return _check_sparsity(decoding.sparsity, n_outputs)


cdef shore_support _all_but(const uint8_t *forbidden) noexcept nogil:
    cdef shore_support support
    support.forbidden = forbidden
    support.list = NULL
    support.n_list = 0
    support.list_allows = 0
    return support


# ---------------------------------------------------------------- Φ

cdef void phi_shape(
    const shore_phi *phi,
    int64_t *n_components,             # OUT
    int64_t *n_outputs,                # OUT
    int *is_double,                    # OUT
) noexcept nogil:
    n_components[0] = _compression(phi).n_components
    n_outputs[0] = _compression(phi).n_outputs
    is_double[0] = _is_double(phi)


cdef void _release_phi(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, SHORE_PHI_CAPSULE))
    Py_DECREF(<object> <PyObject *> PyCapsule_GetContext(capsule))


def phi_capsule(Phi phi not None):
    """A capsule with what shore_borrow_phi lends. It keeps Φ alive."""
    cdef phi_members *members = <phi_members *> malloc(sizeof(phi_members))
    if members == NULL:
        raise MemoryError
    members.compression = &phi.c
    members.is_double = phi.is_double
    try:
        capsule = PyCapsule_New(members, SHORE_PHI_CAPSULE, NULL)
    except BaseException:
        free(members)
        raise
    PyCapsule_SetContext(capsule, <void *> phi)
    Py_INCREF(phi)
    PyCapsule_SetDestructor(capsule, _release_phi)
    return capsule


# ---------------------------------------------------------------- projection

cdef size_t project_workspace(int64_t sparsity) noexcept nogil:
    return project_bytes(max(sparsity, 0)) + CACHE_LINE


cdef int64_t project(
    const real_t *v,                   # IN   (K,)
    int64_t n_outputs,
    const shore_constraint *constraint,
    int64_t sparsity,
    const uint8_t *forbidden,          # IN   (K,) or NULL
    void *workspace,
    int64_t *index,                    # OUT  (s,)
    real_t *value,                     # OUT  (s,)
) noexcept nogil:
    cdef shore_constraint checked
    cdef shore_support support = _all_but(forbidden)
    cdef int64_t count
    cdef int code
    if n_outputs < 1:
        return SHORE_BAD_N_OUTPUTS
    code = _check_sparsity(sparsity, n_outputs)
    if code == SHORE_OK:
        code = _check_set(constraint, forbidden, n_outputs, real_t is double, &checked)
    if code != SHORE_OK:
        return code
    count = project_row(v, n_outputs, &checked, &support, sparsity, _aligned(workspace), index, value)
    return count if count >= 0 else SHORE_NOT_FINITE


# ---------------------------------------------------------------- decoding, and a full pass, which is its first step

cdef void decode_defaults(
    shore_decoding *decoding,          # OUT
) noexcept nogil:
    decoding.method = SHORE_PGD
    decoding.constraint.kind = SHORE_REAL
    decoding.constraint.low = decoding.constraint.high = decoding.constraint.total = 0
    decoding.sparsity = decoding.decode_sparsity = 0
    decoding.max_iter = 60
    decoding.step = 0.9
    decoding.tol = 1e-3


cdef void _set_full_pass(shore_decoding *decoding, int64_t sparsity) noexcept nogil:
    """Π(Φᵀr) is one step of size 1 from 0."""
    decode_defaults(decoding)
    decoding.method = SHORE_CD
    decoding.sparsity = sparsity


cdef size_t _set_engine(
    const shore_phi *phi, const shore_decoding *decoding, const shore_constraint *constraint, int64_t n_rows,
    shore_decode_options *options,     # OUT
    shore_constraint *by_size,         # OUT
) noexcept nogil:
    """Returns the bytes that the engine works in."""
    cdef bint steps = decoding.method == SHORE_PGD
    cdef int64_t in_work = decoding.sparsity
    if decoding.method != SHORE_CD:
        in_work = min(max(in_work, decoding.decode_sparsity), _compression(phi).n_outputs)
    set_options(
        options, by_size, decoding.method, _compression(phi), constraint, in_work, decoding.sparsity,
        decoding.step if steps else 1.0, decoding.max_iter, decoding.tol, 0.0)
    return _rounded_up(set_max_rows(options, _is_double(phi), n_rows))


cdef size_t decode_workspace(const shore_phi *phi, const shore_decoding *decoding, int64_t n_rows) noexcept nogil:
    cdef shore_decode_options options
    cdef shore_constraint by_size
    if _check_n_rows(n_rows) != SHORE_OK or _check_decoding(decoding, _compression(phi).n_outputs) != SHORE_OK:
        return 0
    return (_set_engine(phi, decoding, &decoding.constraint, n_rows, &options, &by_size)
            + n_rows * sizeof(shore_decode_outcome) + CACHE_LINE)


cdef int decode(
    const shore_phi *phi,
    const real_t *B,                   # IN   (n, m)
    int64_t n_rows,
    const shore_decoding *decoding,
    const uint8_t *forbidden,          # IN   (K,) or NULL
    void *workspace,
    int64_t *index,                    # OUT  (n, s)
    real_t *value,                     # OUT  (n, s)
    int64_t *count,                    # OUT  (n,)
    shore_decode_outcome *outcome,     # OUT  (n,) or NULL
) noexcept nogil:
    cdef shore_decode_options options
    cdef shore_constraint checked, by_size
    cdef shore_support support = _all_but(forbidden)
    cdef int64_t counter = 0, i
    cdef size_t engine_bytes
    cdef char *memory = _aligned(workspace)
    cdef bint is_double = real_t is double
    cdef int code
    if _is_double(phi) != is_double:
        return SHORE_BAD_DTYPE
    code = _check_n_rows(n_rows)
    if code == SHORE_OK:
        code = _check_decoding(decoding, _compression(phi).n_outputs)
    if code == SHORE_OK:
        code = _check_set(
            &decoding.constraint, forbidden, _compression(phi).n_outputs, is_double, &checked)
    if code != SHORE_OK or n_rows == 0:
        return code
    engine_bytes = _set_engine(phi, decoding, &checked, n_rows, &options, &by_size)
    memset(memory, 0, engine_bytes)
    if outcome == NULL:
        outcome = <shore_decode_outcome *> (memory + engine_bytes)
    run_engine(&options, B, n_rows, &support, True, &counter, memory, index, value, count, outcome)
    for i in range(n_rows):
        if not outcome[i].residual < INFINITY:
            count[i] = SHORE_NOT_FINITE
        if decoding.method == SHORE_OMP:
            outcome[i].step = NAN
    return SHORE_OK


cdef size_t full_pass_workspace(const shore_phi *phi, int64_t sparsity, int64_t n_rows) noexcept nogil:
    cdef shore_decoding decoding
    _set_full_pass(&decoding, sparsity)
    return decode_workspace(phi, &decoding, n_rows)


cdef int full_pass(
    const shore_phi *phi,
    const real_t *R,                   # IN   (n, m)
    int64_t n_rows,
    const shore_constraint *constraint,
    int64_t sparsity,
    const uint8_t *forbidden,          # IN   (K,) or NULL
    void *workspace,
    int64_t *index,                    # OUT  (n, s)
    real_t *value,                     # OUT  (n, s)
    int64_t *count,                    # OUT  (n,)
) noexcept nogil:
    cdef shore_decoding decoding
    _set_full_pass(&decoding, sparsity)
    decoding.constraint = constraint[0]
    return decode(phi, R, n_rows, &decoding, forbidden, workspace, index, value, count, NULL)


# ---------------------------------------------------------------- the table

# Filled here, at import, and only read afterwards.
cdef shore_api _table
_table.abi_version = SHORE_ABI_VERSION
_table.size = sizeof(shore_api)
_table.message = message
_table.phi_shape = phi_shape
_table.project_workspace = project_workspace
_table.project_float = project[float]
_table.project_double = project[double]
_table.full_pass_workspace = full_pass_workspace
_table.full_pass_float = full_pass[float]
_table.full_pass_double = full_pass[double]
_table.decode_defaults = decode_defaults
_table.decode_workspace = decode_workspace
_table.decode_float = decode[float]
_table.decode_double = decode[double]

ABI_VERSION = SHORE_ABI_VERSION
API = PyCapsule_New(&_table, SHORE_API_CAPSULE, NULL)
