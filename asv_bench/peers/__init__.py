"""shore beside what people would pick instead, on the same data and threads.

    cd asv_bench && python -m peers [part ...]        (or `make peers`, which makes the environment for it)

    stage     decoding alone: K = 20,000, m = 500, s = 3, in one process, all in turns
    outputs   the same for K from 2,000 to 1,000,000
    models    from training rows to predictions, every model in a process of its own, in turns, several rounds

Each part writes its CSV to docs/figures; tables and figures are made from the CSV files, so that a part can be run
again by itself.
"""
