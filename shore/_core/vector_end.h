/* Undoes vector.h at the end of a template. */
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
