/* Φ as shore.h hands it out. */
#ifndef SHORE_CAPI_H
#define SHORE_CAPI_H

#include <float.h>
#include "compression.h"
#include "shore.h"

struct shore_phi {
    const shore_compression *compression;
    int is_double;
};

/* Volatile, as GCC 12 forgets to round two neighbours that it joins into a vector. */
static inline double shore_round_to_float(double x) {
    volatile float rounded = (float)x;
    return rounded;
}

#endif
