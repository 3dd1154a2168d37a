/* Undoes vector.h and coarse_vector.h at the end of a template. */
#undef V
#undef V_LANES
#undef V_LOAD
#undef V_STORE
#undef V_SET1
#undef V_ADD
#undef V_FMA
#undef V_ABS
#undef V_GT_BITS
#undef FMA
#undef W
#undef W_LANES
#undef W_LOAD
#undef W_STORE
#undef W_ADD
#undef W_ABS
#undef W_GT_BITS
