/* The OpenMP facade: nobody else includes omp.h, and without OpenMP everything runs on one thread. */
#ifndef SHORE_OPENMP_H
#define SHORE_OPENMP_H

#ifdef _OPENMP
#include <omp.h>
#define SHORE_OPENMP_VERSION _OPENMP
#else
#define SHORE_OPENMP_VERSION 0
static inline int omp_get_thread_num(void) { return 0; }
#endif

#endif
