from typing import Any, Self

import numpy as np
import numpy.typing as npt

def csr_times(
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    P: npt.NDArray[Any],
    out: npt.NDArray[Any],
    n_threads: int,
) -> None: ...
def dense_times(X: npt.NDArray[Any], P: npt.NDArray[Any], out: npt.NDArray[Any], n_threads: int) -> None: ...
def csr_times_half(
    data: npt.NDArray[np.float32],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    P: npt.NDArray[np.uint16],
    out: npt.NDArray[np.float32],
    n_threads: int,
) -> None: ...
def dense_times_half(
    X: npt.NDArray[np.float32], P: npt.NDArray[np.uint16], out: npt.NDArray[np.float32], n_threads: int
) -> None: ...

class RowTimes:
    n_features: int
    width: int
    is_double: bool
    is_half: bool

    def __new__(cls, W: npt.NDArray[Any]) -> Self: ...

def csr_gram(
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    t_data: npt.NDArray[Any],
    t_indices: npt.NDArray[Any],
    t_indptr: npt.NDArray[Any],
    first: int,
    out: npt.NDArray[Any],
    n_threads: int,
) -> None: ...

class ConjugateGradients:
    n_blocks: int
    def __init__(
        self,
        X: tuple[npt.NDArray[Any], ...],
        Xt: tuple[npt.NDArray[Any], ...],
        B: npt.NDArray[Any],
        W: npt.NDArray[Any],
        tol: float,
        mean: npt.NDArray[Any] | None,
        shift: npt.NDArray[Any] | None,
    ) -> None: ...
    def begin(self, alpha: float, n_threads: int, warm: bool = False) -> None: ...
    def iterate(self, steps: int, taken: npt.NDArray[np.int64], n_threads: int) -> bool: ...
