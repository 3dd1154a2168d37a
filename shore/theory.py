"""What the paper's theorems say in numbers."""

from __future__ import annotations

import math

from shore._validation import check_positive

__all__ = ["components_for"]

# Rows of Φ per s·ln(K/s). Then decoding finds all outputs with noise at 10 dB, and 93 to 100 % of them with noise as
# strong as the signal (measured in docs/recovery.md).
_ROWS_PER_NAT = 10.0


def components_for(sparsity: int, n_outputs: int) -> int:
    """How many components m to compress K outputs to, s of which are not zero: 10·s·ln(K/s), as Theorem 2 scales.

    Rounded up to a multiple of 16, at least 16, and no more than K rounded up likewise.

    Parameters
    ----------
    sparsity : int
        s.
    n_outputs : int
        K.

    Examples
    --------
    >>> from shore.theory import components_for
    >>> components_for(5, 20_000)
    416
    """
    n_outputs = check_positive(n_outputs, "n_outputs")
    s = check_positive(sparsity, "sparsity", n_outputs)
    wanted = _ROWS_PER_NAT * s * max(1.0, math.log(n_outputs / s))
    return 16 * math.ceil(max(1.0, min(wanted, float(n_outputs))) / 16)
