"""Matrices whose arrays do not fit together, which nobody may follow, and weights that are no numbers."""

import numpy as np
import pytest
from scipy import sparse

import shore
from shore._validation import check_flag


def spoiled(kind, **arrays):
    matrix = sparse.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]])).asformat(kind)
    for name, array in arrays.items():
        setattr(matrix, name, array)
    return matrix


@pytest.mark.parametrize(
    "matrix",
    [
        spoiled("csr", indices=np.array([0, 3, 1])),
        spoiled("csr", indices=np.array([0, -1, 1])),
        spoiled("csr", indices=np.array([0.0, 2.0, 1.0])),
        spoiled("csr", indices=np.array([0, 2])),
        spoiled("csr", indptr=np.array([0, 3, 0])),  # as if nothing were stored, and yet row 0 has entries
        spoiled("csr", indptr=np.array([0, 2, -1])),
        spoiled("csr", indptr=np.array([0, 2, 4])),
        spoiled("csr", indptr=np.array([0, 3])),
        spoiled("csr", indptr=np.array([1, 2, 3])),
        spoiled("csc", indices=np.array([0, 1, 10**6])),
        spoiled("csc", indptr=np.array([0, 1, 2, 10**6])),
        spoiled("bsr", indptr=np.array([0, 10**6, 1])),
        spoiled("dia", offsets=np.array([0])),
        spoiled("dia", offsets=np.array([0, 0, 0])),
        spoiled("lil", data=np.array([[1.0] * 99, [1.0]], dtype=object)),
        spoiled("coo", coords=(np.array([0, 0, 10**6]), np.array([0, 2, 1]))),
        spoiled("coo", coords=(np.array([0, 0, 1]), np.array([0, 2, -5]))),
    ],
)
def test_broken_sparse_matrices_are_refused_before_they_are_converted(matrix):
    calls = {
        "V": lambda: shore.project(matrix, 1),
        "allowed": lambda: shore.project(np.ones((2, 3)), 1, allowed=matrix),
        "Y": lambda: shore.ShoreRegressor(1, n_components=2).fit(np.eye(2), matrix),
        "X": lambda: shore.ShoreRegressor(1, n_components=2).fit(matrix, np.eye(2)),
        "denied": lambda: shore.ShoreRegressor(1).fit(np.eye(2), np.ones((2, 3))).predict(np.eye(2), denied=matrix),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"^{name} is not a valid sparse matrix: "):
            call()


def test_arrays_behind_what_is_stored_do_not_count():
    longer = spoiled("csr", data=np.array([1.0, 2.0, 3.0, np.nan]), indices=np.array([0, 2, 1, 99]))
    np.testing.assert_array_equal(shore.project(longer, 2).toarray(), [[1, 0, 2], [0, 3, 0]])


@pytest.mark.parametrize("kind", [">f8", "float16", "longdouble"])
def test_sparse_numbers_that_scipy_does_not_compute_in(kind):
    given = spoiled("csr", data=np.array([1.0, 2.0, 3.0], dtype=kind))
    np.testing.assert_array_equal(shore.project(given, 2).toarray(), [[1, 0, 2], [0, 3, 0]])


@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(np.float64).max, reason="no wider floats")
@pytest.mark.parametrize("present", [np.asarray, sparse.csr_array])
def test_numbers_past_the_range_of_float64_are_refused(present):
    with pytest.raises(ValueError, match="V must be finite"):
        shore.project(present(np.full((2, 3), np.finfo(np.longdouble).max)), 1)


class Strange:
    """What raises something of its own when it is asked for an array."""

    def __array__(self, dtype=None, copy=None):
        raise ZeroDivisionError("no array today")


@pytest.mark.parametrize(
    ("weight", "error", "words"),
    [
        (np.ma.masked_array(np.ones(4), [0, 0, 0, 1]), TypeError, "sample_weight is a masked array; fill its masked"),
        (np.ones(4) + 1j, TypeError, "sample_weight must hold real numbers .* got dtype complex128"),
        ([1 + 1j] * 4, TypeError, "sample_weight must hold real numbers"),
        (["1"] * 4, TypeError, "sample_weight must hold real numbers"),
        (np.ones(4, dtype="m8[s]"), TypeError, "sample_weight must hold real numbers"),
        (np.ones(4, dtype="M8[D]"), TypeError, "sample_weight must hold real numbers"),
        ([None] * 4, TypeError, "sample_weight must hold real numbers"),
        (sparse.csr_array(np.ones((1, 4))), TypeError, "sample_weight must be a 1-D array, got a sparse matrix"),
        ([[1], [1, 2], [3], [4]], ValueError, "sample_weight must be a 1-D array of numbers"),
        (Strange(), ValueError, "sample_weight must be a 1-D array of numbers: no array today"),
        (np.ones((4, 1)), ValueError, r"sample_weight must have shape \(4,\), got \(4, 1\)"),
        (np.full(4, np.longdouble("1e400")), ValueError, "sample_weight must be finite"),
    ],
)
def test_weights_are_as_strict_as_rows(weight, error, words):
    model = shore.ShoreRegressor(1, n_components=16)
    for fit in (model.fit, model.partial_fit):
        with pytest.raises(error, match=words):
            fit(np.eye(4), np.eye(4), weight)


def test_an_array_that_cannot_be_made_is_of_its_argument():
    with pytest.raises(ValueError, match="X must be a 2-D array: no array today"):
        shore.ShoreRegressor(1, n_components=16).fit(Strange(), np.eye(4))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, np.int8, np.uint64, np.bool_, ">f8"])
def test_weights_of_any_real_dtype(dtype):
    fitted = shore.ShoreRegressor(1, n_components=16).fit(np.eye(4), np.eye(4), np.array([1, 0, 1, 1], dtype=dtype))
    expected = shore.ShoreRegressor(1, n_components=16).fit(np.eye(4), np.eye(4), [1.0, 0.0, 1.0, 1.0])
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)


@pytest.mark.parametrize("width", [2**60, 2**62])
def test_more_columns_than_an_array_has_entries(width):
    wide = sparse.csr_array((np.ones(4), np.arange(4), np.arange(5)), shape=(4, width))
    model = shore.ShoreRegressor(1, n_components=16)
    for name, pair in (("X", (wide, np.eye(4))), ("Y", (np.eye(4), wide))):
        for fit in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match=rf"{name} has {width} columns, and at most 2\*\*59"):
                fit(*pair)


def test_flags():
    assert [check_flag(value, "flag") for value in (True, False, np.True_, np.False_)] == [True, False, True, False]
    for wrong in (1, 0, None, "True", np.ones(2), np.array(True)):
        with pytest.raises(TypeError, match="flag must be True or False"):
            check_flag(wrong, "flag")
