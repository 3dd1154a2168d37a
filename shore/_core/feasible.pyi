import numpy as np
import numpy.typing as npt

class FeasibleSet:
    def __init__(
        self,
        kind: int,
        low: float,
        high: float,
        total: float,
        forbidden: npt.NDArray[np.uint8] | None = None,
        indptr: npt.NDArray[np.int64] | None = None,
        indices: npt.NDArray[np.int64] | None = None,
        list_allows: bool = False,
        shared: bool = False,
    ) -> None: ...
