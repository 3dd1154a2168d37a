"""Matrices whose arrays do not fit together: nobody may follow them, whatever the format."""

import numpy as np
import pytest
from scipy import sparse

import shore


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
