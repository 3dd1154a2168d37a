"""shore's C interface for Cython; shore.h has the same with all of its words.

    from shore.capi cimport import_shore, shore_api

    cdef const shore_api *shore = import_shore()

Build with ``include_dirs=[shore.get_include()]``.
"""

from libc.stdint cimport int64_t, uint8_t


cdef extern from "shore.h" nogil:
    const int SHORE_ABI_VERSION

    int SHORE_REAL, SHORE_NONNEG, SHORE_BINARY, SHORE_BOX, SHORE_SIMPLEX

    ctypedef struct shore_constraint:
        int kind
        double low
        double high
        double total

    int SHORE_PGD, SHORE_CD, SHORE_OMP

    ctypedef struct shore_decoding:
        int method
        shore_constraint constraint
        int64_t sparsity
        int64_t decode_sparsity
        int64_t max_iter
        double step
        double tol

    ctypedef struct shore_decode_outcome:
        int64_t n_iter
        int64_t full_passes
        double residual
        double step
        int64_t converged

    ctypedef struct shore_phi:
        pass

    int SHORE_OK, SHORE_NOT_FINITE, SHORE_BAD_DTYPE, SHORE_BAD_N_ROWS, SHORE_BAD_N_OUTPUTS, SHORE_BAD_SPARSITY
    int SHORE_BAD_CONSTRAINT, SHORE_BAD_FORBIDDEN, SHORE_BAD_METHOD, SHORE_BAD_MAX_ITER, SHORE_BAD_STEP, SHORE_BAD_TOL

    ctypedef struct shore_api:
        int64_t abi_version
        int64_t size

        const char *(*message)(int code) noexcept nogil
        void (*phi_shape)(
            const shore_phi *phi, int64_t *n_components, int64_t *n_outputs, int *is_double) noexcept nogil

        size_t (*project_workspace)(int64_t sparsity) noexcept nogil
        int64_t (*project_float)(
            const float *v, int64_t n_outputs, const shore_constraint *constraint, int64_t sparsity,
            const uint8_t *forbidden, void *workspace, int64_t *index, float *value) noexcept nogil
        int64_t (*project_double)(
            const double *v, int64_t n_outputs, const shore_constraint *constraint, int64_t sparsity,
            const uint8_t *forbidden, void *workspace, int64_t *index, double *value) noexcept nogil

        size_t (*full_pass_workspace)(const shore_phi *phi, int64_t sparsity, int64_t n_rows) noexcept nogil
        int (*full_pass_float)(
            const shore_phi *phi, const float *R, int64_t n_rows, const shore_constraint *constraint,
            int64_t sparsity, const uint8_t *forbidden, void *workspace, int64_t *index, float *value,
            int64_t *count) noexcept nogil
        int (*full_pass_double)(
            const shore_phi *phi, const double *R, int64_t n_rows, const shore_constraint *constraint,
            int64_t sparsity, const uint8_t *forbidden, void *workspace, int64_t *index, double *value,
            int64_t *count) noexcept nogil

        void (*decode_defaults)(shore_decoding *decoding) noexcept nogil
        size_t (*decode_workspace)(
            const shore_phi *phi, const shore_decoding *decoding, int64_t n_rows) noexcept nogil
        int (*decode_float)(
            const shore_phi *phi, const float *B, int64_t n_rows, const shore_decoding *decoding,
            const uint8_t *forbidden, void *workspace, int64_t *index, float *value, int64_t *count,
            shore_decode_outcome *outcome) noexcept nogil
        int (*decode_double)(
            const shore_phi *phi, const double *B, int64_t n_rows, const shore_decoding *decoding,
            const uint8_t *forbidden, void *workspace, int64_t *index, double *value, int64_t *count,
            shore_decode_outcome *outcome) noexcept nogil


cdef extern from "shore.h":
    const shore_api *import_shore() except NULL
    const shore_phi *shore_borrow_phi(object capsule) except NULL
