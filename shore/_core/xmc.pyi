from typing import Any

import numpy as np
import numpy.typing as npt

DONE: int
INDEX: int
RANGE_LABEL: int
RANGE_FEATURE: int
LABELS: int
COLON: int
NO_VALUE: int
VALUE: int
OVERFLOW: int
TWICE_LABEL: int
TWICE_FEATURE: int
EXTRA: int

def parse_number(text: bytes, single: bool = False) -> float | None: ...
def entry_bytes() -> int: ...
def parse_rows(
    text: bytes | memoryview,
    n_features: int,
    n_outputs: int,
    base: int,
    with_values: bool,
    n_rows: int,
    workspace: npt.NDArray[np.uint8],
    x_indices: npt.NDArray[Any],
    x_data: npt.NDArray[Any],
    x_indptr: npt.NDArray[np.int64],
    y_indices: npt.NDArray[Any],
    y_data: npt.NDArray[Any],
    y_indptr: npt.NDArray[np.int64],
) -> tuple[int, int, int, int, int]: ...
def format_rows(
    x_indices: npt.NDArray[Any],
    x_values: npt.NDArray[np.uint8],
    x_indptr: npt.NDArray[np.int64],
    y_indices: npt.NDArray[Any],
    y_values: npt.NDArray[np.uint8],
    y_indptr: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> int: ...
