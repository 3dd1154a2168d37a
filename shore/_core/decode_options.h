/* The decode engine's shared, read-only description of the problem: no kernels. */
#ifndef SHORE_DECODE_OPTIONS_H
#define SHORE_DECODE_OPTIONS_H

#include <stdint.h>
#include "compression.h"
#include "constraint.h"
#include "shore.h" /* the other methods, and shore_decode_outcome: what is said of a row */

/* Not in shore.h: its step is in units of 1/‖Φ‖₂², which callers in C do not have. */
enum { SHORE_FISTA = 3 };

/* How a call that lasts is ended early. The thread that made the call asks, the others see the answer. */
typedef struct {
    int (*ask)(void); /* not 0 to stop; it may take its time, so it is asked about four times a second */
    double asked;     /* when, in seconds; 0 before the first time */
    int stop;         /* the answer: rows in work are left as they are */
    int at_work;      /* engines that run */
} shore_interrupt;

typedef struct {
    int method;
    const shore_compression *phi;
    const shore_constraint *constraint; /* F */
    const shore_constraint *search;     /* how offers are ranked in a pass: F for pgd and cd, else by size */
    int64_t sparsity; /* of the vectors in work */
    int64_t keep;     /* of the result, at most that many */
    int64_t max_iter;
    double step;
    double tol;
    double l1; /* fista: weight of the penalty, as a share of max_j |φ_jᵀb| */
    double note_quantile; /* how many standard deviations of noise a pass leaves out when it notes */
    int screening;     /* 0 decides every projection by a full pass: for tests */
    int64_t max_rows;  /* in work at once in a thread; 1 keeps to the path for one row */
    shore_interrupt *interrupt; /* NULL: the call runs to its end */
    int asks;                   /* whether it is for this thread to ask */
} shore_decode_options;

#endif
