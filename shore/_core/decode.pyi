from typing import Any, Self

import numpy as np
import numpy.typing as npt

from shore._core.compression import Phi
from shore._core.feasible import FeasibleSet

OUTCOME: np.dtype[np.void]
METHODS: dict[str, int]

def decode_rows(
    method: int,
    B: npt.NDArray[Any],
    phi: Phi,
    feasible: FeasibleSet,
    first_row: int,
    sparsity: int,
    step: float,
    max_iter: int,
    tol: float,
    l1: float,
    index: npt.NDArray[np.int64],
    value: npt.NDArray[Any],
    count: npt.NDArray[np.int64],
    outcome: npt.NDArray[np.uint8],
    n_threads: int,
    screening: bool = True,
    max_rows: int = 0,
) -> None: ...

class RowDecoder:
    is_double: bool
    workspace_bytes: int

    def __new__(
        cls,
        method: int,
        phi: Phi,
        feasible: FeasibleSet,
        sparsity: int,
        keep: int,
        step: float,
        max_iter: int,
        tol: float,
        l1: float,
    ) -> Self: ...
