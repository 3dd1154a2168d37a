import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from inputs import any_matrix, folder, options, sizes
from oracle import Refusal, tried

import shore


@given(st.data())
def test_tune_takes_any_presentation(data):
    n, d, K = data.draw(sizes(0, 8)), data.draw(sizes(0, 3)), data.draw(sizes(0, 6))
    X, Y = data.draw(any_matrix((n, d), extremes=False)), data.draw(any_matrix((n, K), extremes=False))
    given, wrong = data.draw(
        options(
            sparsity=([1, 2, 65], [0, None, True]),
            n_components=([4, [1, 8], None, np.array([3, 2])], [0, [], "4", [2, None]]),
            alphas=([1.0, [0.1, 10], (3,)], [-1, [], "auto", [None], np.nan]),
            compressions=([("head_tail", None), ("gaussian",), "sparse_sign"], ["zip", (), [3]]),
            held_out=([0.1, 0.5], [0, 1, None, "x", True]),
            max_bytes=([None, 1e6], [0, -1, "1", 10.0]),  # the last is less than any model takes
            max_microseconds=([None], [0, -1, "1"]),
            weights=([None, "float16"], ["float32", 16]),
            random_state=([0, 5], [-1, None]),
            n_threads=([1], [0, "1"]),
            decoder=(["pgd", "cd"], ["x", None]),
        )
    )
    wrong += ["X"] * (X.is_wrong or n < 2 or d == 0) + ["Y"] * (Y.is_wrong or K == 0)
    result = tried(lambda: shore.tune(X.given, Y.given, **given), *wrong, inputs=[X, Y])
    assert isinstance(result, Refusal) == bool(wrong), result
    if wrong:
        return
    assert result.best in result.trials
    assert all(0 <= trial.precision <= 1 for trial in result.trials)
    again = shore.tune(X.plain, Y.plain, **given)
    for one, other in zip(result.trials, again.trials, strict=True):
        assert (one.compression, one.n_components, one.alpha, one.bytes) == (
            other.compression, other.n_components, other.alpha, other.bytes
        )  # fmt: skip
    model = tried(lambda: result.model(data.draw(st.sampled_from([None, *result.trials])))).fit(X.given, Y.given)
    assert model.n_outputs_ == K
    assert_trials(result)


def assert_trials(result):
    """What is read off a result agrees with its trials."""
    assert tried(lambda: result.pick()).precision == max(trial.precision for trial in result.trials)
    least = min(trial.bytes for trial in result.trials)
    assert tried(lambda: result.pick(max_bytes=least)).bytes == least
    assert set(tried(lambda: result.frontier())) <= set(result.trials)
    columns = tried(lambda: result.to_dict())
    assert columns["alpha"].tolist() == [trial.alpha for trial in result.trials]
    kept, place = folder()
    with kept:
        tried(lambda: result.to_csv(place / "trials.csv"))
        assert (place / "trials.csv").read_text().count("\n") == len(result.trials) + 1


@given(st.data())
def test_validation_rows_are_checked(data):
    X, Y = np.eye(4), np.eye(4)
    wrong = [(X, Y[:2]), (X[:, :2], Y), (X * np.nan, Y), (X,), 3, "ab", (None, None), (X, Y, X), (X, Y[:, :2])]
    pair, is_wrong = data.draw(st.sampled_from([((X, Y), False), (None, False), *((each, True) for each in wrong)]))
    result = tried(lambda: shore.tune(X, Y, n_components=2, alphas=1.0, validation=pair, n_threads=1), "validation")
    assert isinstance(result, Refusal) == is_wrong
