import copy
import itertools
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import reference
from scipy import sparse
from scipy.linalg import LinAlgWarning

import shore
from shore.datasets import make_synthetic

DATA = make_synthetic(300, 20, 150, sparsity=3, snr_db=30, seed=1)
X, Y = DATA.X, DATA.Y


def fitted(**options):
    return shore.ShoreRegressor(3, n_components=64, **options).fit(X, Y)


# ---------------------------------------------------------------- stage 1


@pytest.mark.parametrize("compression", ["sparse_sign", "gaussian"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_matrix, np.asfortranarray])
def test_coefficients_are_the_closed_form(compression, fit_intercept, weighted, kind):
    weights = np.random.default_rng(0).uniform(0, 2, 300) if weighted else None
    model = shore.ShoreRegressor(
        3, n_components=64, compression=compression, alpha=0.5, fit_intercept=fit_intercept, dtype=np.float64
    ).fit(kind(X), Y, sample_weight=weights)
    B, x = model.compression_.compress(Y), X.astype(np.float64)
    w = np.ones(300) if weights is None else weights
    x_mean, b_mean = (w @ x / w.sum(), w @ B / w.sum()) if fit_intercept else (np.zeros(20), np.zeros(64))
    xc, bc = x - x_mean, B - b_mean
    W = np.linalg.solve((xc.T * w) @ xc + 0.5 * np.eye(20), (xc.T * w) @ bc)
    np.testing.assert_allclose(model.coef_, W.T, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, b_mean - x_mean @ W, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_any_strides_are_fitted_to_the_same_bits(method, dtype):
    """BLAS and NumPy's own loops add up in different orders: what they are given must not depend on the strides."""
    plain = np.random.default_rng(0).normal(size=X.shape).astype(dtype)
    unaligned = np.frombuffer(b"-" + plain.tobytes(), dtype=dtype, offset=1).reshape(plain.shape)
    for strided in (plain[::-1].copy()[::-1], np.repeat(plain, 2, axis=1)[:, ::2], unaligned):
        models = [shore.ShoreRegressor(3, n_components=64, fit_intercept=True, dtype=dtype) for _ in range(2)]
        one, other = (getattr(m, method)(rows, Y) for m, rows in zip(models, (plain, strided), strict=True))
        assert one.coef_.tobytes() == other.coef_.tobytes()
        assert one.intercept_.tobytes() == other.intercept_.tobytes()


def test_alpha_0_is_the_paper_s_closed_form():
    model = fitted(alpha=0.0, dtype=np.float64)
    x = X.astype(np.float64)
    expected = model.compression_.compress(Y).T @ x @ np.linalg.inv(x.T @ x)  # ΦY Xᵀ (X Xᵀ)⁻¹, samples in columns
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-8, atol=1e-10)


def test_training_loss_ratio_approaches_one():
    """Theorem 1: ‖ΦY - ŴX‖² over ‖Y - ẐX‖² is within 1 ± 3/√m."""
    loss = np.linalg.norm(Y.toarray() - X @ fitted(compression=None, alpha=0.0).coef_.T) ** 2
    for m in (50, 200, 800):
        ratios = []
        for seed in range(5):
            model = shore.ShoreRegressor(3, n_components=m, compression="gaussian", alpha=0.0, random_state=seed).fit(
                X, Y
            )
            residual = model.compression_.compress(Y) - X @ model.coef_.T
            ratios.append(np.linalg.norm(residual) ** 2 / loss)
        assert abs(np.mean(ratios) - 1) < 3 / np.sqrt(m)


def test_uncompressed_model_predicts_by_projection():
    for fit_intercept in (False, True):
        model = fitted(compression=None, fit_intercept=fit_intercept)
        assert model.coef_.shape == (150, 20)
        expected = shore.project(X @ model.coef_.T + model.intercept_, 3, "nonneg")
        reference.assert_same_rows(model.predict(X), expected, rtol=1e-3, tie_rtol=1e-3)


def test_partial_fit_and_merge_are_fit():
    cuts = [0, 10, 11, 60, 150, 160, 280, 300]
    order = np.random.default_rng(0).permutation(7)
    for options in ({}, {"fit_intercept": True}, {"compression": None}):
        whole = fitted(**options)
        for convert in (np.asarray, sparse.csr_array):
            parts = [(convert(X[a:b]), Y[a:b]) for a, b in itertools.pairwise(cuts)]
            by_parts = shore.ShoreRegressor(3, n_components=64, **options)
            for i in order:
                by_parts.partial_fit(*parts[i])
            first, second = (shore.ShoreRegressor(3, n_components=64, **options) for _ in range(2))
            first.fit_batches(parts[:3])
            second.fit_batches(iter(parts[3:]))
            for model in (by_parts, first.merge(second)):
                scale = np.abs(whole.coef_).max()
                np.testing.assert_allclose(model.coef_, whole.coef_, rtol=0, atol=1e-5 * scale)
                np.testing.assert_allclose(model.intercept_, whole.intercept_, rtol=1e-4, atol=1e-3)


def long_tailed(n=300, d=20, K=150, seed=0):
    """Outputs of which the first few occur in most rows, with rows sorted by them: no batch is like another."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, K + 1) ** 1.2
    Y = (rng.random((n, K)) < np.minimum(0.9, 3 * share / share.sum())) * rng.uniform(0.5, 1.5, (n, K))
    order = np.lexsort(Y.T[:3] > 0)
    return rng.normal(size=(n, d))[order], sparse.csr_array(Y[order])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_the_head_is_that_of_all_batches(convert, weighted):
    X, Y = long_tailed()
    weights = np.linspace(0.5, 2, 300) if weighted else np.ones(300)
    options = {"n_components": 40, "fit_intercept": True, "compression": "head_tail", "dtype": np.float64}
    whole = shore.ShoreRegressor(3, **options).fit(X, Y, weights)
    assert 0 < len(whole.compression_.head_outputs) < 40
    cuts = list(itertools.pairwise([0, 10, 11, 60, 150, 160, 280, 300]))
    heads = set()
    for order in (cuts, cuts[::-1]):
        model = shore.ShoreRegressor(3, **options)
        for a, b in order:
            model.partial_fit(convert(X[a:b]), Y[a:b], weights[a:b])
            heads.add(tuple(model.compression_.head_outputs))
        np.testing.assert_array_equal(model.compression_.head_outputs, whole.compression_.head_outputs)
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(model.intercept_, whole.intercept_, rtol=1e-7, atol=1e-9)
        reference.assert_same_rows(model.predict(X), whole.predict(X), rtol=1e-6)
    assert len(heads) > 3  # what was seen so far counted each time
    first, second = (shore.ShoreRegressor(3, **options) for _ in range(2))
    first.partial_fit(convert(X[:100]), Y[:100], weights[:100])
    second.partial_fit(convert(X[100:]), Y[100:], weights[100:])
    merged = pickle.loads(pickle.dumps(first)).merge(second)
    np.testing.assert_allclose(merged.coef_, whole.coef_, rtol=1e-7, atol=1e-9)


def test_a_head_that_has_to_be_decided_early(monkeypatch):
    """XᵀY must not outgrow what else is kept: then Φ is that of the rows until then."""
    X, Y = long_tailed()
    options = {"n_components": 40, "compression": "head_tail", "dtype": np.float64}
    monkeypatch.setattr("shore._statistics.FEW_ENTRIES", 0)
    model = shore.ShoreRegressor(3, **options)
    model.partial_fit(X[:20], Y[:20])
    assert model._statistics.later is not None
    model.partial_fit(X[20:150], Y[20:150])
    assert model._statistics.later is None
    early = shore.HeadTailCompression(40, shore.compression.OutputEnergy.of(Y[:150]).weights, dtype=np.float64)
    np.testing.assert_array_equal(model.compression_.head_outputs, early.head_outputs)
    more = shore.ShoreRegressor(3, **options).partial_fit(X[150:170], Y[150:170])
    assert more._statistics.later is not None
    rest = shore.ShoreRegressor(3, **options).partial_fit(X[170:190], Y[170:190])
    monkeypatch.undo()
    for merged in (copy.deepcopy(model).merge(more).merge(rest), rest.merge(copy.deepcopy(model)).merge(more)):
        merged.partial_fit(X[190:], Y[190:])
        expected = shore.ShoreRegressor(3, **{**options, "compression": early}).fit(X, Y)
        np.testing.assert_allclose(merged.coef_, expected.coef_, rtol=1e-7, atol=1e-9)
    for other in ({"n_components": 41}, {"random_state": 1}, {"compression": "sparse_sign"}, {"dtype": np.float32}):
        another = shore.ShoreRegressor(3, **{**options, **other}).partial_fit(X, Y)
        for one, two in ((model, another), (another, model), (more, another), (another, more)):
            before = one.coef_.copy()
            with pytest.raises(ValueError, match="merge needs models with the same compression"):
                one.merge(two)
            np.testing.assert_array_equal(one.coef_, before)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_a_factorisation_serves_several_compressions(convert, fit_intercept):
    weights = np.random.default_rng(0).uniform(0.5, 2, 300)
    options = {"n_components": 32, "solver": "cholesky", "fit_intercept": fit_intercept}
    factorisation = shore.ShoreRegressor(3, **options).factorise(convert(X), weights)
    for seed in (0, 1):
        model = shore.ShoreRegressor(3, random_state=seed, **options)
        expected = copy.deepcopy(model).fit(convert(X), Y, weights)
        model.fit(convert(X), Y, weights, factorisation=factorisation)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        np.testing.assert_array_equal(model.intercept_, expected.intercept_)
    with pytest.raises(ValueError, match=r"factorisation is for another alpha: 1\.0, not 2\.0"):
        shore.ShoreRegressor(3, alpha=2.0, fit_intercept=fit_intercept).fit(X, Y, factorisation=factorisation)
    with pytest.raises(ValueError, match="factorisation is for another shape of X"):
        shore.ShoreRegressor(3, fit_intercept=fit_intercept).fit(X[:9], Y[:9], factorisation=factorisation)


def test_partial_fit_with_weights_is_fit():
    weights = np.random.default_rng(0).uniform(0.5, 2, 300)
    for options in ({}, {"fit_intercept": True}, {"compression": None}, {"compression": None, "fit_intercept": True}):
        whole = shore.ShoreRegressor(3, n_components=64, dtype=np.float64, **options).fit(X, Y, weights)
        for convert in (np.asarray, sparse.csr_array):
            model = shore.ShoreRegressor(3, n_components=64, dtype=np.float64, **options)
            for here in (slice(0, 100), slice(100, 300)):
                model.partial_fit(convert(X[here]), Y[here], weights[here])
            np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(model.intercept_, whole.intercept_, rtol=1e-6, atol=1e-6)


def test_alpha_auto_picks_from_its_curve():
    for data in (X, sparse.csr_array(X)):
        for solver in ("auto", "cg"):
            model = shore.ShoreRegressor(3, n_components=64, alpha="auto", solver=solver).fit(data, Y)
            path = model.alpha_path_
            assert np.all(np.diff(path["alpha"]) > 0)
            assert model.alpha_ == path["alpha"][np.argmax(path["precision"])]
            assert not hasattr(model.set_params(alpha=1.0).fit(data, Y), "alpha_path_")


# ---------------------------------------------------------------- stage 2


@pytest.mark.parametrize("compression", ["sparse_sign", "gaussian", None])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_predictions_do_not_depend_on_batches_threads_or_order(compression, convert, monkeypatch):
    model = fitted(compression=compression, fit_intercept=True)
    given = convert(X)
    whole = model.predict(given, n_threads=1)
    reference.assert_canonical(whole, (300, 150), 3, np.float32)
    for n_threads in (2, 3, 7):
        reference.assert_same_bits(model.predict(given, n_threads=n_threads), whole)
    order = np.random.default_rng(0).permutation(300)
    reference.assert_same_bits(model.predict(given[order]), sparse.csr_array(whole[order]))
    for size in (1, 7, 64):
        for start in range(0, 128, size):
            part = model.predict(given[start : start + size], n_threads=2)
            reference.assert_same_bits(part, sparse.csr_array(whole[start : start + size]))
    monkeypatch.setattr("shore.estimator._BLOCK_BYTES", 40_000)
    monkeypatch.setattr("shore._validation._BLOCK_BYTES", 40_000)
    reference.assert_same_bits(model.predict(given), whole)


def test_dense_and_csr_inputs_differ_by_rounding_alone():
    model = fitted(dtype=np.float64)
    reference.assert_same_rows(model.predict(X), model.predict(sparse.csr_array(X)), rtol=1e-8)


def test_predict_options():
    model = fitted()
    found, info = model.predict(X, return_info=True)
    assert len(info.n_iter) == len(info.residual) == 300
    assert info.converged.mean() > 0.9
    assert np.diff(model.predict(X, sparsity=1).indptr).max() == 1
    assert not np.isin(model.predict(X, denied=np.unique(found.indices)).indices, found.indices).any()
    allowed = sparse.csr_array(np.random.default_rng(0).random((300, 150)) < 0.1)
    assert (model.predict(X, allowed=allowed).astype(bool) > allowed).nnz == 0
    empty, info = model.predict(X[:0], return_info=True)
    assert empty.shape == (0, 150)
    assert len(info.step) == 0
    with pytest.raises(ValueError, match="return_info needs a compression"):
        fitted(compression=None).predict(X, return_info=True)


@pytest.mark.parametrize("decoder", ["pgd", "cd", "omp", "fista"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_predictions_are_decoded_scores(decoder, fit_intercept):
    model = fitted(decoder=decoder, l1=0.2, fit_intercept=fit_intercept)
    B = model.predict_compressed(X)
    np.testing.assert_allclose(B, X @ model.coef_.T + model.intercept_, rtol=1e-3, atol=1e-3)
    expected = shore.decode(B, model.compression_, 3, method=decoder, constraint="nonneg", l1=0.2)
    reference.assert_same_bits(model.predict(X), expected)
    np.testing.assert_array_equal(model.predict_compressed(sparse.csr_array(X)[:5], n_threads=1).shape, (5, 64))


def test_score_is_precision_at_s():
    model = fitted()
    assert model.score(X, Y) == shore.metrics.precision_at_k(Y, model.predict(X), 3)
    assert model.score(X, Y) > 0.2


@pytest.mark.parametrize("options", [{}, {"compression": "gaussian"}, {"compression": None}, {"fit_intercept": True}])
def test_explanations_sum_to_the_correlation_score(options):
    model = fitted(dtype=np.float64, **options)
    all_of_it = model.explain(X[:5], top_features=100)
    found = model.predict(X[:5])
    assert len(all_of_it) == found.nnz * (20 + bool(options.get("fit_intercept")))
    scores = X[:5].astype(np.float64) @ model.coef_.T + model.intercept_
    if model.compression_ is not None:
        scores = model.compression_.correlate(scores)
    for i, j in zip(*found.nonzero(), strict=True):
        mine = (all_of_it.row == i) & (all_of_it.output == j)
        np.testing.assert_allclose(all_of_it.contribution[mine].sum(), scores[i, j], rtol=1e-9)
        np.testing.assert_allclose(all_of_it.score[mine], scores[i, j], rtol=1e-9)
        np.testing.assert_array_equal(all_of_it.value[mine], found[i, j])
        sizes = np.abs(all_of_it.contribution[mine])
        assert np.all(np.diff(sizes) <= 0)
    short = model.explain(sparse.csr_array(X[:5]), top_features=2)
    assert len(short) == 2 * found.nnz
    assert set(short.to_dict()) == {"row", "output", "value", "feature", "contribution", "score"}


@pytest.mark.parametrize("compression", ["sparse_sign", None])
def test_explanations_are_of_the_prediction_under_the_same_limits(compression):
    model = fitted(compression=compression)
    free = model.predict(X[:5])
    limits = {"allowed": np.arange(Y.shape[1]) % 7 > 0, "denied": free, "sparsity": 2}
    why, found = model.explain(X[:5], 1, n_threads=1, **limits), model.predict(X[:5], **limits)
    np.testing.assert_array_equal(why.row, np.repeat(np.arange(5), np.diff(found.indptr)))
    np.testing.assert_array_equal(why.output, found.indices)
    np.testing.assert_array_equal(why.value, found.data)
    assert found.nnz
    assert not found.multiply(free).nnz
    assert np.all(found.indices % 7)


# ---------------------------------------------------------------- errors, state


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"alpha": -1.0}, ValueError, "alpha must be a number of at least 0 or 'auto', got -1.0"),
        ({"alpha": "much"}, TypeError, "alpha must be a number"),
        ({"alpha": np.nan}, ValueError, "alpha"),
        ({"solver": "magic"}, ValueError, "solver must be one of 'auto', 'cholesky', 'dual', 'cg', got 'magic'"),
        ({"solver_tol": 0}, ValueError, "solver_tol"),
        ({"compression": "zip"}, ValueError, "compression must be 'sparse_sign'"),
        ({"compression": shore.SparseSignCompression(9, 7)}, ValueError, "compression is for 7 outputs, but Y has 150"),
        ({"n_components": 0}, ValueError, "n_components must be a positive integer"),
        ({"sparsity": -2}, ValueError, "sparsity must be a positive integer"),
        ({"dtype": np.int32}, ValueError, "dtype must be float32 or float64"),
        ({"decoder": "guess"}, ValueError, "decoder"),
        ({"l1": -1}, ValueError, "l1"),
        ({"n_threads": 0}, ValueError, "n_threads"),
        ({"random_state": -1}, ValueError, "random_state must be from 0"),
        ({"random_state": None}, TypeError, "random_state must be an integer"),
        ({"step": -1}, ValueError, "step"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"tol": "a"}, TypeError, "tol"),
        ({"constraint": "foo"}, ValueError, "constraint"),
        ({"dtype": None}, ValueError, "dtype must be"),
        ({"dtype": "foo"}, ValueError, "dtype must be"),
        ({"fit_intercept": "no"}, TypeError, "fit_intercept must be True or False, got 'no'"),
        ({"fit_intercept": np.ones(2)}, TypeError, "fit_intercept must be True or False"),
        ({"fit_intercept": None}, TypeError, "fit_intercept must be True or False, got None"),
        ({"verbose": None}, TypeError, "verbose must be an integer of at least 0, got None"),
        ({"verbose": 1.5}, TypeError, "verbose must be an integer of at least 0, got 1.5"),
        ({"verbose": "0"}, TypeError, "verbose must be an integer"),
        ({"verbose": np.ones(2)}, TypeError, "verbose must be an integer"),
        ({"verbose": -1}, ValueError, "verbose must be an integer of at least 0, got -1"),
    ],
    ids=str,
)
def test_bad_parameters_are_said_at_fit_and_leave_the_model_as_it_was(options, error, words):
    model = fitted()
    before = copy.deepcopy({k: v for k, v in model.__dict__.items() if k.startswith("_") or k.endswith("_")})
    model.set_params(**options)
    with pytest.raises(error, match=words):
        model.fit(X, Y)
    assert set(before) <= set(model.__dict__)
    np.testing.assert_array_equal(before["_feature_major"], model._feature_major)
    fresh = shore.ShoreRegressor(**{"n_components": 64, **options})
    with pytest.raises(error, match=words):
        fresh.fit(X, Y)
    assert not fresh.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("X_given", "Y_given", "words"),
    [
        (X[:10], Y, "X and Y must have the same number of rows, got 10 and 300"),
        (X[:0], Y[:0], "X has 0 sample.s. .shape=.0, 20.. while a minimum of 1 is required"),
        (X[:, :0], Y, "X has 0 feature.s."),
        (X[0], Y, "X must be 2-D"),
        (np.full((300, 20), np.nan), Y, "X must be finite"),
        (sparse.csr_array(np.full((300, 20), np.inf)), Y, "X must be finite"),
        (X, np.full((300, 4), np.nan), "Y must be finite"),
    ],
)
def test_bad_data(X_given, Y_given, words):
    with pytest.raises(ValueError, match=words):
        shore.ShoreRegressor(3).fit(X_given, Y_given)
    with pytest.raises(ValueError, match=words):
        shore.ShoreRegressor(3).partial_fit(X_given, Y_given)


def test_other_widths_later():
    model = shore.ShoreRegressor(3, n_components=64).partial_fit(X, Y)
    with pytest.raises(ValueError, match="X has 19 features, but ShoreRegressor is expecting 20"):
        model.predict(X[:, :19])
    with pytest.raises(ValueError, match="X has 21 features"):
        model.partial_fit(np.ones((300, 21)), Y)
    with pytest.raises(ValueError, match="Y has 149 outputs, but the model has 150"):
        model.partial_fit(X, Y[:, :149])
    with pytest.raises(ValueError, match="merge needs models with the same compression"):
        model.merge(shore.ShoreRegressor(3, n_components=64, random_state=1).partial_fit(X, Y))
    with pytest.raises(ValueError, match="merge needs two models that were fitted by partial_fit"):
        model.merge(fitted())


def test_merge_refuses_other_matrices_and_leaves_the_model_alone():
    rng = np.random.default_rng(0)
    one, other = (
        shore.ShoreRegressor(3, compression=shore.MatrixCompression(rng.normal(size=(16, 150)))).partial_fit(X, Y)
        for _ in range(2)
    )
    before = one.coef_.copy()
    with pytest.raises(ValueError, match="same compression"):
        one.merge(other)
    with pytest.raises(TypeError, match="other must be a ShoreRegressor, got int"):
        one.merge(3)
    np.testing.assert_array_equal(one.coef_, before)


def test_factorisation_is_tied_to_its_rows():
    model, weights = shore.ShoreRegressor(3), np.linspace(1, 2, 300)
    factorisation = model.factorise(X, weights)
    with pytest.raises(ValueError, match="another sample_weight"):
        model.fit(X, Y, factorisation=factorisation)
    with pytest.raises(ValueError, match="factorisation is for another X"):
        model.fit(X + 1, Y, weights, factorisation=factorisation)
    with pytest.raises(TypeError, match="factorisation must be what factorise returned, got int"):
        model.fit(X, Y, factorisation=3)
    with pytest.raises(ValueError, match="X has 0 sample"):
        model.factorise(X[:0])


@pytest.mark.parametrize("weights", [None, np.arange(60) % 4 + 1.0])
@pytest.mark.parametrize("convert", [np.array, sparse.csr_array], ids=["dense", "csr"])
def test_a_factorisation_tells_its_rows_from_others_with_the_same_sum(convert, weights):
    rng = np.random.default_rng(0)
    rows, outputs = rng.integers(0, 2, size=(60, 7)).astype(float), (rng.random((60, 9)) < 0.2).astype(float)
    model, given = shore.ShoreRegressor(2, n_components=5), convert(rows)
    factorisation = model.factorise(given, weights)
    expected = model.fit(given, outputs, weights).coef_
    same = [convert(rows.copy()), convert(np.asfortranarray(rows)), convert(np.repeat(rows, 2, axis=1))[:, ::2]]
    for other in same:
        found = model.fit(other, outputs, weights, factorisation=factorisation).coef_
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for other in (rows[::-1], rows[:, ::-1], 1 - rows[:, [1, 0, *range(2, 7)]]):
        with pytest.raises(ValueError, match="factorisation is for another X"):
            model.fit(convert(other), outputs, weights, factorisation=factorisation)
    if convert is np.array:
        given *= 3
        for other in (given, rows):  # neither is X as it was, with rows to match
            with pytest.raises(ValueError, match="factorisation is for another X"):
                model.fit(other, outputs, weights, factorisation=factorisation)


def test_parameters_are_checked_again_when_rows_are_solved_late():
    model = shore.ShoreRegressor(3, n_components=32).partial_fit(X, Y)
    model.set_params(alpha=-1)
    with pytest.raises(ValueError, match="alpha"):
        model.predict(X)
    model.set_params(alpha=9.0)
    assert model.predict(X).shape == Y.shape
    assert model.alpha_ == 9.0


def test_patterns_per_row_must_fit_the_rows():
    model = fitted()
    with pytest.raises(ValueError, match=r"allowed has shape \(50, 150\), but a pattern per row needs \(3, 150\)"):
        model.predict(X[:3], allowed=sparse.csr_array(np.ones((50, 150))))
    with pytest.raises(ValueError, match="sparsity"):
        model.predict(X[:0], sparsity=-1)


class Frame:
    """As much of a data frame as an estimator sees."""

    def __init__(self, values, columns):
        self.values, self.columns = values, columns

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def test_feature_names_are_compared():
    names = [f"f{i}" for i in range(20)]
    model = shore.ShoreRegressor(3).fit(Frame(X, names), Y)
    assert model.feature_names_in_.tolist() == names
    assert model.predict(Frame(X, names)).shape == Y.shape
    with pytest.raises(ValueError, match="X has other feature names"):
        model.predict(Frame(X, names[::-1]))


def test_a_fit_takes_the_names_of_its_own_rows():
    names = [f"f{i}" for i in range(20)]
    model = shore.ShoreRegressor(3, n_components=32).fit(Frame(X, names), Y)
    assert model.fit(Frame(X, names[::-1]), Y).feature_names_in_.tolist() == names[::-1]
    assert model.fit(Frame(X[:, :2], ["x", "y"]), Y).feature_names_in_.tolist() == ["x", "y"]
    assert model.fit_batches([(Frame(X, names), Y)]).feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="X has other feature names"):
        model.partial_fit(Frame(X, names[::-1]), Y)
    model.fit(Frame(X, names), Y).factorise(Frame(X, names[::-1]))
    assert model.partial_fit(Frame(X, names[::-1]), Y).feature_names_in_.tolist() == names[::-1]
    assert not hasattr(model.fit(X, Y), "feature_names_in_")


@pytest.mark.parametrize("columns", [["a", "b"], [], [f"f{i}" for i in range(21)]], ids=len)
def test_names_must_be_as_many_as_features(columns):
    for fit in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=rf"X has 20 features, but {len(columns)} names in X\.columns"):
            getattr(shore.ShoreRegressor(3, n_components=32), fit)(Frame(X, columns), Y)


@pytest.mark.parametrize("columns", [3, lambda: 3, range(20), [np.ones(3)] * 20], ids=repr)
def test_columns_that_are_no_names(columns):
    model = shore.ShoreRegressor(3, n_components=32).fit(Frame(X, columns), Y)
    assert not hasattr(model, "feature_names_in_")
    named = shore.ShoreRegressor(3, n_components=32).fit(Frame(X, [f"f{i}" for i in range(20)]), Y)
    if isinstance(columns, range | list):
        with pytest.raises(ValueError, match="X has other feature names"):
            named.predict(Frame(X, columns))
    else:
        assert named.predict(Frame(X, columns)).shape == Y.shape


def test_merge_says_what_is_wrong_with_the_other_model():
    def model(columns=None, **options):
        rows = X if columns is None else Frame(X, columns)
        return shore.ShoreRegressor(3, **{"n_components": 32, **options}).partial_fit(rows, Y)

    names = [f"f{i}" for i in range(20)]
    assert model(names).merge(model()).merge(model(names)).feature_names_in_.tolist() == names
    few = shore.ShoreRegressor(3).partial_fit(X[:, :5], Y)
    for other, error, words in (
        (model(names[::-1]), ValueError, "other has other feature names"),
        (few, ValueError, "other has 5 features and 150 outputs, but this model has 20 and 150"),
        (shore.ShoreRegressor(), shore.estimator.NotFittedError, "other is not fitted yet"),
        (fitted(), ValueError, "merge needs two models that were fitted by partial_fit, but other was not"),
        (model(dtype=np.float64), ValueError, "same compression, but other has HeadTail.*float64"),
    ):
        with pytest.raises(error, match=words):
            model(names).merge(other)
    with pytest.raises(ValueError, match="but this one was not"):
        fitted().merge(model())


@pytest.mark.parametrize(
    ("batches", "error", "words"),
    [
        (3, TypeError, "batches must be an iterable of .* pairs, got int"),
        (None, TypeError, "batches must be an iterable of .* pairs, got NoneType"),
        ([(X,)], TypeError, "batches must be .* pairs, but one of them is 1 items"),
        ([(X, Y, None)], TypeError, "batches must be .* pairs, but one of them is 3 items"),
        ([X[:2]], TypeError, "batches must be .* pairs, but one of them is ndarray"),
        ({"ab": 1}, TypeError, "batches must be .* pairs, but one of them is str"),
        ([], ValueError, "batches must hold at least one .* pair, got none"),
    ],
    ids=str,
)
def test_bad_batches(batches, error, words):
    model = fitted()
    before = model.__dict__.copy()
    with pytest.raises(error, match=words):
        model.fit_batches(batches)
    assert model.__dict__ == before


@pytest.mark.parametrize("compression", ["head_tail", None])
@pytest.mark.parametrize("decoder", ["x", None, ["pgd"]], ids=str)
def test_a_decoder_that_was_changed_later_is_named(compression, decoder):
    model = fitted(compression=compression).set_params(decoder=decoder)
    for use in (model.predict, model.explain, lambda rows: model.score(rows, Y), lambda rows: model.predictor()):
        with pytest.raises(ValueError, match="decoder must be one of 'pgd'"):
            use(X)


@pytest.mark.parametrize("first", ["head_tail", "gaussian", None, shore.SparseSignCompression(32, 150)], ids=str)
@pytest.mark.parametrize(
    "change", [{"n_components": 16}, {"compression": "sparse_sign"}, {"random_state": 5}, {"dtype": np.float64}]
)
def test_parameters_that_sums_follow_from_stay(first, change):
    model = shore.ShoreRegressor(3, n_components=32, compression=first).partial_fit(X[:150], Y[:150])
    before = {name: getattr(model, name) for name in change}
    model.set_params(**change)
    with pytest.raises(ValueError, match=f"{next(iter(change))} was changed since the first partial_fit"):
        model.partial_fit(X[150:], Y[150:])
    model.set_params(**before, alpha=2.0, fit_intercept=True, sparsity=2)
    again = copy.deepcopy(model).set_params(dtype="float32").partial_fit(X[150:], Y[150:])
    whole = shore.ShoreRegressor(3, n_components=32, compression=first, alpha=2.0, fit_intercept=True).fit(X, Y)
    np.testing.assert_allclose(again.coef_, whole.coef_, rtol=1e-3, atol=1e-4)
    assert model.set_params(**change).fit(X, Y).partial_fit(X, Y).predict(X).shape == Y.shape


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("options", [{}, {"compression": None, "fit_intercept": True}], ids=str)
def test_rows_of_weight_0_have_no_say_in_alpha(convert, options):
    def model():
        return shore.ShoreRegressor(3, **{"n_components": 32, "alpha": "auto", **options})

    weights = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    counted = weights > 0
    garbage = Y.toarray()
    garbage[~counted] = 0
    garbage[~counted, 0] = 1
    expected = model().fit(convert(X[counted]), Y[counted], weights[counted])
    for outputs in (Y, garbage):
        found = model().fit(convert(X), outputs, weights)
        np.testing.assert_array_equal(found.alpha_path_["precision"], expected.alpha_path_["precision"])
        assert found.alpha_ == expected.alpha_
    with pytest.raises(ValueError, match="at least 2 rows whose sample_weight is not 0, to hold some out, got 1"):
        model().fit(convert(X), Y, np.arange(300) == 7)
    with pytest.raises(ValueError, match="at least 2 rows, to hold some out, got 1"):
        model().fit(convert(X[:1]), Y[:1])


def test_precision_of_rows_that_are_held_out_is_weighted():
    weights = np.random.default_rng(0).uniform(0.1, 5, 300)
    model = shore.ShoreRegressor(3, n_components=32, alpha="auto").fit(X, Y, weights)
    kept, held = shore._preparation.split_rows(300, 0.1, 0)
    path = model.alpha_path_
    for alpha, precision in zip(path["alpha"], path["precision"], strict=True):
        part = shore.ShoreRegressor(3, alpha=alpha, compression=model.compression_).fit(X[kept], Y[kept], weights[kept])
        rows = [shore.metrics.precision_at_k(Y[[i]], part.predict(X[[i]]), 3) for i in held]
        assert precision == pytest.approx(np.average(rows, weights=weights[held]), abs=0.02)
    curves = [
        shore.ShoreRegressor(3, n_components=32, alpha="auto").fit(X, Y, given).alpha_path_["precision"]
        for given in (None, np.ones(300), np.full(300, 5e-324))
    ]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-12)
    assert np.isfinite(curves[2]).all()


@pytest.mark.parametrize("compression", ["head_tail", None])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_an_enormous_row_that_is_held_out_is_blamed_on_what_was_given(compression, fit_intercept):
    rows, (_, held) = X[:40].copy(), shore._preparation.split_rows(40, 0.1, 0)
    rows[held[0]] = 3e38
    model = shore.ShoreRegressor(3, n_components=16, alpha="auto", compression=compression, fit_intercept=fit_intercept)
    with pytest.raises(ValueError, match="X or Y is too large: scores Wx leave the range of float32"):
        model.fit(rows, Y[:40] * 1e4)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("compression", ["gaussian", None])
def test_the_intercept_of_tiny_weights(convert, compression):
    """Which say nothing but the means, since the penalty is far above them."""
    model = shore.ShoreRegressor(3, compression=compression, n_components=16, fit_intercept=True, dtype=np.float64)
    for weight in (1e-300, 1e-320, 5e-324):
        model.fit(convert(X), Y, np.full(300, weight))
        B = Y.astype(np.float64) if compression is None else model.compression_.compress(Y)
        np.testing.assert_allclose(model.intercept_, np.asarray(B.mean(axis=0)).ravel(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("unit", [1.0, 1e-300, 1e-200])
def test_heads_of_enormous_and_tiny_outputs_are_those_of_all_batches(unit):
    for entries in ([(0, 0, 1e100), (1, 1, 1e90), (2, 2, 1e80), (3, 3, 1e100)], [(0, 0, 1e100), (1, 1, 1e76)]):
        outputs = np.zeros((4, 40))
        outputs[1:, 10:] = 1e75 * unit
        for i, j, value in entries:
            outputs[i, j] = value * unit
        options = {"n_components": 8, "dtype": np.float64}
        whole = shore.ShoreRegressor(2, **options).fit(np.eye(4), outputs).compression_
        for order in ([0, 1, 2, 3], [3, 1, 2, 0]):
            model, merged = (shore.ShoreRegressor(2, **options) for _ in range(2))
            for i in order:
                model.partial_fit(np.eye(4)[[i]], outputs[[i]])
            merged.partial_fit(np.eye(4)[order[:2]], outputs[order[:2]])
            merged.merge(shore.ShoreRegressor(2, **options).partial_fit(np.eye(4)[order[2:]], outputs[order[2:]]))
            for found in (model, merged):
                np.testing.assert_array_equal(found.compression_.head_outputs, whole.head_outputs)


@pytest.mark.parametrize("solver", ["cholesky", "dual", "cg"])
def test_numbers_out_of_range_are_refused(solver):
    big = X.astype(np.float64)
    big[0, 0] = 1e39
    model = shore.ShoreRegressor(3, n_components=32, solver=solver)
    for convert in (np.asarray, sparse.csr_array):
        with pytest.raises(ValueError, match="X must be finite in float32"):
            model.fit(convert(big), Y)
        huge = X * np.float32(1e25)  # whose squares overflow
        exact = shore.ShoreRegressor(3, n_components=32, solver="cholesky", dtype=np.float64).fit(huge, Y).coef_
        found = model.fit(convert(huge), Y).coef_
        tolerance = 1e-2 if solver == "cg" else 1e-4
        np.testing.assert_allclose(found, exact, rtol=0, atol=tolerance * np.abs(exact).max())
    with pytest.raises(ValueError, match="Y is too large"):
        model.set_params(compression=None).fit(X, Y.astype(np.float64) * 1e39)


def test_uncompressed_model_on_csr_rows():
    for solver in ("cholesky", "dual", "cg"):
        options = {"compression": None, "solver": solver, "dtype": np.float64, "solver_tol": 1e-10}
        models = [shore.ShoreRegressor(3, **options).fit(convert(X), Y) for convert in (np.asarray, sparse.csr_array)]
        np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-5, atol=1e-6)
    assert shore.ShoreRegressor(3, compression=None, alpha="auto").fit(sparse.csr_array(X), Y).alpha_ > 0


def test_compression_of_another_dtype():
    for dtype, other in ((np.float32, np.float64), (np.float64, np.float32)):
        phi = shore.SparseSignCompression(32, 150, dtype=other)
        for convert in (np.asarray, sparse.csr_array):
            model = shore.ShoreRegressor(3, compression=phi, dtype=dtype)
            one, two = copy.deepcopy(model).fit(convert(X), Y), model.partial_fit(convert(X), Y)
            assert one.coef_.dtype == two.coef_.dtype == dtype
            np.testing.assert_allclose(one.coef_, two.coef_, rtol=0, atol=1e-5 * np.abs(one.coef_).max())


def test_columns_far_from_zero():
    """Centring must not eat the digits: a column like a year, in float32, against float64."""
    far = X.copy()
    far[:, 3] = 2000 + np.arange(300) % 20
    exact = shore.ShoreRegressor(3, n_components=16, fit_intercept=True, dtype=np.float64).fit(far, Y)
    for convert in (np.asarray, sparse.csr_array):
        for solver in ("cholesky", "dual"):
            model = shore.ShoreRegressor(3, n_components=16, fit_intercept=True, solver=solver)
            error = np.abs(model.fit(convert(far), Y).coef_ - exact.coef_).max() / np.abs(exact.coef_).max()
            assert error < 2e-4
        model = shore.ShoreRegressor(3, n_components=16, fit_intercept=True).partial_fit(convert(far), Y)
        assert np.abs(model.coef_ - exact.coef_).max() < 1e-5 * np.abs(exact.coef_).max()


def test_partial_fit_on_rows_of_low_rank():
    rng = np.random.default_rng(0)
    low = (rng.normal(size=(300, 8)) @ rng.normal(size=(8, 20))).astype(np.float32)
    with pytest.warns(LinAlgWarning, match="X has rank 8 of 20"):
        whole = shore.ShoreRegressor(3, n_components=16, alpha=0.0).fit(low, Y).coef_
    for convert in (np.asarray, sparse.csr_array):
        model = shore.ShoreRegressor(3, n_components=16, alpha=0.0)
        model.partial_fit(convert(low[:100]), Y[:100]).partial_fit(convert(low[100:]), Y[100:])
        with pytest.warns(LinAlgWarning, match="minimum norm"):
            np.testing.assert_allclose(model.coef_, whole, rtol=0, atol=1e-3 * np.abs(whole).max())


def test_not_fitted_error_survives_a_pickle():
    with pytest.raises(shore.NotFittedError) as caught:
        shore.ShoreRegressor().predict(X)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), shore.NotFittedError)


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(300), np.zeros(300), np.full(300, np.nan)])
def test_bad_weights(weights):
    with pytest.raises(ValueError, match="sample_weight"):
        shore.ShoreRegressor(3).fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize("use", ["predict", "explain", "coef_", "intercept_", "score", "merge"])
def test_not_fitted(use):
    model = shore.ShoreRegressor()
    calls = {"predict": [X], "explain": [X], "score": [X, Y], "merge": [model]}
    with pytest.raises(shore.NotFittedError, match="not fitted yet"):
        getattr(model, use)(*calls[use])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("solver", ["cholesky", "dual", "cg"])
def test_all_zero_outputs_predict_nothing(kind, solver):
    model = shore.ShoreRegressor(3, n_components=64, solver=solver).fit(kind(X), sparse.csr_array((300, 150)))
    assert model.predict(kind(X)).nnz == 0


def test_outputs_are_never_made_dense():
    """n·K dense would be 40 GB here."""
    n, K = 2000, 5_000_000
    rng = np.random.default_rng(0)
    outputs = sparse.csr_array((np.ones(n), (np.arange(n), rng.integers(0, K, n))), shape=(n, K))
    model = shore.ShoreRegressor(1, n_components=64).fit(rng.normal(size=(n, 10)), outputs)
    assert model.predict(rng.normal(size=(3, 10))).shape == (3, K)


def test_copies_and_pickles_predict_alike():
    model = fitted(fit_intercept=True)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        reference.assert_same_bits(again.predict(X), model.predict(X))
        assert repr(again) == repr(model)


def test_progress_is_shown_when_asked(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    fitted(verbose=1)
    assert "fit (cholesky): 64 of 64" in capsys.readouterr().err
    fitted()
    assert capsys.readouterr().err == ""


INTERRUPTED = """
import signal, sys, numpy as np, shore
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if inherited from a process in the background
from scipy import sparse
rng = np.random.default_rng(0)
n = 30_000
X = sparse.csr_array((rng.random(40 * n), (np.repeat(np.arange(n), 40), rng.integers(0, 20_000, 40 * n))))
Y = sparse.csr_array((np.ones(n), (np.arange(n), rng.integers(0, 5_000, n))))
model = shore.ShoreRegressor(5, n_components=2000, alpha=1e-6, solver="cg", solver_tol=1e-6)
print("started", flush=True)
try:
    model.fit(X, Y)
except KeyboardInterrupt:
    print("fitted" if model.__sklearn_is_fitted__() else "as it was", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_ctrl_c_ends_a_fit_and_leaves_no_half_model():
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "started\n"
    time.sleep(2)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert (out, child.returncode) == ("as it was\n", 0)


def test_conjugate_gradients_do_not_take_overflow_for_convergence():
    model = shore.ShoreRegressor(1, compression=None, solver="cg", dtype=np.float64)
    np.testing.assert_allclose(model.fit(np.full((2, 1), 1e200), np.ones((2, 1))).coef_, 1e-200)
    with np.errstate(over="ignore"):
        W, _ = shore.solvers.conjugate_gradients(lambda P: P * 1e200 * 1e200, np.ones((2, 1)), 1e-3)
    assert np.isnan(W).all()


def test_sums_that_overflow_leave_the_model_as_it_was():
    X, Y = np.eye(3), np.eye(3)
    model = shore.ShoreRegressor(1, n_components=4, dtype=np.float64).partial_fit(X, Y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="X or Y is too large"):
        model.partial_fit(X * 1e200, Y)
    np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.parametrize("kind", [np.float16, ">f4", int])
def test_what_is_explained_does_not_depend_on_how_rows_are_stored(kind):
    X = np.array([[1.0, 0.0], [0.0, 2.0]])
    model = shore.ShoreRegressor(1, n_components=4).fit(X, np.eye(2))
    zeros = sparse.csr_array((X.ravel(), [0, 1, 0, 1], [0, 2, 4]), shape=(2, 2))  # two of them are stored
    expected = model.explain(sparse.csr_array(X)).to_dict()
    for rows in (X.astype(kind), zeros):
        for name, column in model.explain(rows).to_dict().items():
            np.testing.assert_array_equal(column, expected[name])


def test_restrictions_are_checked_without_rows_too():
    model = shore.ShoreRegressor(1, n_components=4).fit(np.eye(2), np.eye(2))
    assert model.predict(np.empty((0, 2))).shape == (0, 2)
    with pytest.raises(ValueError, match="allowed must hold indices from 0 to 1"):
        model.predict(np.empty((0, 2)), allowed=[2])
