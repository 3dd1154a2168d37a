import math

import numpy as np
import pytest
import reference
from scipy import sparse

import shore
from shore.datasets import make_synthetic
from shore.theory import contraction, delta_for, report, rip_estimate

PROBLEM = make_synthetic(150, 12, 60, sparsity=2, snr_db=20)


def fitted(problem=PROBLEM, **options):
    options = {"n_components": 600, "compression": "gaussian", "alpha": 0.0, **options}
    return shore.ShoreRegressor(2, **options).fit(problem.X, problem.Y)


def holds(found):
    return {each.theorem: each.holds for each in found.statements}


@pytest.mark.parametrize("alpha", [0.0, 10.0])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("constraint", ["real", "nonneg", shore.Box(-50, 50)], ids=str)
def test_all_hold_with_many_components(alpha, fit_intercept, constraint):
    found = report(fitted(alpha=alpha, fit_intercept=fit_intercept, constraint=constraint), PROBLEM.X, PROBLEM.Y)
    assert holds(found) == {1: True, 2: True, 4: True}
    assert all(0 < each.left <= each.right < math.inf for each in found.statements)
    assert found.rip.sparsity == 6
    assert found.delta == found.rip.delta < 0.5


def test_numbers_are_the_theorems():
    """Everything by dense NumPy and the slow reference."""
    model = fitted(fit_intercept=True, dtype=np.float64, alpha=3.0, max_iter=5)
    X, Y = PROBLEM.X.astype(np.float64), PROBLEM.Y.toarray().astype(np.float64)
    found = report(model, PROBLEM.X, PROBLEM.Y, delta=0.3, tau=0.1)
    Phi = model.compression_.toarray()
    B = X @ model.coef_.T + model.intercept_
    plain = shore.ShoreRegressor(2, compression=None, alpha=3.0, fit_intercept=True, dtype=np.float64).fit(X, Y)

    one, two, four = found.statements
    loss = np.sum((Y @ Phi.T - B) ** 2)
    assert one.left == pytest.approx(loss + 3 * np.sum(model.coef_**2))
    penalised = np.sum((Y - X @ plain.coef_.T - plain.intercept_) ** 2) + 3 * np.sum(plain.coef_**2)
    assert one.right == pytest.approx((1 + delta_for(600, 2, 60, tau=0.1, form="jl")) * penalised)

    c1, c2 = contraction(0.9, 0.3)
    noise = np.linalg.norm(Y @ Phi.T - B, axis=1)
    sides = []
    for t in (1, 2, 4, 5):
        V, _, _ = reference.decode(B, Phi, 2, constraint="nonneg", max_iter=t, tol=0)
        left = np.linalg.norm(Y - V, axis=1)
        sides += list(zip(left, c1**t * np.linalg.norm(Y, axis=1) + c2 / (1 - c1) * noise, strict=True))
    left, right = max(sides, key=lambda pair: pair[0] / pair[1])
    assert (two.left, two.right) == (pytest.approx(left), pytest.approx(right))

    V = model.predict(X).toarray()
    assert four.left == pytest.approx(np.mean(np.sum((V - Y) ** 2, axis=1)))
    assert four.right == pytest.approx(4 / 0.7 * loss / len(X))
    optimal = np.sum(np.linalg.norm(V @ Phi.T - B, axis=1) <= noise)
    assert f"in {optimal} of {len(X)} rows" in four.note


def test_blocks_threads_and_layouts_do_not_matter(monkeypatch):
    model = fitted()
    expected = report(model, PROBLEM.X, PROBLEM.Y)
    monkeypatch.setattr("shore.theory._data._BLOCK_BYTES", 8 * 600 * 40)
    for X, Y, n_threads in (
        (PROBLEM.X, PROBLEM.Y.toarray(), 1),
        (sparse.csc_array(PROBLEM.X), PROBLEM.Y, 2),
        (np.asfortranarray(PROBLEM.X), sparse.coo_array(PROBLEM.Y), None),
    ):
        found = report(model, X, Y, n_threads=n_threads)
        assert found.delta == expected.delta
        for each, other in zip(found.statements, expected.statements, strict=True):
            assert (each.left, each.right) == (
                pytest.approx(other.left, rel=1e-4),
                pytest.approx(other.right, rel=1e-4),
            )
            assert each.holds == other.holds


def test_sparse_inputs_and_partial_fit():
    model = shore.ShoreRegressor(2, n_components=600, alpha=1.0).partial_fit(PROBLEM.X, PROBLEM.Y)
    found = report(model, PROBLEM.X, PROBLEM.Y)
    assert holds(found) == {1: True, 2: True, 4: True}
    assert "not for a HeadTailCompression" in found.statements[0].note


def test_a_wrong_w_fails_theorem_1():
    model = fitted()
    model._feature_major = model._feature_major * 3
    assert not holds(report(model, PROBLEM.X, PROBLEM.Y))[1]


def test_rows_the_model_was_not_fitted_on_can_fail_theorem_1():
    other = make_synthetic(150, 12, 60, sparsity=2, snr_db=20, seed=5)
    assert not holds(report(fitted(), other.X, other.Y))[1]


def test_a_phi_that_is_no_isometry_fails_theorems_2_and_4():
    """Two equal columns: the wrong output is found, though the residual is 0."""
    Phi = np.eye(8)[:, [0, 1, 2, 3, 4, 5, 6, 0]]
    X = np.eye(8)
    Y = sparse.csr_array(np.diag([1.0] * 7 + [5.0]))
    model = shore.ShoreRegressor(
        1, compression=shore.MatrixCompression(Phi), alpha=0.0, constraint="real", dtype=np.float64
    ).fit(X, Y)
    honest = report(model, X, Y)
    assert honest.delta == pytest.approx(1)  # all supports were looked at
    assert honest.rip.share == 0
    assert [each.right for each in honest.statements] == [math.inf] * 3
    pretended = report(model, X, Y, delta=0.1)
    assert pretended.rip is None
    assert not holds(pretended)[2]
    assert not holds(pretended)[4]
    assert "row 7" in pretended.statements[1].note
    assert "NO" in str(pretended)


def test_where_theorems_say_nothing():
    found = report(fitted(n_components=16), PROBLEM.X, PROBLEM.Y)
    assert holds(found) == {1: True, 2: True, 4: True}
    assert all(each.right == math.inf for each in found.statements[:2])
    assert "says nothing: m = 16 proves no" in found.statements[0].note
    assert "says nothing: c₁ = " in found.statements[1].note
    long_step = report(fitted(step=1.05), PROBLEM.X, PROBLEM.Y)
    assert "says nothing: step = 1.05 is not below 1" in long_step.statements[1].note
    none = report(fitted(), PROBLEM.X, PROBLEM.Y, delta=1.5).statements[2]
    assert none.right == math.inf
    assert "says nothing: δ = 1.5 ≥ 1" in none.note


def test_rows_outside_the_theorem_are_counted():
    Y = sparse.csr_array(PROBLEM.Y, copy=True).tolil()
    Y[3, :10] = 1.0
    Y[5, 7] = -1.0  # not feasible
    Y = sparse.csr_array(Y)
    model = shore.ShoreRegressor(2, n_components=600, compression="gaussian").fit(PROBLEM.X, Y)
    found = report(model, PROBLEM.X, Y)
    assert "2 of 150 rows" in found.statements[1].note
    assert "outside the theorem: 2 of 150 rows" in found.statements[2].note


def test_restarted_rows_are_left_out():
    """Columns of norm 3 let rows diverge at this step; the theorem, told a false δ, is about the other rows alone."""
    Phi = np.diag([3.0, 1, 1, 1, 3, 1])
    X, Y = np.eye(6), sparse.csr_array(np.eye(6))
    model = shore.ShoreRegressor(
        1, compression=shore.MatrixCompression(Phi), alpha=0.0, constraint="real", max_iter=20
    ).fit(X, Y)
    two = report(model, X, Y, delta=0.1).statements[1]
    assert "left out: 2 of 6 rows" in two.note
    assert two.holds
    model._compression = shore.MatrixCompression(3 * np.eye(6))
    two = report(model, X, 3 * Y, delta=0.1).statements[1]
    assert "left out: 6 of 6 rows" in two.note
    assert "no row to look at" in two.note


def test_exact_isometry_without_noise():
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 10)))
    X, Y = np.eye(10), sparse.csr_array(2 * np.eye(10))
    for dtype in (np.float32, np.float64):
        phi = shore.MatrixCompression(Q.astype(dtype))
        model = shore.ShoreRegressor(1, compression=phi, alpha=0.0, dtype=dtype, tol=0).fit(X, Y)
        found = report(model, X, Y)
        assert found.delta < 1e-5
        assert holds(found) == {1: True, 2: True, 4: True}


def test_table():
    text = str(report(fitted(), PROBLEM.X, PROBLEM.Y))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert [line[0] for line in lines if line[:1].isdigit()] == ["1", "2", "4"]
    assert "over 1000 random supports of 6 columns" in lines[0]
    assert "as given" in str(report(fitted(), PROBLEM.X, PROBLEM.Y, delta=0.2))


def test_delta_is_of_order_3s():
    model = fitted()
    found = report(model, PROBLEM.X, PROBLEM.Y, n_supports=77, seed=4)
    assert found.delta == rip_estimate(model.compression_, 6, n_supports=77, seed=4).delta


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"model": "model"}, TypeError, "model must be a fitted ShoreRegressor"),
        ({"model": shore.ShoreRegressor()}, shore.NotFittedError, "not fitted"),
        ({"model": shore.ShoreRegressor(2, compression=None).fit(PROBLEM.X, PROBLEM.Y)}, ValueError, "must have a"),
        ({"X": PROBLEM.X[:, 1:]}, ValueError, "features"),
        ({"X": PROBLEM.X[1:]}, ValueError, "same number of rows"),
        ({"Y": PROBLEM.Y[:, 1:]}, ValueError, "Y has 59 outputs, but the model has 60"),
        ({"delta": -0.1}, ValueError, "delta"),
        ({"tau": 1}, ValueError, "tau"),
        ({"n_supports": 0}, ValueError, "n_supports"),
    ],
)  # fmt: skip
def test_bad_arguments(options, error, words):
    with pytest.raises(error, match=words):
        report(**{"model": fitted(), "X": PROBLEM.X, "Y": PROBLEM.Y, **options})
