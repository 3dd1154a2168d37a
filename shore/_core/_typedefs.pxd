"""The types of the core: every kernel speaks these and no others."""

from libc.stdint cimport int32_t, int64_t, uint8_t

# Values: both dtypes are first class.
ctypedef fused real_t:
    float
    double

# CSR indices as SciPy hands them over.
ctypedef fused index_t:
    int32_t
    int64_t
