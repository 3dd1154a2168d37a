from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt

from shore._core.decode import RowDecoder
from shore._core.linear import RowTimes
from shore._core.projection import RowProjector

class RowPredictor:
    n_features: int
    n_outputs: int
    sparsity: int

    def __new__(
        cls,
        times: RowTimes,
        intercept: npt.NDArray[Any],
        engine: RowDecoder | RowProjector,
        n_outputs: int,
        sparsity: int,
    ) -> Self: ...
    @overload
    def __call__(
        self, indices: npt.ArrayLike, values: npt.ArrayLike, /
    ) -> tuple[npt.NDArray[np.signedinteger[Any]], npt.NDArray[np.floating[Any]]]: ...
    @overload
    def __call__(
        self, dense_row: npt.ArrayLike, /
    ) -> tuple[npt.NDArray[np.signedinteger[Any]], npt.NDArray[np.floating[Any]]]: ...
