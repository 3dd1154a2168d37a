"""The decoders beside projected gradient descent, against what they are said to compute, whichever way ties go."""

import itertools

import numpy as np
import reference
from compressions import compressions
from hypothesis import given
from hypothesis import strategies as st
from inputs import numbers, sizes, which_outputs
from nearest import assert_is_step, assert_nearest, lost, norm
from oracle import Refusal, tried
from test_fuzz_projection import CONSTRAINTS, permitted_outputs

import shore

# A support whose columns depend on each other more than this leaves values no digits to compare.
WORST_CONDITION = 1e4


@st.composite
def problems(draw):
    """Φ, rows b of numbers that can be squared, what they may use, and whether that is wrong."""
    phi = draw(compressions(draw(sizes(1, 9, (70,)))))
    B = draw(numbers((draw(sizes(1, 4, (33,))), phi.n_components), ("float32", "float64"), extremes=False))
    B = np.where(np.abs(B) < 1e-6, 0, B).astype(phi.dtype)
    limits = {name: draw(which_outputs(len(B), phi.n_outputs)) for name in ("allowed", "denied")}
    wrong = [name for name, each in limits.items() if each.is_wrong]
    given = {"n_threads": 1, "tol": 0, **{name: each.given for name, each in limits.items()}}
    shape = len(B), phi.n_outputs
    return phi, B, given, None if wrong else permitted_outputs(**limits, shape=shape), wrong


def decoded(problem, sparsity, constraint, **options):
    """Rows in float64, or None: then it was right to refuse them."""
    phi, B, given, permitted, wrong = problem
    found = tried(lambda: shore.decode(B, phi, sparsity, constraint=constraint, **given, **options),
                  *(wrong or ["constraint"]))  # fmt: skip
    is_wrong = bool(wrong) or (isinstance(constraint, shore.Simplex) and not permitted.any(axis=1).all())
    assert isinstance(found, Refusal) == is_wrong, found
    return None if is_wrong else found.toarray().astype(np.float64)


def sizes_of(Phi, b, v):
    """What sums of Φᵀ(Φv - b) are made of, by output."""
    return np.abs(Phi.T) @ (np.abs(Phi) @ np.abs(v) + np.abs(b))


@given(st.data())
def test_correlation_decoding_is_a_step_of_1_from_0(data):
    problem = phi, B, _, permitted, _ = data.draw(problems())
    s, constraint = data.draw(st.integers(1, 8)), data.draw(st.sampled_from(CONSTRAINTS))
    found = decoded(problem, s, constraint, method="cd", max_iter=data.draw(st.sampled_from([1, 7])))
    if found is None:
        return
    Phi = phi.toarray().astype(np.float64)
    for b, v, may in zip(B.astype(np.float64), found, permitted, strict=True):
        assert_is_step(np.zeros(len(v)), v, b, Phi, min(s, len(v)), constraint, 1.0, may, phi.dtype)


@np.errstate(over="ignore")  # of what is compared with
@given(st.data())
def test_pursuit_takes_the_best_output_and_solves_least_squares(data):
    problem = phi, B, _, permitted, _ = data.draw(problems())
    s, constraint = data.draw(st.integers(1, 6)), data.draw(st.sampled_from(CONSTRAINTS))
    found = decoded(problem, s, constraint, method="omp")
    if found is None:
        return
    steps = [np.zeros(found.shape), *(decoded(problem, t, "real", method="omp") for t in range(1, s + 1))]
    Phi, eps = phi.toarray().astype(np.float64), float(np.finfo(phi.dtype).eps)
    for i, b in enumerate(B.astype(np.float64)):
        for before, after in itertools.pairwise(steps):
            assert_is_pursued(before[i], after[i], b, Phi, permitted[i], phi.dtype)
        x = steps[-1][i]
        rounding = 64 * eps * (np.abs(x).max(initial=0) + getattr(constraint, "total", 0))
        assert_nearest(found[i], x, min(s, len(x)), constraint, permitted[i], rounding)


def assert_is_pursued(before, after, b, Phi, permitted, dtype):
    """That the output with the largest |φ_jᵀr| has joined the support, on which values are those of least squares."""
    support, was, info = after != 0, before != 0, np.finfo(dtype)
    assert not np.any(support & ~permitted)
    if np.abs(after).max(initial=0) >= info.max:  # values that float32 cannot hold end at its largest number
        return
    columns, eps = Phi[:, support], float(info.eps)
    if support.any() and np.linalg.cond(columns) < WORST_CONDITION:
        values = np.linalg.lstsq(columns, b, rcond=None)[0]
        size = np.longdouble(norm(b)) / min(norm(column) for column in columns.T)
        assert np.all(np.abs(after[support] - values) <= 64 * eps * np.linalg.cond(columns) ** 2 * size)
    correlation = np.where(permitted & ~was, np.abs(Phi.T @ (b - Phi @ before)), 0)
    condition = np.linalg.cond(Phi[:, was]) if was.any() else 1.0
    rounding = 16 * (len(b) + 4) * eps * condition**2 * sizes_of(Phi, b, before).max(initial=0)
    rounding += lost(Phi, was.sum(), dtype)
    joined = support & ~was
    if joined.sum() == 1 and support.sum() == was.sum() + 1:
        assert correlation[joined][0] >= correlation.max() - rounding
    elif np.array_equal(support, was):  # the end: nothing is left that could be explained, or no row is
        norms = np.array([norm(column) for column in Phi.T])
        nothing = np.all(correlation <= rounding + 2 * (len(b) + 4) * eps * norms * norm(b))
        explained = was.sum() >= len(b) or condition > WORST_CONDITION or nothing
        assert explained or cannot_join(Phi, was, correlation, rounding)


def cannot_join(Phi, support, correlation, rounding):
    """Whether the best outputs to join are combinations of those that are there, or too small for values in range."""
    best = np.flatnonzero(correlation >= correlation.max() - rounding)
    for j in best:
        largest = np.abs(Phi[:, j]).max()
        with np.errstate(over="ignore"):
            value = correlation[j] / largest / largest  # at most m times what least squares ask for
        if value > 1e300 or np.linalg.cond(np.column_stack([Phi[:, support], Phi[:, j]])) > WORST_CONDITION:
            return True
    return False


@given(st.data())
def test_fista_takes_the_steps_of_its_definition(data):
    problem = phi, B, _, permitted, _ = data.draw(problems())
    s, constraint = data.draw(st.integers(1, 8)), data.draw(st.sampled_from(CONSTRAINTS))
    step, l1 = data.draw(st.sampled_from([0.9, 0.5])), data.draw(st.sampled_from([0.1, 0.5, 1.0]))
    t = data.draw(st.integers(1, 4))
    how = {"method": "fista", "step": step, "l1": l1, "max_iter": t}
    found = decoded(problem, s, constraint, **how)
    if found is None:
        return
    K = phi.n_outputs
    all_of_it = decoded(problem, K, "real", **how)
    Phi, eps = phi.toarray().astype(np.float64), float(np.finfo(phi.dtype).eps)
    norm2 = np.linalg.norm(Phi, 2) ** 2
    if norm2 < np.finfo(np.float64).tiny:  # no unit to count steps in
        assert Phi.any() or not all_of_it.any()
        return
    unit = norm2 / phi.squared_norm()  # which is found to a percent only
    for b, v, x, may in zip(B.astype(np.float64), found, all_of_it, permitted, strict=True):
        expected, _ = reference.shrink_row(b, Phi, K, permitted=may, l1=l1, step=step * unit, max_iter=t, tol=0)
        size = np.abs(expected).max() + step / norm2 * sizes_of(Phi, b, expected).max()
        rounding = 4 * (len(b) + K) * eps * size
        np.testing.assert_allclose(x, expected, rtol=0, atol=3**t * rounding)  # momentum carries errors on
        rounding += 4 * eps * getattr(constraint, "total", 0)
        assert_nearest(v, x, min(s, K), constraint, may, rounding)
