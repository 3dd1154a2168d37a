import math

import numpy as np
from arguments import as_array, is_count, is_number
from compressions import compressions
from hypothesis import given
from hypothesis import strategies as st
from inputs import Input, any_matrix, dense, matrices, mostly, not_finite, numbers, sizes
from oracle import Refusal, compared, plainly, tried

import shore
from shore import metrics

COUNTS = mostly(st.one_of(st.integers(1, 8), st.sampled_from([65, 2**40, np.int8(2)])), [0, -1, 1.5, None, "2", True])
RANKED = {
    "precision_at_k": metrics.precision_at_k,
    "recall_at_k": metrics.recall_at_k,
    "ndcg_at_k": metrics.ndcg_at_k,
}


def ranked(row, k):
    """The k highest-valued entries that are not 0, ties by index."""
    return [j for j in np.lexsort((np.arange(len(row)), -row)) if row[j] != 0][:k]


def slow_metric(name, true, predicted, k, propensity=None):
    """A loop over rows, as the definition is read."""
    total, reached, most = 0.0, 0.0, 0.0
    for y, v in zip(true, predicted, strict=True):
        relevant = set(np.flatnonzero(y))
        best = ranked(v, k)
        hits = [(rank, j) for rank, j in enumerate(best) if j in relevant]
        if name == "precision_at_k":
            total += len(hits) / k
        elif name == "recall_at_k":
            total += len(hits) / len(relevant) if relevant else 0.0
        elif name == "ndcg_at_k":
            ideal = sum(1 / math.log2(rank + 2) for rank in range(min(k, len(relevant))))
            total += sum(1 / math.log2(rank + 2) for rank, _ in hits) / ideal if relevant else 0.0
        else:
            reached += sum(1 / propensity[j] for _, j in hits)
            most += sum(sorted((1 / propensity[j] for j in relevant), reverse=True)[:k])
    if name == "propensity_scored_precision_at_k":
        return reached / most if most else math.nan
    return total / len(true) if len(true) else math.nan


def assert_number(result, expected, rtol=1e-12):
    assert type(result) is float
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=1e-300)


@st.composite
def pairs(draw, names):
    """Two matrices, of one shape as a rule."""
    shape = draw(sizes(0, 4, (33,))), draw(sizes(0, 6, (70,)))
    other = draw(mostly([shape], [(shape[0] + 1, shape[1]), (shape[0], shape[1] + 1)]))
    return dict(zip(names, (draw(any_matrix(shape)), draw(any_matrix(other))), strict=True)), shape == other


@given(st.data())
def test_ranking_metrics_of_any_presentation(data):
    name = data.draw(st.sampled_from(tuple(RANKED)))
    k = data.draw(COUNTS)
    inputs, same_shape = data.draw(pairs(("Y_true", "Y_pred")))
    also = ("k", *([] if same_shape else ["Y_true"]))
    result = compared(lambda **Y: RANKED[name](**Y, k=k), inputs, also=also)
    if isinstance(result, Refusal):
        assert any(each.is_wrong for each in inputs.values()) or not (same_shape and is_count(k)), result
        return
    true, predicted = (as_array(each.plain) for each in inputs.values())
    assert_number(result, slow_metric(name, true, predicted, int(k)))


@given(st.data())
def test_propensities_of_any_presentation(data):
    Y = data.draw(any_matrix((data.draw(sizes(0, 5)), data.draw(sizes(0, 6, (70,))))))
    numbers = mostly([0.55, 1.5, 1, np.float32(0.4), 1e-300, 1e300], [0, -1.0, math.nan, math.inf, None, "1", True])
    how = {"a": data.draw(numbers), "b": data.draw(numbers)}
    result = compared(lambda Y_train: metrics.propensities(Y_train, **how), {"Y_train": Y}, also=("a", "b"))
    right = [is_number(v) for v in how.values()]
    if isinstance(result, Refusal):
        assert Y.is_wrong or Y.plain.shape[0] == 0 or not all(right) or 1e300 in how.values(), result
        return
    assert all(right)
    assert np.all((result >= 0) & (result <= 1))
    a, b = map(float, how.values())
    Y = as_array(Y.plain)
    if min(a, b) > 1e-9 and max(a, b) < 1e3:
        c = max(math.log(len(Y)) - 1, 0) * (b + 1) ** a
        expected = 1 / (1 + c * (np.count_nonzero(Y, axis=0) + b) ** -a)
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def positive(vector):
    """The same with positive numbers, as far as its dtype has them."""
    values = np.abs(vector.plain)
    values[values == 0] = 1
    return Input(values.tolist() if isinstance(vector.given, list) else values, values, vector.how)


@given(st.data())
def test_propensity_scored_precision_of_any_presentation(data):
    inputs, same_shape = data.draw(pairs(("Y_true", "Y_pred")))
    k = data.draw(COUNTS)
    K = 3 if inputs["Y_true"].is_wrong else inputs["Y_true"].plain.shape[1]
    wrong = st.one_of(dense((K,), extremes=False), *([not_finite((K,))] if K else []), dense((K + 1,)))
    right = st.one_of(dense((K,)), dense((K,), extremes=False)).map(positive)
    inputs["propensity"] = data.draw(mostly(right, wrong))
    result = compared(
        lambda **given: metrics.propensity_scored_precision_at_k(**given, k=k),
        inputs,
        also=("k", "propensity", *([] if same_shape else ["Y_true"])),
    )
    weights = inputs["propensity"].plain
    usable = weights is not None and weights.shape == (K,) and bool(np.all(weights > 0))
    if isinstance(result, Refusal):
        tiny = usable and bool(np.any(weights < 1e-300))
        wrong = any(each.is_wrong for each in inputs.values())
        assert wrong or not (same_shape and is_count(k) and usable) or tiny, result
        return
    true, predicted = (as_array(inputs[name].plain) for name in ("Y_true", "Y_pred"))
    expected = slow_metric("propensity_scored_precision_at_k", true, predicted, int(k), weights.astype(np.float64))
    assert math.isnan(result) or 0 <= result <= 1 + 1e-9
    assert_number(result, expected, rtol=1e-9)


@given(st.data())
def test_output_difference_of_any_presentation(data):
    inputs, same_shape = data.draw(pairs(("Y_true", "Y_pred")))
    result = compared(metrics.output_difference, inputs)
    if any(each.is_wrong for each in inputs.values()) or not same_shape:
        assert isinstance(result, Refusal)
        return
    true, predicted = (as_array(each.plain) for each in inputs.values())
    with np.errstate(over="ignore"):
        expected = np.sum((true - predicted) ** 2) / len(true) if len(true) else math.nan
    if isinstance(result, Refusal):
        assert math.isinf(expected)
    else:
        assert_number(result, expected)


@given(st.data())
def test_losses_of_any_presentation(data):
    name, loss = data.draw(st.sampled_from([("Y_pred", metrics.prediction_loss), ("Y", metrics.training_loss)]))
    n, K = data.draw(sizes(0, 4, (33,))), data.draw(sizes(1, 6, (70,)))
    phi = data.draw(st.one_of(st.none(), compressions(K)))
    m = K if phi is None else phi.n_components
    inputs = {name: data.draw(any_matrix((n, K))), "B": data.draw(any_matrix((n, m)))}
    result = compared(lambda **given: loss(**given, compression=phi), inputs, also=("Y",))
    if any(each.is_wrong for each in inputs.values()):
        return
    Y, B = (as_array(each.plain) for each in inputs.values())
    with np.errstate(over="ignore", invalid="ignore"):
        compressed = Y if phi is None else Y.astype(phi.dtype).astype(np.float64) @ phi.toarray().T.astype(np.float64)
        size = np.sum(np.abs(compressed) ** 2 + np.abs(B) ** 2)
        if phi is not None:
            size += np.sum((np.abs(Y) @ np.abs(phi.toarray().T.astype(np.float64))) ** 2)
        expected = np.sum((compressed - B) ** 2) / n if n else math.nan
    if isinstance(result, Refusal):
        assert not np.abs(Y).max(initial=0) < 1e30 or not size < 1e300, result
        return
    assert math.isnan(result) == (n == 0)
    if n:
        eps = 1e-15 if phi is None else float(np.finfo(phi.dtype).eps)
        assert abs(result - expected) <= 8 * (K + m) * eps * size + 1e-300


@given(st.data())
def test_shapes_that_do_not_match_are_refused(data):
    phi = data.draw(st.sampled_from([None, shore.SparseSignCompression(3, 4), "gaussian", np.eye(3)]))
    Y, B = (data.draw(matrices((data.draw(sizes(0, 3)), data.draw(sizes(0, 5))), extremes=False)) for _ in range(2))
    result = tried(lambda: metrics.training_loss(Y.given, B.given, phi), "Y", "B", "compression", inputs=[Y, B])
    right = Y.plain.shape == B.plain.shape
    if isinstance(phi, shore.SparseSignCompression):
        right = Y.plain.shape[1] == 4 and B.plain.shape[1] == 3 and Y.plain.shape[0] == B.plain.shape[0]
    assert isinstance(result, Refusal) != (right and not isinstance(phi, str | np.ndarray))


@given(st.data())
def test_metrics_do_not_know_the_order_of_rows(data):
    Y, V = (data.draw(numbers((4, 5), ("float32",), extremes=False)) for _ in range(2))
    order = data.draw(st.permutations(range(4)))
    name = data.draw(st.sampled_from(tuple(RANKED)))
    result = tried(lambda: RANKED[name](Y, V, 2), inputs=[plainly(Y)])
    np.testing.assert_allclose(RANKED[name](Y[order], V[order], 2), result, rtol=1e-12)
