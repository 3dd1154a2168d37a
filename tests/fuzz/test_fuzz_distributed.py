"""Training and scoring on a cluster of one thread in this process. Tasks cost more than kernels: fewer examples."""

import dask.array as da
import numpy as np
import pytest
from dask import delayed
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs import any_matrix, options, row_major, sizes
from models import fitted, parameters
from oracle import Refusal, assert_same, outcome_of, tried

import shore
from shore import distributed

# A warning that W is not exact is part of the answer: what is compared then is compared all the same.
pytestmark = pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")

FEWER = settings(max_examples=settings.default.max_examples // 4)


@pytest.fixture(scope="module")
def client():
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        yield client


def lazy(matrix, cut):
    """A matrix as two blocks of rows, one of which may have none; what has no rows to cut is one."""
    if getattr(matrix, "ndim", 0) != 2 or not hasattr(matrix, "__getitem__"):
        return [delayed(lambda: matrix, pure=False)()]
    return [delayed(lambda part=part: part, pure=False)() for part in (matrix[:cut], matrix[cut:])]


@FEWER
@given(st.data())
def test_blocks_in_any_presentation_are_fitted(client, data):
    n, d, K = data.draw(sizes(0, 6)), data.draw(sizes(1, 4)), data.draw(sizes(1, 6))
    X, Y = row_major(data.draw(any_matrix((n, d), extremes=False))), data.draw(any_matrix((n, K), extremes=False))
    given = data.draw(parameters(K)) | {"solver": data.draw(st.sampled_from(["auto", "cholesky", "cg"]))}
    one_block = data.draw(st.booleans())

    def fit(x, y):
        blocks = [[delayed(lambda part=part: part, pure=False)()] for part in (x, y)]
        model = distributed.fit(shore.ShoreRegressor(**given), *blocks, client=client)
        return model.coef_, model.intercept_

    result = tried(lambda: fit(X.given, Y.given), "X", "Y", "block", inputs=[X, Y])
    if X.is_wrong or Y.is_wrong or n == 0:
        assert isinstance(result, Refusal), result
        return
    assert not isinstance(result, Refusal), result
    assert_same(result, fit(X.plain, Y.plain), f"{X.how}, {Y.how}")
    if one_block:  # and cut in two, the same but for the order of sums
        cut = data.draw(st.integers(0, n))
        model = distributed.fit(shore.ShoreRegressor(**given), lazy(X.plain, cut), lazy(Y.plain, cut), client=client)
        assert model.coef_.shape == result[0].shape
        assert np.isfinite(model.coef_).all()


@FEWER
@given(st.data())
def test_blocks_in_any_presentation_are_predicted(client, data):
    model = fitted("head_tail", "pgd", data.draw(st.sampled_from(["float32", "float64"])), True, 4, 7)
    X = data.draw(any_matrix((data.draw(sizes(0, 4)), data.draw(st.sampled_from([4, 4, 4, 3]))), extremes=False))
    given, wrong = data.draw(
        options(
            sparsity=([None, 1, 3], [0, True, "1", 1.5]),
            allowed=([None, [0, 1, 2]], [[7], [-1], np.ones((2, 2), dtype=bool), ["a"]]),
            denied=([None, np.zeros(7, dtype=bool)], [np.zeros(6, dtype=bool), 3, "x"]),
        )
    )

    def predict():
        (found,) = distributed.predict(model, [delayed(lambda: X.given, pure=False)()], client=client, **given)
        return found.compute()

    result = tried(predict, "X", "features", *wrong, inputs=[X])
    if wrong or X.is_wrong or X.plain.shape[1] != 4:
        assert isinstance(result, Refusal), (wrong, result)
        return
    assert_same(result, outcome_of(lambda: model.predict(X.plain, **given)))


@FEWER
@given(st.data())
def test_what_is_no_list_of_blocks_is_refused(client, data):
    model = fitted("head_tail", "pgd", "float32", True, 4, 7)
    wrong = data.draw(
        st.sampled_from([
            None, 3, np.ones((2, 4)), [], [np.ones((2, 4))], [None], {"a": 1}, "no-such-file-*.npz",
            da.ones((4, 4), chunks=(2, 2)), da.ones(4, chunks=2), da.ones((4, 4, 4), chunks=4),
        ])
    )  # fmt: skip
    right = [delayed(np.ones)((2, 4))]
    new = shore.ShoreRegressor(2, n_components=2, n_threads=1)
    assert isinstance(tried(lambda: distributed.predict(model, wrong, client=client), "X"), Refusal)
    assert isinstance(tried(lambda: distributed.fit(new, wrong, right, client=client), "X", "Y"), Refusal)
    assert not new.__sklearn_is_fitted__()
    if wrong is not None:  # without Y, items are pairs
        assert isinstance(tried(lambda: distributed.fit(new, right, wrong, client=client), "X", "Y"), Refusal)
    for bad in (None, 3, shore.ShoreRegressor, "model"):
        names = ("model",) if bad != "model" else ("model", "X")
        assert isinstance(tried(lambda bad=bad: distributed.fit(bad, right, right, client=client), *names), Refusal)
