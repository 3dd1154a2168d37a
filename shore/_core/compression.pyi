from typing import Any

import numpy as np
import numpy.typing as npt

TILE: int

class Phi:
    is_double: bool
    @staticmethod
    def dense(columns: npt.NDArray[Any], max_norm: float, n_threads: int) -> Phi: ...
    @staticmethod
    def signs(
        tables: npt.NDArray[Any],
        head: npt.NDArray[np.int64],
        n_components: int,
        n_outputs: int,
        nnz: int,
        pad: int,
        is_double: bool,
    ) -> Phi: ...

def make_gaussian(columns: npt.NDArray[Any], seed: int, n_threads: int, first: int = 0) -> None: ...
def sign_layout(n_rows: int, n_columns: int, nnz: int) -> tuple[int, int, type[np.unsignedinteger[Any]]]: ...
def make_sign_tables(
    phi: Phi, tables: npt.NDArray[Any], seed: int, n_threads: int, first: int = 0, end: int = -1
) -> None: ...
def illegal_sign_places(phi: Phi, n_threads: int, first: int = 0, end: int = -1) -> int: ...
def signs_to_rows(phi: Phi, rows: npt.NDArray[np.int64], signs: npt.NDArray[np.int8]) -> None: ...
def compress_csr(
    phi: Phi,
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    out: npt.NDArray[Any],
    n_threads: int,
) -> None: ...
def correlate_signs(phi: Phi, R: npt.NDArray[Any], out: npt.NDArray[Any], n_threads: int) -> None: ...
