"""The compiled core.

::

    shore.project ──► projection.pyx        rows across threads, one workspace a thread
                        └─► projection_kernel.h    blocks of a row against the current s-th best
                              ├─► topk.h           the best s: sorted list (s ≤ 32) or heap
                              └─► constraint.h     F: keys, values, and which outputs a row may use

    shore.decode ───► decode.pyx            one engine a thread, rows from a shared counter
                        └─► decode_kernel.h        rows in work, refilled as they finish
                              ├─► full_pass.h      all outputs against a block of rows: sparse signs, dense Φ
                              │     ├─► dense_coarse.h     8-bit pass of a dense Φ (AVX-512 VNNI)
                              │     └─► one_row.h          outputs across the lanes, for a few rows
                              ├─► pgd.h, pursuit.h, fista.h    what a row does between passes, by method
                              ├─► offers.h         what outputs offer to a row: the best, noting, screening
                              └─► row_state.h      one row in work: φ_jᵀr, b - Φv, restarts, the last projection
                                    ├─► topk.h, constraint.h
                                    └─► compression.h      Φ: columns, or tables of sparse signs

    shore.*Compression ► compression.pyx    making of Φ (philox.h), Y Φᵀ and R Φ

    shore.solvers ──► linear.pyx            X P for CSR and dense rows, Gram matrices, conjugate gradients
                        └─► linear_kernel.h        SIMD across the columns of P (float32, float64, or float16
                                                   expanded as it is loaded); one block of columns a thread

    shore.Predictor ► serve.pyx             one row on the caller's thread, with a workspace from a pool
                        ├─► linear.pyx             RowTimes: x W
                        └─► decode.pyx             RowDecoder: the engine with one row in work
                            or projection.pyx      RowProjector: Π, for the uncompressed model

    shore.capi ─────► capi.pyx              the C interface (include/shore.h), on the caller's thread
                        ├─► decode.pyx             decode, and a full pass, which is its first step
                        └─► projection.pyx

    shore.datasets ─► xmc.pyx               text of the Extreme Classification Repository to CSR rows, and back
                        └─► xmc.h                  one line: labels, features, exact decimals

    feasible.pyx    F and allowed / denied as the kernels read them; built by shore.constraints
    threads.py      how many threads a call runs on; the only place that decides it
    blas.py         how many threads BLAS runs on meanwhile; the only place that changes it
    runtime.pyx     the SIMD level in use, and how the modules were compiled
    multiversion.h  compiles a kernel template for (float, double) × (baseline, AVX2, AVX-512);
                    the table of versions is indexed by runtime.simd_level() at the call
    vector.h        the vectors of a level, for templates (coarse_vector.h: of 16-bit integers)
    openmp.h        the only file that includes omp.h
    _typedefs.pxd   real_t (float, double) and index_t (int32, int64)

A *block* is as many rows as a full pass has lanes: 32 for sparse signs, three vectors for a dense Φ. Its residuals
are interleaved so that one load brings one component of all its rows.

Who owns what: the Python layer validates, allocates every output as NumPy arrays, and makes one call; kernels
allocate nothing, take no lock, call nothing of Python and write only what is marked OUT. A row is always the work
of one thread, and every path computes φ_jᵀr in the same order of additions, so results do not depend on the number
of threads, the batch, or the order of rows.
"""
