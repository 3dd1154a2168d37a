"""The compiled core.

::

    shore.project ──► projection.pyx        rows across threads, one workspace a thread
                        └─► projection_kernel.h    blocks of a row against the current s-th best
                              ├─► topk.h           the best s: sorted list (s ≤ 32) or heap
                              └─► constraint.h     F: keys, values, and which outputs a row may use

    feasible.pyx    F and allowed / denied as the kernels read them; built by shore.constraints
    threads.py      how many threads a call runs on; the only place that decides it
    runtime.pyx     the SIMD level in use, and how the modules were compiled
    multiversion.h  compiles a kernel template for (float, double) × (baseline, AVX2, AVX-512);
                    the table of versions is indexed by runtime.simd_level() at the call
    openmp.h        the only file that includes omp.h
    _typedefs.pxd   real_t (float, double) and index_t (int32, int64)

Who owns what: the Python layer validates, allocates every output and every workspace as NumPy arrays, and
makes one call; kernels allocate nothing, take no lock, call nothing of Python and write only what is marked
OUT. A row is always the work of one thread, so results do not depend on the number of threads.
"""
