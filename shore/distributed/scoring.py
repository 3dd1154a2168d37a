"""predict: blocks of predictions, lazy or written to files."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from dask.delayed import delayed
from scipy import sparse

from shore._core.blas import limit_blas
from shore._files import replacing
from shore._validation import check_positive, is_sparse
from shore.distributed.blocks import check_chunks, input_blocks
from shore.distributed.workers import find_client, mapped, share
from shore.estimator import NotFittedError, ShoreRegressor
from shore.modelfile import load

__all__ = ["predict"]


@dataclass(frozen=True)
class Scoring:
    """A model, or the file to map it from, and what `ShoreRegressor.predict` is to be told."""

    model: ShoreRegressor | str
    options: dict[str, Any]

    def predict(self, x: Any) -> sparse.csr_array:
        """Predictions for a block, on one thread."""
        model = mapped(self.model) if isinstance(self.model, str) else self.model
        X = x[0] if _is_pair(x) else x
        with limit_blas(1):
            found: sparse.csr_array = model.predict(X, n_threads=1, **self.options)
        return found


def _is_pair(x: Any) -> bool:
    """Whether a block is (X, Y). Two rows in a list are none: a row has one axis."""
    if not isinstance(x, tuple | list) or len(x) != 2:
        return False
    first = x[0]
    rows_in_list = isinstance(first, list) and bool(first) and isinstance(first[0], list | tuple | np.ndarray)
    return rows_in_list or getattr(first, "ndim", 1) == 2


def predict_block(x: Any, scoring: Scoring) -> sparse.csr_array:
    """Predictions for a block of X, or of (X, Y)."""
    return scoring.predict(x)


def write_block(x: Any, scoring: Scoring, path: str) -> str:
    """Predictions for a block, in a file; its name."""
    found = scoring.predict(x)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with replacing(path) as file:
        sparse.save_npz(file, found)
    return path


def predict(
    model: ShoreRegressor | str | os.PathLike[str],
    X: Any,
    *,
    client: Any = None,
    output: str | os.PathLike[str] | None = None,
    sparsity: int | None = None,
    allowed: Any = None,
    denied: Any = None,
) -> Any:
    """Predict on the workers of a Dask cluster, block by block: the bits of the model's own `predict`.

    Parameters
    ----------
    model : ShoreRegressor, str or path
        A fitted model, of which every worker is sent a copy; or the file of one, as `ShoreRegressor.save` wrote it,
        where all workers see it: each maps it, and W is never sent.
    X : Dask array of shape (n, d), list of delayed or futures, or str
        As in `fit`; blocks (X, Y) will do, and their Y is not looked at.
    client : distributed.Client, optional
        None for the current one.
    output : str or path, optional
        A folder to write to, on the workers: a file ``.npz`` of `scipy.sparse.save_npz` for every block, whole or not
        there at all. Predictions of a file have its name; others are called ``part-00000.npz`` and so on.
    sparsity : int, optional
        Outputs to keep at most; None for the model's.
    allowed, denied : 1-D array of indices or booleans, optional
        As in `shore.decode`, for all rows.

    Returns
    -------
    Dask array of shape (n, K), or list
        Nothing is computed yet. For a Dask array one whose chunks are `scipy.sparse.csr_array`; for a list or files a
        list of delayed csr_array. With `output`, when all is written, the list of names of the files.

    Examples
    --------
    >>> import dask.array as da, shore
    >>> from distributed import Client
    >>> from shore.datasets import make_synthetic
    >>> from shore.distributed import predict
    >>> problem = make_synthetic(400, 20, 100, snr_db=30)
    >>> model = shore.ShoreRegressor(3, n_components=40).fit(problem.X, problem.Y)
    >>> X = da.from_array(problem.X, chunks=(100, -1))
    >>> with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
    ...     found = predict(model, X, client=client)  # lazy: four chunks of CSR rows
    ...     computed = found.compute()
    >>> found.chunks[0], abs(computed - model.predict(problem.X)).max().item()
    ((100, 100, 100, 100), 0.0)
    """
    source, known = _read_model(model)
    client = find_client(client)
    for name, which in (("allowed", allowed), ("denied", denied)):
        if which is not None and (is_sparse(which) or np.ndim(which) != 1):
            raise ValueError(f"{name} must be 1-D, the same for all rows")
    if output is not None and not isinstance(output, str | os.PathLike):
        raise TypeError(f"output must be a str, os.PathLike or None, got {output!r} of type {type(output).__name__}")
    if sparsity is not None:
        check_positive(sparsity, "sparsity")
    dtype = known._intercept.dtype
    if isinstance(X, da.Array):
        check_chunks(X, "X")
        if X.shape[1] != known.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but ShoreRegressor is expecting {known.n_features_in_} features as input"
            )
    options = {"sparsity": sparsity, "allowed": allowed, "denied": denied}
    scoring = share(client, Scoring(source, options))
    if isinstance(X, da.Array) and output is None:
        return X.map_blocks(
            predict_block, delayed(scoring), dtype=dtype, chunks=(X.chunks[0], (known.n_outputs_,)),
            meta=sparse.csr_array((0, 0), dtype=dtype),
        )  # fmt: skip
    blocks, names = input_blocks(client, X, dtype)
    if output is None:
        score = delayed(predict_block, pure=False)
        return [score(x, scoring) for x in blocks]
    write = delayed(write_block, pure=False)
    paths = _output_names(output, names, len(blocks))
    works = [write(x, scoring, path) for x, path in zip(blocks, paths, strict=True)]
    return client.gather(client.compute(works, optimize_graph=False))


def _read_model(model: Any) -> tuple[ShoreRegressor | str, ShoreRegressor]:
    """What workers are told of a model, and the model itself."""
    if isinstance(model, str | os.PathLike):
        path = os.path.abspath(os.fspath(model))
        return path, load(path, verify=False)
    if not isinstance(model, ShoreRegressor):
        raise TypeError(f"model must be a ShoreRegressor or the name of a model file, got {type(model).__name__}")
    try:
        model._require_fitted()
    except NotFittedError as error:
        raise type(error)(f"model: {error}") from None
    model = model._now()
    W, intercept, compression = model._weights()
    # without the sums of partial_fit
    lean = ShoreRegressor(**{name: getattr(model, name) for name in ShoreRegressor._parameter_names()})
    lean._keep(None, W, intercept, compression, model.n_outputs_, model.alpha_, model.solver_, model.n_iter_)
    return lean, lean


def _output_names(output: Any, names: list[str] | None, n_blocks: int) -> list[str]:
    folder = os.path.abspath(os.fspath(output))
    if names is None:
        stems = [f"part-{number:05d}" for number in range(n_blocks)]
    else:
        stems = [re.sub(r"\.(npz|npy|txt)?(\.gz)?$", "", Path(name).name, flags=re.IGNORECASE) for name in names]
        for stem, count in Counter(stems).items():
            if count > 1:
                raise ValueError(f"output: {count} files of X would be written to {stem}.npz; predict them by folder")
        if any(os.path.dirname(name) == folder for name in names):
            raise ValueError(f"output must be another folder than that of X, got {output!r}")
    return [os.path.join(folder, f"{stem}.npz") for stem in stems]
