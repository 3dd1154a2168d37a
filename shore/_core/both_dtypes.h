/* Includes SHORE_TEMPLATE for float and for double, at the level set by multiversion.h, its only user. */
#define REAL float
#define REAL_MAX FLT_MAX
#define REAL_BITS 32
#include SHORE_TEMPLATE
#undef REAL
#undef REAL_MAX
#undef REAL_BITS

#define REAL double
#define REAL_MAX DBL_MAX
#define REAL_BITS 64
#include SHORE_TEMPLATE
#undef REAL
#undef REAL_MAX
#undef REAL_BITS
