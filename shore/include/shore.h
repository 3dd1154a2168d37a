/* shore's C interface: projection, full passes and decoding over plain pointers.
 *
 * Everything is reached through one table of functions, `shore_api`, which the Python module shore.capi holds in a
 * capsule: there is nothing to link with. With Python.h included first,
 *
 *     const shore_api *shore = import_shore();          once, with the GIL; NULL with ImportError set
 *     const shore_phi *phi = shore_borrow_phi(capsule); of shore.capi.phi(compression); valid while the capsule lives
 *
 * and from there on nothing needs Python: the functions take no GIL, allocate nothing, keep no state, start no thread
 * and write only what is marked OUT. Any number of threads may call any of them at once, with one Φ for all and a
 * workspace for each. They use the widest vector instructions of the machine, or what SHORE_SIMD says.
 *
 * Rows are C-contiguous, m or K numbers each. Results come in slots of `sparsity` entries a row: row i has count[i]
 * outputs index[i · sparsity …] in ascending order, and their values; what is behind them is not written. They are, to
 * the bit, those of shore.project and shore.decode.
 *
 * A workspace is any memory of at least as many bytes as the function before it in the table says, whatever it holds;
 * what is enough for n_rows is enough for fewer.
 */
#ifndef SHORE_H
#define SHORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Goes up when anything below changes its meaning or its place. New functions are added at the end of the table, and
 * its size says how far it goes. */
#define SHORE_ABI_VERSION 1

#define SHORE_API_CAPSULE "shore.capi.API"
#define SHORE_PHI_CAPSULE "shore.capi.phi"

/* The feasible set F. */
enum { SHORE_REAL = 0, SHORE_NONNEG = 1, SHORE_BINARY = 2, SHORE_BOX = 3, SHORE_SIMPLEX = 4 };

typedef struct {
    int kind;
    double low, high; /* box: low ≤ 0 ≤ high, either may be infinite */
    double total;     /* simplex */
} shore_constraint;

/* The decoders of shore.decode but for "fista". */
enum { SHORE_PGD = 0, SHORE_CD = 1, SHORE_OMP = 2 };

/* How to decode; decode_defaults sets all of it, to what shore.decode has, but for the sparsity. */
typedef struct {
    int method;
    shore_constraint constraint;
    int64_t sparsity;        /* s, from 1 to K */
    int64_t decode_sparsity; /* outputs in work, if that is more than s; 0 for s */
    int64_t max_iter;
    double step;
    double tol;
} shore_decoding;

/* What a row came to, beside its entries; see shore.DecodeInfo. */
typedef struct {
    int64_t n_iter;
    int64_t full_passes;
    double residual;
    double step;
    int64_t converged;
} shore_decode_outcome;

/* Φ as the kernels read it. */
typedef struct shore_phi shore_phi;

/* What functions return; shore_api.message puts it into words. */
enum {
    SHORE_OK = 0,
    SHORE_NOT_FINITE = -1, /* in place of a row's count: it holds NaN or infinity, or its norm is past 1e150 */
    SHORE_BAD_DTYPE = -2,
    SHORE_BAD_N_ROWS = -3,
    SHORE_BAD_N_OUTPUTS = -4,
    SHORE_BAD_SPARSITY = -5,
    SHORE_BAD_CONSTRAINT = -6,
    SHORE_BAD_FORBIDDEN = -7,
    SHORE_BAD_METHOD = -8,
    SHORE_BAD_MAX_ITER = -9,
    SHORE_BAD_STEP = -10,
    SHORE_BAD_TOL = -11
};

typedef struct {
    int64_t abi_version; /* SHORE_ABI_VERSION */
    int64_t size;        /* of this struct in bytes */

    /* A code in words, for any int. */
    const char *(*message)(int code);

    /* m, K, and whether Φ is double: rows must be of its dtype. */
    void (*phi_shape)(const shore_phi *phi, int64_t *n_components /* OUT */, int64_t *n_outputs /* OUT */,
                      int *is_double /* OUT */);

    /* Π of one row v of K numbers. `forbidden` has a byte for each output, not 0 where it may not be kept, or is NULL.
     * Returns how many entries were written, or a code. */
    size_t (*project_workspace)(int64_t sparsity);
    int64_t (*project_float)(const float *v, int64_t n_outputs, const shore_constraint *constraint, int64_t sparsity,
                             const uint8_t *forbidden, void *workspace, int64_t *index /* OUT (s,) */,
                             float *value /* OUT (s,) */);
    int64_t (*project_double)(const double *v, int64_t n_outputs, const shore_constraint *constraint,
                              int64_t sparsity, const uint8_t *forbidden, void *workspace,
                              int64_t *index /* OUT (s,) */, double *value /* OUT (s,) */);

    /* One full pass, Π(Φᵀr) for every row r of R: of the numbers φ_jᵀr of all outputs the best s, which for SHORE_REAL
     * are the largest in size and for SHORE_NONNEG the largest. Returns a code; a workspace of 0 bytes means that one of
     * the arguments is not valid. */
    size_t (*full_pass_workspace)(const shore_phi *phi, int64_t sparsity, int64_t n_rows);
    int (*full_pass_float)(const shore_phi *phi, const float *R, int64_t n_rows, const shore_constraint *constraint,
                           int64_t sparsity, const uint8_t *forbidden, void *workspace,
                           int64_t *index /* OUT (n, s) */, float *value /* OUT (n, s) */,
                           int64_t *count /* OUT (n,) */);
    int (*full_pass_double)(const shore_phi *phi, const double *R, int64_t n_rows, const shore_constraint *constraint,
                            int64_t sparsity, const uint8_t *forbidden, void *workspace,
                            int64_t *index /* OUT (n, s) */, double *value /* OUT (n, s) */,
                            int64_t *count /* OUT (n,) */);

    /* y with Φy ≈ b, for every row b of B. Returns a code, as above; `outcome` may be NULL. */
    void (*decode_defaults)(shore_decoding *decoding /* OUT */);
    size_t (*decode_workspace)(const shore_phi *phi, const shore_decoding *decoding, int64_t n_rows);
    int (*decode_float)(const shore_phi *phi, const float *B, int64_t n_rows, const shore_decoding *decoding,
                        const uint8_t *forbidden, void *workspace, int64_t *index /* OUT (n, s) */,
                        float *value /* OUT (n, s) */, int64_t *count /* OUT (n,) */,
                        shore_decode_outcome *outcome /* OUT (n,) */);
    int (*decode_double)(const shore_phi *phi, const double *B, int64_t n_rows, const shore_decoding *decoding,
                         const uint8_t *forbidden, void *workspace, int64_t *index /* OUT (n, s) */,
                         double *value /* OUT (n, s) */, int64_t *count /* OUT (n,) */,
                         shore_decode_outcome *outcome /* OUT (n,) */);
} shore_api;

#ifdef Py_PYTHON_H

/* The table, checked against this header. With the GIL; NULL with an exception set if shore is not there or is not the
 * shore that this header is of. */
static inline const shore_api *import_shore(void) {
    const shore_api *api = NULL;
    PyObject *module = PyImport_ImportModule("shore.capi");
    PyObject *capsule = module ? PyObject_GetAttrString(module, "API") : NULL;
    if (capsule) api = (const shore_api *)PyCapsule_GetPointer(capsule, SHORE_API_CAPSULE);
    Py_XDECREF(capsule);
    Py_XDECREF(module); /* sys.modules keeps it, and the table is static */
    if (api && (api->abi_version != SHORE_ABI_VERSION || api->size < (int64_t)sizeof(shore_api))) {
        PyErr_Format(PyExc_ImportError,
                     "compiled for ABI version %d of shore with %lld bytes of functions, but the installed shore has "
                     "version %lld with %lld: build again, or install another shore",
                     SHORE_ABI_VERSION, (long long)sizeof(shore_api), (long long)api->abi_version,
                     (long long)api->size);
        return NULL;
    }
    return api;
}

/* Φ of a capsule that shore.capi.phi made; borrowed: the capsule must be kept for as long as Φ is used. With the GIL;
 * NULL with an exception set for anything else. */
static inline const shore_phi *shore_borrow_phi(PyObject *capsule) {
    return (const shore_phi *)PyCapsule_GetPointer(capsule, SHORE_PHI_CAPSULE);
}

#endif

#ifdef __cplusplus
}
#endif

#endif
