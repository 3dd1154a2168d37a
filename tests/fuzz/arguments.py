"""Arguments that are no matrices: what may stand for a size, a seed or a number, what may not, and which is which."""

import math

import numpy as np

# What stands for no size, whatever it is of; 0 may be one.
WRONG_COUNTS = [-1, 2.0, 0.0, math.nan, None, "3", True, [3], 2**62, 2**64, -(2**70)]
WRONG_DTYPES = ["float16", int, None, "banana"]
# From here on no machine has the memory.
HUGE = 2**40


def is_count(value, least=1, most=math.inf):
    """Whether a value is an integer in a range, of Python or NumPy, also as an array without axes."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= value <= most


def is_number(value, low=0.0, high=math.inf, closed=False):
    """Whether a value is a real number between others; `closed` takes the low one, too."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        return False
    if type(value) is int and value > 10**9:
        return False
    return low < value < high or (closed and value == low)


def needs_much_memory(sizes):
    """Whether a MemoryError is right: one of the sizes is beyond what machines have."""
    return any(is_count(size, HUGE) for size in sizes)


def as_array(matrix):
    """A plain matrix as a dense one in float64."""
    return (matrix if isinstance(matrix, np.ndarray) else matrix.toarray()).astype(np.float64)
