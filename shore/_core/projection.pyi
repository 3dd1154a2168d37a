from typing import Any, Self

import numpy as np
import numpy.typing as npt

from shore._core.feasible import FeasibleSet

def project_dense(
    rows: npt.NDArray[Any],
    feasible: FeasibleSet,
    first_row: int,
    index: npt.NDArray[np.int64],
    value: npt.NDArray[Any],
    count: npt.NDArray[np.int64],
    n_threads: int,
) -> None: ...
def project_csr(
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    n_outputs: int,
    feasible: FeasibleSet,
    first_row: int,
    index: npt.NDArray[np.int64],
    value: npt.NDArray[Any],
    count: npt.NDArray[np.int64],
    n_threads: int,
) -> None: ...
def compact(
    index: npt.NDArray[np.int64],
    value: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    data: npt.NDArray[Any],
) -> None: ...

class RowProjector:
    is_double: bool
    workspace_bytes: int

    def __new__(cls, feasible: FeasibleSet, n_outputs: int, sparsity: int, is_double: bool) -> Self: ...
