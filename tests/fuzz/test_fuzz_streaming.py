"""Batches in any presentation, right or wrong: the model of the plain ones, or the model as it was."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inputs import any_matrix, matrices, numbers, row_major, sizes
from models import parameters
from oracle import Refusal, compared, tried
from test_fuzz_fit import weights

import shore

# A warning that W is not exact is part of the answer: what is compared then is compared all the same.
pytestmark = pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")


@st.composite
def beginnings(draw):
    """Parameters of a model, and a plain batch to begin with."""
    n, d, K = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    given = draw(parameters(K)) | {"solver": "cholesky"}
    dtypes = ("float32", "float64")
    return given, draw(numbers((n, d), dtypes, extremes=False)), draw(numbers((n, K), dtypes, extremes=False))


@st.composite
def batches(draw, d, K):
    """X and Y as inputs by name; now and then of another width, or without rows, which is wrong."""
    n = draw(sizes(0, 5, (33,)))
    width = draw(st.sampled_from([d, d, d, d, d + 1]))
    X, Y = row_major(draw(any_matrix((n, width), extremes=False))), draw(any_matrix((n, K), extremes=False))
    if width != d or n == 0:
        X.plain = None
    return {"X": X, "Y": Y}


def state(model):
    """What is there to change."""
    return model.coef_.tobytes(), model.intercept_.tobytes(), model.n_features_in_, model.n_outputs_


def results(model):
    return model.coef_, model.intercept_


@given(st.data())
def test_batches_are_added_as_plain_ones_or_change_nothing(data):
    given, X, Y = data.draw(beginnings())
    inputs = data.draw(batches(X.shape[1], Y.shape[1]))
    n = 1 if inputs["X"].is_wrong else inputs["X"].plain.shape[0]
    if not any(each.is_wrong for each in inputs.values()):
        weight = data.draw(weights(n))
        inputs |= {} if weight.given is None else {"sample_weight": weight}
    model = shore.ShoreRegressor(**given).partial_fit(X, Y)
    before = state(model)
    result = tried(lambda: model.partial_fit(**{name: each.given for name, each in inputs.items()}), *inputs)
    if any(each.is_wrong for each in inputs.values()):
        assert isinstance(result, Refusal), inputs
        assert state(model) == before
        return
    assert not isinstance(result, Refusal), result
    plain = shore.ShoreRegressor(**given).partial_fit(X, Y)
    plain.partial_fit(**{name: each.plain for name, each in inputs.items()})
    assert state(model) == state(plain)


@given(st.data())
def test_iterated_batches_are_fitted_as_plain_ones_or_change_nothing(data):
    given, X, Y = data.draw(beginnings())
    inputs = data.draw(batches(X.shape[1], Y.shape[1]))
    model = shore.ShoreRegressor(**given).fit(X, Y)
    before = state(model)
    result = compared(
        lambda **second: results(shore.ShoreRegressor(**given).fit_batches(iter([(X, Y), (second["X"], second["Y"])]))),
        inputs,
    )
    wrong = any(each.is_wrong for each in inputs.values())
    assert isinstance(result, Refusal) == wrong, result
    again = tried(lambda: model.fit_batches([(X, Y), tuple(each.given for each in inputs.values())]), "X", "Y")
    assert isinstance(again, Refusal) == wrong
    if wrong:
        assert state(model) == before
    else:
        assert state(model) == (result[0].tobytes(), result[1].tobytes(), X.shape[1], Y.shape[1])


@given(st.data())
def test_merged_models_are_those_of_plain_rows(data):
    given, X, Y = data.draw(beginnings())
    X2 = row_major(data.draw(matrices((data.draw(sizes(1, 5, (33,))), X.shape[1]), extremes=False)))
    Y2 = data.draw(matrices((X2.plain.shape[0], Y.shape[1]), extremes=False))

    def merged(**second):
        other = shore.ShoreRegressor(**given).partial_fit(second["X"], second["Y"])
        return results(shore.ShoreRegressor(**given).partial_fit(X, Y).merge(other))

    result = compared(merged, {"X": X2, "Y": Y2})
    assert not isinstance(result, Refusal), result
    assert all(np.isfinite(part).all() for part in result)


@given(st.data())
def test_models_that_cannot_be_merged_change_nothing(data):
    given, X, Y = data.draw(beginnings())

    def other(X=X, Y=Y, **changed):
        return shore.ShoreRegressor(**given | changed).partial_fit(X, Y)

    wide = np.hstack([X, X])
    wrong = data.draw(
        st.sampled_from([
            None, 3, "model", X, shore.ShoreRegressor, shore.ShoreRegressor(**given),
            shore.ShoreRegressor(**given).fit(X, Y), other(wide), other(compression="gaussian", random_state=99),
        ])
    )  # fmt: skip
    model = other(compression="sparse_sign")
    before = state(model)
    assert isinstance(tried(lambda: model.merge(wrong), "other", "merge", "fitted"), Refusal)
    assert state(model) == before
