import pickle

import numpy as np
from arguments import as_array
from hypothesis import given
from hypothesis import strategies as st
from inputs import Input, any_matrix, dense, folder, matrices, not_finite, numbers, options, sizes, which_outputs
from models import models
from oracle import Refusal, assert_at_most, assert_same, compared, tried
from scipy import sparse
from test_fuzz_metrics import slow_metric

import shore


def is_in_range(X, dtype):
    """Whether the rows are finite in the model's dtype."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(as_array(X).astype(dtype)).all())


def assert_too_large(X, model, refusal):
    """That rows were refused for numbers whose scores may leave the range of the model's dtype."""
    largest = np.abs(as_array(X.plain)).max(initial=0)
    assert not is_in_range(X.plain, model.intercept_.dtype) or not largest < 1e30, refusal


@given(st.data())
def test_any_presentation_is_predicted_as_the_plain_one(data):
    model = data.draw(models())
    X = data.draw(any_matrix((data.draw(sizes(0, 4, (33,))), model.n_features_in_), extremes=data.draw(st.booleans())))
    s = data.draw(st.sampled_from([None, 1, 3, 65, np.int8(2)]))
    info = model.compression is not None and data.draw(st.booleans())
    result = compared(lambda X: model.predict(X, sparsity=s, return_info=info, n_threads=1), {"X": X})
    if X.is_wrong:
        return
    if isinstance(result, Refusal):
        assert_too_large(X, model, result)
        return
    found = result[0] if info else result
    assert found.shape == (X.plain.shape[0], model.n_outputs_)
    assert_at_most(found, model.sparsity if s is None else s)
    for i in range(found.shape[0]):  # on its own, and on more threads than it can use
        assert_same(model.predict(X.plain[[i]], sparsity=s, n_threads=4), found[[i]], "one row")


@given(st.data())
def test_scores_of_any_presentation(data):
    model = data.draw(models())
    X = data.draw(any_matrix((data.draw(sizes(0, 4, (33,))), model.n_features_in_), extremes=data.draw(st.booleans())))
    result = compared(lambda X: model.predict_compressed(X, n_threads=1), {"X": X})
    if X.is_wrong:
        return
    if isinstance(result, Refusal):
        assert_too_large(X, model, result)
        return
    assert np.isfinite(result).all()
    rows = as_array(X.plain).astype(model.intercept_.dtype).astype(np.float64)
    W, b = model.coef_.astype(np.float64), model.intercept_.astype(np.float64)
    bound = 2 * (rows.shape[1] + 2) * float(np.finfo(result.dtype).eps) * (np.abs(rows) @ np.abs(W.T) + np.abs(b))
    assert np.all(np.abs(result - (rows @ W.T + b)) <= bound + float(np.finfo(result.dtype).tiny))
    if model.compression_ is not None and X.plain.shape[0]:
        how = {"method": model.decoder, "constraint": model.constraint}
        found = tried(lambda: shore.decode(result, model.compression_, model.sparsity, **how), "B")
        if not isinstance(found, Refusal):
            assert_same(model.predict(X.plain), found)


@given(st.data())
def test_allowed_and_denied_in_any_form(data):
    model = data.draw(models())
    n, K = data.draw(sizes(0, 3)), model.n_outputs_
    X = data.draw(matrices((n, model.n_features_in_), extremes=False))
    limits = {name: data.draw(which_outputs(n, K)) for name in ("allowed", "denied")}
    wrong = [name for name, each in limits.items() if each.is_wrong]
    method = data.draw(st.sampled_from([model.predict, model.explain]))
    result = tried(
        lambda: method(X.given, **{name: each.given for name, each in limits.items()}),
        *wrong, inputs=[X, *limits.values()],
    )  # fmt: skip
    if wrong:
        assert isinstance(result, Refusal), limits
        return
    plain = {name: pattern(each, (n, K)) for name, each in limits.items()}
    found = model.predict(X.plain, **plain)
    if method == model.predict:
        assert_same(result, found)
        dense = found.toarray() != 0
        if limits["allowed"].given is not None:
            assert not np.any(dense & ~np.broadcast_to(limits["allowed"].plain, dense.shape))
        if limits["denied"].given is not None:
            assert not np.any(dense & limits["denied"].plain)


def pattern(each, shape):
    """What `which_outputs` drew as a plain pattern per row."""
    return None if each.given is None else sparse.csr_array(np.broadcast_to(each.plain, shape))


@given(st.data())
def test_explanations_of_any_presentation(data):
    model = data.draw(models())
    X = data.draw(any_matrix((data.draw(sizes(0, 4, (33,))), model.n_features_in_), extremes=data.draw(st.booleans())))
    top = data.draw(st.sampled_from([1, 3, 99]))
    result = compared(lambda X: model.explain(X, top), {"X": X})
    if X.is_wrong:
        return
    if isinstance(result, Refusal):
        assert_too_large(X, model, result)
        return
    for column in tried(lambda: result.to_dict()).values():
        assert np.isfinite(column).all()
        assert len(column) == len(result)
    if top == 99 and len(result):  # all contributions are listed: they add up
        lines = np.stack([result.row, result.output], axis=1)
        for i, j in np.unique(lines, axis=0):
            here = (lines == (i, j)).all(axis=1)
            size = np.abs(result.contribution[here]).sum()
            np.testing.assert_allclose(result.contribution[here].sum(), result.score[here], rtol=0, atol=1e-9 * size)


@given(st.data())
def test_score_is_the_precision_of_the_predictions(data):
    model = data.draw(models())
    n = data.draw(sizes(0, 4))
    X, Y = (
        data.draw(any_matrix((n, model.n_features_in_), extremes=False)),
        data.draw(any_matrix((n, model.n_outputs_))),
    )
    result = compared(model.score, {"X": X, "Y": Y})
    if X.is_wrong or Y.is_wrong:
        return
    assert not isinstance(result, Refusal), result
    expected = slow_metric("precision_at_k", as_array(Y.plain), model.predict(X.plain).toarray(), model.sparsity)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


@given(st.data())
def test_rows_of_another_width_are_refused(data):
    model = data.draw(models())
    X = data.draw(matrices((data.draw(sizes(0, 3)), data.draw(st.sampled_from([0, 2, 3, 70])))))
    for method in (model.predict, model.predict_compressed, model.explain):
        assert isinstance(tried(lambda method=method: method(X.given), "X", inputs=[X]), Refusal)


# ---------------------------------------------------------------- one row


@given(st.data())
def test_predictor_takes_any_dense_row(data):
    model = data.draw(models())
    d = model.n_features_in_
    predictor = model.predictor()
    row = data.draw(st.one_of(dense((d,)), dense((d,), extremes=False), dense((d + 1,), extremes=False)))
    if row.plain.shape != (d,):
        row.plain = None
    result = compared(lambda dense_row: predictor(dense_row), {"dense_row": row})
    if row.is_wrong:
        return
    assert not isinstance(result, Refusal), result
    found = predicted(model, row.plain[None])
    if found is not None:
        assert_same(list(result), [found.indices, found.data])


def predicted(model, X):
    """The prediction for rows, None where X is too large for it."""
    try:
        return model.predict(X)
    except ValueError:
        return None


@given(st.data())
def test_predictor_takes_any_sparse_row(data):
    model = data.draw(models())
    d = model.n_features_in_
    predictor = model.predictor()
    count = data.draw(sizes(0, 4))
    values = data.draw(dense((count,), extremes=False))
    kind = data.draw(st.sampled_from(["int32", "int64", "uint8", ">i4", "uint64", "float64", "bool"]))
    at = np.array(data.draw(st.lists(st.integers(0, d), min_size=count, max_size=count)), dtype=kind)
    if kind in ("int32", "int64") and count and data.draw(st.integers(0, 5)) == 0:
        at[0] = data.draw(st.sampled_from([-1, np.iinfo(kind).min, np.iinfo(kind).max]))
    wrong = at.astype(np.float64).max(initial=0) >= d or at.astype(np.float64).min(initial=0) < 0
    wrong |= kind in ("float64", "bool") and count > 0
    indices = Input(at, None if wrong else at.astype(np.int64), kind)
    result = compared(lambda indices, values: predictor(indices, values), {"indices": indices, "values": values})
    assert isinstance(result, Refusal) == wrong, result
    if not wrong and np.all(np.diff(indices.plain) > 0):
        X = sparse.csr_array((values.plain, indices.plain, [0, count]), shape=(1, d))
        assert_same(list(result), [model.predict(X).indices, model.predict(X).data])


@given(st.data())
def test_predictor_gives_nothing_for_rows_that_are_not_finite(data):
    model = data.draw(models())
    row = data.draw(not_finite((model.n_features_in_,)))
    indices, values = tried(lambda: model.predictor()(row.given), inputs=[row])
    assert len(indices) == len(values) == 0


@given(st.data())
def test_constructed_predictors_know_their_model(data):
    X, Y = data.draw(numbers((6, 3), ("float32",), extremes=False)), np.eye(6)
    model = shore.ShoreRegressor(2, n_components=4, n_threads=1).fit(X, Y)
    given, wrong = data.draw(options(n_threads=([1, 2, None], [0, -1, "1", True])))
    predictor = tried(lambda: model.predictor(**given), "n_threads")
    assert isinstance(predictor, Refusal) == bool(wrong)
    if not wrong:
        assert isinstance(predictor, shore.Predictor)
        assert_same(list(predictor(X[0])), [model.predict(X[:1]).indices, model.predict(X[:1]).data])


# ---------------------------------------------------------------- files


@given(st.data())
def test_saved_models_predict_the_same(data):
    model = data.draw(models())
    kept, place = folder()
    with kept:
        path = place / "model.shore"
        model.save(str(path) if data.draw(st.booleans()) else path)
        again = tried(lambda: shore.load(path, mmap=data.draw(st.booleans()), verify=data.draw(st.booleans())))
        X = data.draw(numbers((3, model.n_features_in_), extremes=False))
        assert_same(again.predict(X), model.predict(X))
        assert_same(pickle.loads(pickle.dumps(again)).predict(X), model.predict(X))
        assert again.get_params().keys() == model.get_params().keys()
        del again


@given(st.data())
def test_damaged_files_are_refused_or_harmless(data):
    model = data.draw(models())
    kept, place = folder()
    with kept:
        path = place / "model.shore"
        model.save(path)
        whole = path.read_bytes()
        at = data.draw(st.integers(0, len(whole) - 1))
        how = data.draw(st.sampled_from(["flip", "cut", "insert", "drop"]))
        damaged = {
            "flip": lambda: whole[:at] + bytes([whole[at] ^ (1 << data.draw(st.integers(0, 7)))]) + whole[at + 1 :],
            "cut": lambda: whole[:at],
            "insert": lambda: whole[:at] + data.draw(st.binary(min_size=1, max_size=9)) + whole[at:],
            "drop": lambda: whole[:at] + whole[at + 1 :],
        }[how]()
        path.write_bytes(damaged)
        again = tried(lambda: shore.load(path), "model.shore")
        if not isinstance(again, Refusal):
            assert at < len(whole)
            X = np.ones((2, again.n_features_in_), dtype=np.float32)
            assert np.isfinite(again.predict(X).data).all()
        else:
            assert isinstance(again.error, shore.ModelFileError)
        del again


@given(data=st.binary(max_size=200))
def test_foreign_files_are_refused(data):
    kept, place = folder()
    with kept:
        path = place / "model.shore"
        path.write_bytes(data)
        result = tried(lambda: shore.load(path), "model.shore")
        assert isinstance(result, Refusal)
        assert isinstance(result.error, shore.ModelFileError)
