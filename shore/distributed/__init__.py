"""Training and scoring on a Dask cluster: rows that do not fit one machine, the model of one `fit`.

::

    fit                    training.py    checks, the route, Φ, and the model at the end
      ├─► blocks           blocks.py      Dask arrays, lists of delayed or futures, files: what a block of rows is
      ├─► statistics       statistics.py  XᵀX and XᵀB block by block, summed in a tree, one solve here
      └─► conjugate_gradients   cg.py     rows stay on the workers, W is here; products with P run there
    predict                scoring.py     blocks of CSR predictions, lazy or written to files
    workers.py             what a task may use: one thread; what all tasks share, once a worker; the sum in a tree

Every task runs on one thread: how many run at once is Dask's number, `nthreads` of its workers.
"""

try:
    from shore.distributed.scoring import predict
    from shore.distributed.training import fit
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("dask", "distributed"):
        raise
    raise ImportError(
        "shore.distributed needs dask and distributed, which are an extra: pip install 'shore[distributed]'"
    ) from error

__all__ = ["fit", "predict"]
