"""Matrices as callers may bring them, each beside the plain matrix that it stands for, or known to be wrong.

A matrix is drawn in three steps: its numbers, as a native array; the container, layout and byte order that present
them; and perhaps one thing that is wrong with it.
"""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from presentations import DENSE, FAULTS, FORMATS, QUIRKS, SPARSE_DTYPES, in_format
from scipy import sparse

FLOATS = ("float16", "float32", "float64", "longdouble")
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "bool")


@dataclass
class Input:
    """An argument: what is given, and the plain matrix or vector that it stands for (None: it must be refused)."""

    given: Any
    plain: Any
    how: str = ""
    before: Any = field(init=False, repr=False)

    def __post_init__(self):
        self.before = fingerprint(self.given)

    @property
    def is_wrong(self):
        return self.plain is None

    def untouched(self):
        """Whether not a byte of what was given has changed."""
        return fingerprint(self.given) == self.before


def fingerprint(value):
    """The bytes of an array, or of all arrays of a sparse matrix."""
    if sparse.issparse(value):
        names = ("data", "indices", "indptr", "coords", "offsets", "rows")
        parts = (getattr(value, name, None) for name in names)
        return value.format, value.shape, [fingerprint(part) for part in parts if part is not None]
    if isinstance(value, tuple | list):
        return [fingerprint(part) for part in value]
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.strides, value.flags.writeable, value.tobytes()
    return repr(value)


# ---------------------------------------------------------------- numbers


def numbers_of(dtype, extremes):
    """Numbers of a dtype: ties, near-ties, ordinary ones and, on request, those at the ends of its range."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return st.booleans()
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        small = st.integers(max(info.min, -4), 4)
        # no more than 53 bits: these have one reading as float64 and, rounded from there, as float32
        ends = [max(info.min, -(2**53)), min(info.max, 2**53)]
        return st.one_of(small, st.sampled_from(ends)) if extremes else small
    if dtype.itemsize > 8:  # the same numbers as float64: rounding twice would be another reading
        return numbers_of(np.float64, extremes)
    info = np.finfo(dtype)
    width = dtype.itemsize * 8
    parts = [
        st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 0.25]),  # ties
        st.sampled_from([float(1 + info.eps), float(1 - info.epsneg), float(-1 - info.eps)]),  # near-ties
        st.floats(-4, 4, width=width),
    ]
    if extremes:
        ends = [info.max, info.tiny, info.smallest_subnormal, info.max / 2, info.tiny * 3]
        ends += [1e38, 1e-38, 1e-40, 1e19, 1e25] if dtype.itemsize > 2 else []
        ends += [1e160, 1e-160, 1e200] if dtype.itemsize > 4 else []  # whose squares leave the range
        parts.append(st.sampled_from([sign * float(dtype.type(end)) for end in ends for sign in (1, -1)]))
    return st.one_of(parts)


@st.composite
def numbers(draw, shape, dtypes=FLOATS + INTEGERS, extremes=True):
    """A native array: drawn entry by entry where it is small, else from a seed, with extremes here and there."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    if np.prod(shape) <= 64:
        elements = numbers_of(dtype, extremes)
        values = draw(hnp.arrays(np.float64 if dtype.itemsize > 8 else dtype, shape, elements=elements))
        return values.astype(dtype)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.normal(size=shape) * 2.0
    style = draw(st.sampled_from(["dense", "sparse", "ties"]))
    if style == "sparse":
        values *= rng.random(shape) < 0.2
    if style == "ties" or dtype.kind in "iub":
        values = np.round(values)
    values = np.abs(values).astype(dtype) if dtype.kind in "ub" else values.astype(dtype)
    if extremes:  # at a few places, which are drawn: full blocks of a kernel meet them, too
        at = draw(st.lists(st.integers(0, values.size - 1), max_size=8, unique=True))
        values.reshape(-1)[at] = draw(st.lists(numbers_of(dtype, extremes), min_size=len(at), max_size=len(at)))
    return values


def working(values):
    """Native float32 or float64 in C order: what the documentation says a matrix of another dtype counts as."""
    narrow = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return np.array(values, dtype=np.float32 if narrow else np.float64, order="C")


# ---------------------------------------------------------------- right ones


@st.composite
def dense(draw, shape, dtypes=FLOATS + INTEGERS, extremes=True, layouts=tuple(DENSE)):
    """A dense matrix or vector in some layout."""
    values = draw(numbers(shape, dtypes, extremes))
    layout = draw(st.sampled_from(layouts))
    if layout == "list" and 0 in values.shape[:-1]:  # would lose its shape
        layout = "C"
    if values.dtype.itemsize > 1 and draw(st.booleans()):
        values = values.astype(values.dtype.newbyteorder(">"))
    given = DENSE[layout](values)
    return Input(given, working(np.asarray(given)), f"{values.dtype} {layout}")


@st.composite
def sparse_matrix(draw, shape, dtypes=SPARSE_DTYPES, extremes=True):
    """A sparse matrix in some format, with things about it that are odd but right."""
    values = draw(numbers(shape, tuple(d for d in dtypes if d in SPARSE_DTYPES), extremes))
    canonical = sparse.csr_array(values)
    plain = sparse.csr_array(working(values))
    kind = draw(st.sampled_from(FORMATS))
    if kind != "csr":
        made = in_format(canonical, kind)
        return Input(in_format(sparse.csr_matrix(made), kind) if draw(st.booleans()) else made, plain, f"{kind}")
    quirks = draw(st.lists(st.sampled_from(tuple(QUIRKS)), unique=True, max_size=4))
    # those that reorder come first, those that change how arrays lie in memory after them
    quirks.sort(key=tuple(QUIRKS).index)
    given = canonical if draw(st.booleans()) else sparse.csr_matrix(canonical)
    for quirk in quirks:
        QUIRKS[quirk](given, draw)
    return Input(given, plain, f"csr {values.dtype} {quirks}")


def matrices(shape, dtypes=FLOATS + INTEGERS, extremes=True):
    """Dense or sparse, all of them right."""
    return st.one_of(dense(shape, dtypes, extremes), sparse_matrix(shape, dtypes, extremes))


# ---------------------------------------------------------------- wrong ones


@st.composite
def not_finite(draw, shape):
    """A matrix with a NaN or an infinity in it."""
    values = draw(numbers(shape, FLOATS, extremes=False))
    at = tuple(draw(st.integers(0, size - 1)) for size in shape)
    values[at] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    if np.finfo(values.dtype).max > np.finfo(np.float64).max and draw(st.booleans()):
        values[at] = np.finfo(values.dtype).max  # which float64 cannot hold
    if values.dtype == np.float16 or values.ndim != 2 or draw(st.booleans()):
        layout = draw(st.sampled_from(tuple(DENSE)))
        return Input(DENSE[layout](values), None, f"{values[at]} {layout}")
    given = in_format(sparse.csr_array(values), draw(st.sampled_from(FORMATS)))
    return Input(given, None, f"{values[at]} {given.format}")


@st.composite
def faulty_sparse(draw, shape):
    """A sparse matrix whose arrays do not fit together; it needs an entry to spoil."""
    values = draw(numbers(shape, ("float32", "float64", "int32", "bool"), extremes=False))
    values[tuple(draw(st.integers(0, size - 1)) for size in shape)] = 1
    name = draw(st.sampled_from(tuple(FAULTS)))
    return Input(FAULTS[name](sparse.csr_array(values), draw), None, name)


@st.composite
def no_matrix(draw, shape):
    """Something that is no matrix of real numbers."""
    ones = np.ones(shape)
    wrongs = {
        "one axis": ones.ravel(),
        "three axes": ones[None],
        "a number": 3.0,
        "complex": ones + 1j,
        "strings": ones.astype(str),
        "dates": np.zeros(shape, dtype="M8[s]"),
        "spans": np.zeros(shape, dtype="m8[s]"),
        "records": np.zeros(shape, dtype=[("a", "f4")]),
        "objects": np.full(shape, None, dtype=object),
        "numbers as objects": ones.astype(object),  # also refused: they would be read one by one
        "masked": np.ma.masked_array(ones, ones > 0),
        "ragged": [[1.0, 2.0], [3.0]],
        "None in a list": [[None] * shape[1]] * shape[0],
        "None": None,
        "a string": "X",
        "a dictionary": {"a": 1},
        "complex sparse": sparse.csr_array(ones + 1j),
        "one axis, sparse": sparse.coo_array(np.ones(shape[1])),
        "raises": Raising(),
    }
    name = draw(st.sampled_from(tuple(wrongs)))
    return Input(wrongs[name], None, name)


class Raising:
    """A data frame that cannot become an array."""

    def __array__(self, dtype=None, copy=None):
        raise ValueError("cannot become an array")


def wrong_matrices(shape):
    """All that must be refused; needs a row and a column."""
    return st.one_of(not_finite(shape), faulty_sparse(shape), no_matrix(shape))


def any_matrix(shape, dtypes=FLOATS + INTEGERS, extremes=True):
    """Mostly right ones."""
    right = matrices(shape, dtypes, extremes)
    if 0 in shape:
        return right
    return st.one_of(right, mostly(right, wrong_matrices(shape)), mostly(wrong_matrices(shape), right))


def row_major(each):
    """The same for functions that hand rows to BLAS as they are: it adds up column-major ones in another order."""
    if each.is_wrong or not isinstance(each.given, np.ndarray) or not each.given.flags.f_contiguous:
        return each
    return Input(np.ascontiguousarray(each.given), each.plain, each.how)


# ---------------------------------------------------------------- sizes and outputs to choose from


@st.composite
def mostly(draw, right, wrong):
    """One of the right ones, or now and then one of the wrong ones."""
    right, wrong = (part if isinstance(part, st.SearchStrategy) else st.sampled_from(part) for part in (right, wrong))
    return draw(wrong if draw(st.integers(0, 15)) == 15 else right)


@st.composite
def options(draw, **choices):
    """Arguments by name, each from (right ones, wrong ones), and the names of those that are wrong.

    All are right in two of three examples. To draw this first, and once, makes sure that both kinds come up.
    """
    can_be_wrong = [name for name, of in choices.items() if len(of) == 2]
    some = draw(st.integers(0, 2)) == 2
    wrong = draw(st.lists(st.sampled_from(can_be_wrong), min_size=1, max_size=2, unique=True)) if some else []
    given = {}
    for name, of in choices.items():
        values = of[name in wrong]
        given[name] = draw(values if isinstance(values, st.SearchStrategy) else st.sampled_from(values))
    return given, wrong


@st.composite
def sizes(draw, low=0, high=6, large=()):
    """A number of rows or columns: small as a rule, seldom the least, and now and then a large one."""
    which = draw(st.integers(0, 15))
    if which == 15:
        return low
    return draw(st.sampled_from(large)) if large and which > 12 else draw(st.integers(max(low, 1), high))


@st.composite
def which_outputs(draw, n, K):
    """`allowed` or `denied` in one of their forms, as an `Input` whose plain form is a mask (K,) or (n, K), or None."""
    form = draw(st.sampled_from(["none", "none", "indices", "mask", "pattern", "wrong"]))
    if form == "none":
        return Input(None, np.array(form == "none"), "not given")
    if form == "pattern":
        made = draw(sparse_matrix((n, K), extremes=False))
        return Input(made.given, made.plain.toarray() != 0, f"pattern {made.how}")
    mask = np.array(draw(st.lists(st.booleans(), min_size=K, max_size=K)), dtype=bool)
    if form == "mask":
        layout = draw(st.sampled_from(tuple(DENSE)))
        return Input(DENSE[layout](mask) if K else mask, mask, f"mask {layout}")
    if form == "indices":
        kind = draw(st.sampled_from(["int64", "int32", "uint8", "uint64", ">i4"]))
        chosen = np.flatnonzero(mask)
        chosen = np.concatenate([chosen, chosen[::-1]]).astype(kind)  # in no order, and twice
        layout = draw(st.sampled_from(tuple(DENSE)))
        return Input(DENSE[layout](chosen), mask, f"{kind} {layout}")
    wrongs = {
        "out of range": np.array([K]),
        "negative": np.array([-1]),
        "long mask": np.ones(K + 1, dtype=bool),
        "floats": np.array([0.0]),
        "strings": np.array(["a"]),
        "objects": np.array([None]),
        "two axes": np.ones((2, 2), dtype=bool),
        "a number": 0,
        "ragged": [[1], [2, 3]],
        "masked": np.ma.masked_array([0], [True]),
        "other shape": sparse.csr_array((n + 1, K)),
        "other width": sparse.csr_array((n, K + 1)),
        "raises": Raising(),
    }
    if n and K:
        wrongs["faulty"] = FAULTS["index too large"](sparse.csr_array(np.ones((n, K))), draw)
    name = draw(st.sampled_from(tuple(wrongs)))
    return Input(wrongs[name], None, f"wrong: {name}")


def folder():
    """A folder for files of one example; it lives as long as what is returned."""
    made = tempfile.TemporaryDirectory(prefix="shore-fuzz-")
    return made, Path(made.name)
