"""Predictor: a fitted model as a callable for one row."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from shore._core.decode import METHODS, RowDecoder
from shore._core.linear import RowTimes
from shore._core.projection import RowProjector
from shore._core.serve import RowPredictor
from shore._validation import check_positive
from shore.compression import Compression
from shore.constraints import Constraint, feasible_set
from shore.decoders import DecodeOptions, engine_step

__all__ = ["Predictor"]

Array = npt.NDArray[Any]

_W_KINDS = (np.float16, np.float32, np.float64)


def _describe(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def _check_parts(weights: Any, intercept: Any, compression: Any, options: Any) -> None:
    """W, intercept and Φ must be of one model: the kernels go by the sizes of one and read the others."""
    for name, array, kinds in (("weights", weights, _W_KINDS), ("intercept", intercept, _W_KINDS[1:])):
        if not isinstance(array, np.ndarray) or array.dtype not in kinds:
            accepted = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name} must be an array of {accepted}, got {_describe(array)}")
    if weights.ndim != 2 or weights.size == 0:
        raise ValueError(f"weights must have shape (d, m), got {weights.shape}")
    m = weights.shape[1]
    if intercept.shape != (m,):
        raise ValueError(f"intercept must have shape ({m},), one number per column of weights, got {intercept.shape}")
    if compression is not None and not isinstance(compression, Compression):
        raise TypeError(f"compression must be a compression or None, got {_describe(compression)}")
    if compression is not None and compression.n_components != m:
        raise ValueError(f"compression must have n_components={m}, one for each column of weights, got {compression!r}")
    if not isinstance(options, DecodeOptions):
        raise TypeError(f"options must be DecodeOptions, got {_describe(options)}")


class Predictor(RowPredictor):
    """The prediction for one row, with as little as possible around it; made by `ShoreRegressor.predictor`.

    ``predictor(indices, values)`` predicts a sparse row, ``predictor(dense_row)`` a dense one. Both give
    ``(indices, values)``: the row of `ShoreRegressor.predict` to the bit, as two arrays. A sparse row counts as the
    CSR row that it would be a part of, its entries added in the order given: indices may be unsorted and repeated,
    but only for sorted ones without repetition are the bits those of `predict`, which sorts first.

    The model is taken as it is: W, intercept and Φ are held, not copied, and later fits and changed parameters do not
    reach the predictor. A call changes nothing in it, so any number of threads may call one predictor at once, each
    call on its own thread and with the GIL released; a forked child may go on with its parent's. It can be pickled,
    and takes W along.

    A call allocates its result and nothing else, given native arrays: contiguous, int32 or int64 indices, float32 or
    float64 values. Everything else that NumPy takes for a vector of numbers is converted first.

    Checked are lengths, and that every index is in [0, d). Not checked is that values are finite: a row with NaN or
    infinity, or with scores past the range of the dtype, comes out empty. Arrays must not be written to during a call.

    Parameters
    ----------
    weights : ndarray of shape (d, m)
        Wᵀ; C-contiguous, or it is copied.
    intercept : ndarray of shape (m,)
    compression : Compression or None
        Φ; None for the uncompressed model.
    sparsity : int
    constraint : Constraint
    options : DecodeOptions
        Of the decoder.

    Attributes
    ----------
    n_features, n_outputs, sparsity : int
        d, K and s.

    Examples
    --------
    >>> import numpy as np, shore
    >>> from shore.datasets import make_synthetic
    >>> problem = make_synthetic(2000, 50, 1000, sparsity=3, snr_db=30)
    >>> model = shore.ShoreRegressor(sparsity=3, n_components=200).fit(problem.X, problem.Y)
    >>> predictor = model.predictor()
    >>> indices, values = predictor(problem.X[0])
    >>> expected = model.predict(problem.X[:1])
    >>> np.array_equal(indices, expected.indices), np.array_equal(values, expected.data)
    (True, True)
    >>> indices, values = predictor(np.array([3, 14]), np.array([0.5, -1.0]))
    >>> len(indices) <= 3
    True
    """

    _given: tuple[Any, ...]

    def __new__(
        cls,
        weights: Array,
        intercept: Array,
        compression: Compression | None,
        sparsity: int,
        constraint: Constraint,
        options: DecodeOptions,
    ) -> Self:
        """All of it is set here, once: a predictor that is called elsewhere meanwhile does not change."""
        _check_parts(weights, intercept, compression, options)
        times = RowTimes(np.require(weights, requirements=["C", "A"]))
        n_outputs = times.width if compression is None else compression.n_outputs
        s = check_positive(sparsity, "sparsity", n_outputs)
        engine: RowDecoder | RowProjector
        if compression is None:
            dtype = np.dtype(np.float64 if times.is_double else np.float32)
            feasible = feasible_set(constraint, None, None, (1, n_outputs), dtype)
            engine = RowProjector(feasible, n_outputs, s, times.is_double)
        else:
            feasible = feasible_set(constraint, None, None, (1, n_outputs), compression.dtype)
            step, _ = engine_step(options, compression)
            engine = RowDecoder(
                METHODS[options.method], compression._phi, feasible, options.in_work(s, n_outputs), s, step,
                options.max_iter, options.tol, options.l1,
            )  # fmt: skip
        self = super().__new__(cls, times, intercept, engine, n_outputs, s)
        self._given = (weights, intercept, compression, s, constraint, options)
        return self

    def __reduce__(self) -> Any:
        return type(self), self._given

    def __repr__(self) -> str:
        weights, _, compression, _, constraint, options = self._given
        how = "uncompressed" if compression is None else f"m={weights.shape[1]}, decoder={options.method!r}"
        return (
            f"<{type(self).__name__}: d={self.n_features}, K={self.n_outputs}, {how}, sparsity={self.sparsity}, "
            f"constraint={constraint!r}, {weights.dtype}>"
        )
