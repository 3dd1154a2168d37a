import warnings

import numpy as np
import pytest
from arguments import as_array
from hypothesis import given
from hypothesis import strategies as st
from inputs import Input, any_matrix, dense, matrices, mostly, not_finite, numbers, row_major, sizes
from models import parameters
from oracle import Refusal, assert_same, compared, tried
from scipy import linalg, sparse

import shore

# A warning that W is not exact is part of the answer: what is compared then is compared all the same.
pytestmark = pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")


@st.composite
def weights(draw, n):
    """`sample_weight`, as a rule none."""
    if draw(st.booleans()):
        return Input(None, np.ones(n), "not given")
    right = dense((n,), extremes=False)
    each = draw(mostly(right, st.one_of(not_finite((n,)) if n else right, dense((n + 1,), extremes=False))))
    if not each.is_wrong and (each.plain.shape != (n,) or each.plain.min(initial=0) < 0 or each.plain.sum() == 0):
        each.plain = None
    return each


def ridge(X, B, weight, alpha, fit_intercept):
    """W and the intercept of weighted ridge regression in float64, and the condition of its equations."""
    total = weight.sum()
    mean_x, mean_b = (weight @ X / total, weight @ B / total) if fit_intercept else (0 * X[0], 0 * B[0])
    Xc, Bc = X - mean_x, B - mean_b
    G = Xc.T @ (weight[:, None] * Xc) + alpha * np.eye(X.shape[1])
    W = np.linalg.solve(G, Xc.T @ (weight[:, None] * Bc))
    return W.T, mean_b - mean_x @ W, np.linalg.cond(G)


def compressed(Y, phi):
    """B, and sums of the sizes of its terms: what of them cancel each other leaves the rounding of their sizes."""
    Phi = np.eye(Y.shape[1]) if phi is None else phi.toarray().astype(np.float64)
    return Y @ Phi.T, np.abs(Y) @ np.abs(Phi.T)


def fit(given, X, Y, sample_weight):
    model = shore.ShoreRegressor(**given).fit(X, Y, sample_weight)
    return model.coef_, model.intercept_, model


@given(st.data())
def test_any_presentation_is_fitted_as_the_plain_one(data):
    n, d, K = data.draw(sizes(0, 6, (33,))), data.draw(sizes(0, 5)), data.draw(sizes(0, 7, (70,)))
    given = data.draw(parameters(K or 1))
    shape = n, d
    X, Y = data.draw(any_matrix(shape, extremes=False)), data.draw(any_matrix((n, K), extremes=False))
    inputs = {"X": row_major(X), "Y": Y, "sample_weight": data.draw(weights(n))}
    fixed = {name: each for name, each in inputs.items() if name != "sample_weight" or each.given is not None}
    also = ("X", "Y") if 0 in (n, d, K) else ()
    result = compared(lambda X, Y, sample_weight=None: fit(given, X, Y, sample_weight)[:2], fixed, also=also)
    if any(each.is_wrong for each in inputs.values()) or 0 in (n, d, K):
        assert isinstance(result, Refusal)
        return
    assert not isinstance(result, Refusal), result
    coef, intercept, model = fit(
        given, X.plain, Y.plain, None if "sample_weight" not in fixed else fixed["sample_weight"].plain
    )
    weight = inputs["sample_weight"].plain.astype(np.float64)
    phi = model.compression_
    B, terms = compressed(as_array(Y.plain), phi)
    W, b, condition = ridge(as_array(X.plain), B, weight, float(given["alpha"]), given["fit_intercept"])
    assert_close(coef, W, intercept, b, condition, given, terms, phi)
    assert model.n_features_in_ == d
    assert model.n_outputs_ == K
    found = model.predict(X.plain)
    assert found.shape == (n, K)


def assert_close(coef, W, intercept, b, condition, given, terms, phi):
    """As near as the condition of the equations lets the dtypes, and with 'cg' the tolerance, come."""
    eps = max(float(np.finfo(dtype).eps) for dtype in (given["dtype"], given["dtype"] if phi is None else phi.dtype))
    eps += 1e-6 if given["solver"] == "cg" else 0
    size = np.abs(W).max(initial=0) + terms.max(initial=0)
    least = np.finfo(given["dtype"]).smallest_subnormal  # numbers this small have no more digits than that
    np.testing.assert_allclose(coef, W, rtol=0, atol=50 * condition * (eps * size + least))
    np.testing.assert_allclose(intercept, b, rtol=0, atol=200 * condition * (eps * size + least))


@given(st.data())
def test_column_major_rows_are_fitted_alike(data):
    """To rounding, not to the bit: BLAS reads them as they are."""
    n, d, K = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5)), data.draw(st.integers(1, 7))
    given = data.draw(parameters(K))
    X, Y = data.draw(numbers((n, d), extremes=False)), data.draw(numbers((n, K), extremes=False))
    coef, intercept, _ = tried(lambda: fit(given, np.asfortranarray(X), Y, None))
    other, other_intercept, model = fit(given, X, Y, None)
    phi = model.compression_
    B, terms = compressed(Y.astype(np.float64), phi)
    *_, condition = ridge(X.astype(np.float64), B, np.ones(n), float(given["alpha"]), given["fit_intercept"])
    assert_close(coef, other, intercept, other_intercept, condition, given, terms, phi)


@pytest.mark.parametrize("solver", ["cholesky", "dual", "cg"])
@given(st.data())
def test_extreme_numbers_give_a_finite_model_or_are_refused(solver, data):
    n, d, K = data.draw(sizes(1, 5, (33,))), data.draw(sizes(1, 4, (17,))), data.draw(sizes(1, 5, (20,)))
    alpha = data.draw(st.sampled_from([1.0, 0, 1e-300, 1e-30, 1e30, 1e300]))
    given = data.draw(parameters(K)) | {"alpha": alpha, "solver": solver}
    X, Y = (data.draw(matrices((n, k), ("float32", "float64", "int64"))) for k in (d, K))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", linalg.LinAlgWarning)  # of an X whose rank is not full
        warnings.filterwarnings("always", "conjugate gradients stopped", RuntimeWarning)  # says that W is not exact
        outcome = tried(lambda: fit(given, X.given, Y.given, None)[2], "X", "Y", "alpha", inputs=[X, Y])
    if isinstance(outcome, Refusal):
        assert is_extreme(alpha, X, Y), outcome
        return
    assert np.isfinite(outcome.coef_).all()
    assert np.isfinite(outcome.intercept_).all()
    if not said:
        assert_solves(outcome, as_array(X.plain), as_array(Y.plain), given)
    found = tried(lambda: outcome.predict(X.given), "X", inputs=[X])
    if not isinstance(found, Refusal):
        assert found.shape == (n, K)


def is_extreme(alpha, *matrices):
    """Whether sums of products, or their quotients with the penalty, may leave the range of a dtype."""
    sizes = [np.abs(as_array(each.plain)) for each in matrices]
    return alpha > 1e15 or any(np.any((size > 1e15) | ((size > 0) & (size < 1e-15))) for size in sizes)


def assert_solves(model, X, Y, given):
    """The normal equations to two digits of the terms in them, unless numbers vanish in the dtype already."""
    phi = model.compression_
    single = given["dtype"] == "float32" or (phi is not None and phi.dtype == np.float32)
    least = np.finfo(np.float32 if single else np.float64).tiny
    if any(np.any((np.abs(part) < least) & (part != part.astype(given["dtype"]))) for part in (X, Y)):
        return
    X, Y, W, b = (part.astype(np.longdouble) for part in (X, Y, model.coef_.T, model.intercept_))
    Phi = np.eye(Y.shape[1]) if phi is None else phi.toarray().astype(np.longdouble)
    B, terms = Y @ Phi.T, np.abs(Y) @ np.abs(Phi.T)
    norms = [np.sqrt(np.sum(part * part)) for part in (X, W, B)]
    if given["fit_intercept"]:
        X, B, b = X - X.mean(axis=0), B - B.mean(axis=0), 0
    gradient = X.T @ (X @ W + b - B) + model.alpha * W
    # what the dtype cannot hold of W is lost
    tiny = np.longdouble(np.finfo(given["dtype"]).tiny) * (norms[0] ** 2 + model.alpha) * np.sqrt(W.size)
    size = norms[0] ** 2 * norms[1] + model.alpha * norms[1] + norms[0] * norms[2]
    # and of sums of outputs that cancel each other, what their dtype cannot hold beside them
    lost = 8 * Y.shape[1] * np.finfo(np.float32 if single else np.float64).eps * norms[0] * np.sqrt(np.sum(terms**2))
    assert np.all(np.abs(gradient) <= 1e-2 * size + lost + tiny)


@given(st.data())
def test_a_penalty_is_picked_on_any_data(data):
    n, d, K = data.draw(st.integers(2, 8)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    given = data.draw(parameters(K)) | {"alpha": "auto"}
    X, Y = data.draw(matrices((n, d), extremes=False)), data.draw(matrices((n, K), extremes=False))
    model = tried(lambda: fit(given, X.given, Y.given, None)[2], inputs=[X, Y])
    assert model.alpha_ in model.alpha_path_["alpha"]
    assert np.isfinite(model.coef_).all()


@given(st.data())
def test_batches_in_any_order_are_one_fit(data):
    n, d, K = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    given = data.draw(parameters(K)) | {"dtype": "float64", "solver": "cholesky"}
    X, Y = data.draw(numbers((n, d), extremes=False)), data.draw(numbers((n, K), extremes=False))
    order, cut = np.array(data.draw(st.permutations(range(n)))), data.draw(st.integers(0, n))
    batches = [order[:cut], order[cut:]]
    present = data.draw(st.sampled_from([np.asarray, sparse.csr_array, sparse.coo_matrix, np.asfortranarray]))
    if X.dtype.itemsize in (2, 16) or Y.dtype.itemsize in (2, 16):
        present = np.asarray
    whole = shore.ShoreRegressor(**given).fit(X, Y)
    how = data.draw(st.sampled_from(["partial_fit", "fit_batches", "merge"]))

    def in_batches():
        parts = [(present(X[rows]), present(Y[rows])) for rows in batches if len(rows)]
        if how == "fit_batches":
            return shore.ShoreRegressor(**given).fit_batches(parts)
        made = [shore.ShoreRegressor(**given) for _ in parts]
        for model, part in zip(made, parts, strict=True):
            (model if how == "merge" else made[0]).partial_fit(*part)
        for other in made[1:] if how == "merge" else []:
            made[0].merge(other)
        return made[0]

    model = tried(in_batches)
    if model.compression_ is not None:
        assert_same(model.compression_.toarray(), whole.compression_.toarray())
    phi = model.compression_
    B, terms = compressed(Y.astype(np.float64), phi)
    *_, condition = ridge(X.astype(np.float64), B, np.ones(n), float(given["alpha"]), given["fit_intercept"])
    # sums of products that are centred afterwards: the size of X counts twice
    condition *= 1 + np.abs(X.astype(np.float64)).max() ** 2
    assert_close(model.coef_, whole.coef_, model.intercept_, whole.intercept_, condition, given, terms, phi)


@given(st.data())
def test_a_factorisation_serves_any_presentation(data):
    n, d, K = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    given = data.draw(parameters(K)) | {"solver": data.draw(st.sampled_from(["cholesky", "dual"]))}
    X, Y = data.draw(any_matrix((n, d), extremes=False)), data.draw(matrices((n, K), extremes=False))
    model = shore.ShoreRegressor(**given)
    made = tried(lambda: model.factorise(X.given), "X", inputs=[X])
    if X.is_wrong:
        assert isinstance(made, Refusal)
        return
    result = tried(lambda: model.fit(X.given, Y.given, factorisation=made).coef_, inputs=[X, Y])
    assert_same(result, shore.ShoreRegressor(**given).fit(X.given, Y.given).coef_)


WRONG = {
    "sparsity": [0, -1, 1.5, None, "2", True, [2]],
    "n_components": [0, -1, 1.5, None, "many", True, [2], 2**64],
    "compression": [
        "none",
        3,
        np.eye(3),
        shore.SparseSignCompression,
        shore.SparseSignCompression(3, 99),
        ["gaussian"],
    ],
    "constraint": ["positive", None, 3, ["real"]],
    "alpha": [-1, np.nan, np.inf, None, "automatic", True, [1.0], 1j, 10**400, np.ones(2)],
    "solver": ["lu", None, 3, ["cg"], np.ones(2)],
    "solver_tol": [0, -1, 1, np.nan, None, "1", True, [0.1]],
    "decoder": ["PGD", None, 3, ["pgd"]],
    "step": [0, -1, np.nan, np.inf, None, "1", True],
    "max_iter": [0, -1, 1.5, None, "2", True],
    "tol": [-1e-9, np.nan, np.inf, None, "1", True],
    "l1": [-1e-9, np.nan, np.inf, None, "1", True],
    "decode_sparsity": [0, -1, 1.5, "2", True],
    "dtype": ["float16", int, None, "banana", object()],
    "random_state": [-1, 2**64, 1.5, None, "0", np.random.default_rng(0)],
    "n_threads": [0, -1, 1.5, "2", True],
}


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@given(st.data())
def test_wrong_parameters_are_named(method, data):
    name = data.draw(st.sampled_from(tuple(WRONG)))
    value = data.draw(st.sampled_from(WRONG[name]))
    model = shore.ShoreRegressor(**{"n_threads": 1, name: value})
    X, Y = np.ones((3, 2)), np.eye(3)
    result = tried(lambda: getattr(model, method)(X, Y), name)
    assert isinstance(result, Refusal), f"{name}={value!r}"
    assert not model.__sklearn_is_fitted__()
    assert isinstance(tried(lambda: model.set_params(**{name + "s": value}), name + "s"), Refusal)
