"""The slow NumPy reading of the paper, and the comparators that kernels are tested with.

Nothing here is meant to be fast. Projections are computed in exact rational arithmetic.
"""

from fractions import Fraction

import numpy as np
from scipy import sparse

import shore


def exact(value):
    return Fraction(float(value))


def gain(value, constraint):
    """How much keeping the entry shortens the squared distance, exactly: v² - (v - w)² for its best value w."""
    v = exact(value)
    if constraint == "real":
        return v * v
    if constraint == "nonneg":
        return v * v if v > 0 else Fraction(0)
    if constraint == "binary":
        return 2 * v - 1
    w = exact(np.clip(value, constraint.low, constraint.high))
    return v * v - (v - w) ** 2


def simplex_values(values, total):
    """Projection of a list of numbers onto {w >= 0, sum w = total}, exactly, by its sorted threshold."""
    ranked = sorted(map(exact, values), reverse=True)
    total, running, theta = exact(total), Fraction(0), None
    for i, v in enumerate(ranked, start=1):
        running += v
        candidate = (running - total) / i
        if v > candidate:
            theta = candidate
    return [max(exact(v) - theta, Fraction(0)) for v in values]


def project_row(v, sparsity, constraint="real", permitted=None):
    """One dense row onto {s-sparse} ∩ F; `permitted` is a boolean mask of the outputs it may use."""
    outputs = [j for j in range(len(v)) if permitted is None or permitted[j]]
    result = np.zeros(len(v), dtype=np.float64)
    if isinstance(constraint, shore.Simplex):
        best = sorted(outputs, key=lambda j: (-exact(v[j]), j))[:sparsity]
        result[best] = [float(w) for w in simplex_values([v[j] for j in best], constraint.total)]
        return result
    gains = {j: gain(v[j], constraint) for j in outputs}
    best = [j for j in sorted(outputs, key=lambda j: (-gains[j], j))[:sparsity] if gains[j] > 0]
    for j in best:
        if constraint == "binary":
            result[j] = 1
        elif isinstance(constraint, shore.Box):
            result[j] = np.clip(v[j], constraint.low, constraint.high)
        else:
            result[j] = v[j]
    return result


def project(V, sparsity, constraint="real", permitted=None):
    """Every row of a dense (n, K) array; `permitted` is a mask of shape (K,) or (n, K)."""
    V = np.asarray(V)
    if permitted is not None:
        permitted = np.broadcast_to(permitted, V.shape)
    rows = [project_row(v, sparsity, constraint, None if permitted is None else permitted[i]) for i, v in enumerate(V)]
    return np.array(rows).reshape(V.shape)


def assert_canonical(result, shape, sparsity, dtype):
    """The form that SPEC section 1 promises of every result."""
    assert isinstance(result, sparse.csr_array)
    assert result.shape == shape
    assert result.dtype == dtype
    assert np.all(np.isfinite(result.data))
    assert np.all(result.data != 0)
    assert np.diff(result.indptr).max(initial=0) <= sparsity
    for start, end in zip(result.indptr[:-1], result.indptr[1:], strict=True):
        assert np.all(np.diff(result.indices[start:end]) > 0)


def assert_same_bits(a, b):
    """Two CSR results that are the same to the last bit."""
    np.testing.assert_array_equal(a.indptr, b.indptr)
    np.testing.assert_array_equal(a.indices, b.indices)
    assert a.data.dtype == b.data.dtype
    np.testing.assert_array_equal(a.data.view(np.uint8), b.data.view(np.uint8))


def assert_same_rows(actual, expected, *, rtol, atol=0.0, tie_rtol=None):
    """Rows that agree to a tolerance, where entries of (nearly) the same size may stand for each other.

    An output that only one side kept is excused by an output that only the other side kept and whose value has
    the same size to `tie_rtol`: two computations that round differently may break a tie differently.
    """
    tie_rtol = rtol if tie_rtol is None else tie_rtol
    actual, expected = sparse.csr_array(actual), sparse.csr_array(expected)
    assert actual.shape == expected.shape
    for i in range(actual.shape[0]):
        a, e = actual[[i]].toarray()[0], expected[[i]].toarray()[0]
        both = (a != 0) & (e != 0)
        np.testing.assert_allclose(a[both], e[both], rtol=rtol, atol=atol, err_msg=f"row {i}")
        only_a, only_e = np.sort(np.abs(a[(a != 0) & ~both])), np.sort(np.abs(e[(e != 0) & ~both]))
        assert only_a.size == only_e.size, f"row {i}: {np.flatnonzero(a)} against {np.flatnonzero(e)}"
        np.testing.assert_allclose(only_a, only_e, rtol=tie_rtol, atol=atol, err_msg=f"row {i}: not a tie")


def project_row_float(v, sparsity, constraint="real", permitted=None):
    """The same as project_row in float64: for long rows, where exact arithmetic takes too long."""
    if isinstance(constraint, shore.Simplex):
        key, floor = v, -np.inf
    elif constraint == "real":
        key, floor = np.abs(v), 0.0
    elif isinstance(constraint, shore.Box):
        # gains in a unit in which no square overflows, and none vanishes beside the largest
        unit = 2.0 ** np.clip(-np.frexp(np.abs(v).max(initial=0))[1], -1000, 1000)
        key = (v * unit) ** 2 - (v * unit - np.clip(v, constraint.low, constraint.high) * unit) ** 2
        floor = 0.0
    else:
        key, floor = v, {"nonneg": 0.0, "binary": 0.5}[constraint]
    outputs = np.arange(v.size) if permitted is None else np.flatnonzero(permitted)
    best = outputs[np.lexsort((outputs, -key[outputs]))[:sparsity]]
    best = best[key[best] > floor]
    result = np.zeros(v.size)
    if isinstance(constraint, shore.Simplex):
        with np.errstate(over="ignore"):  # to -inf, which is left out
            below = v[best] - v[best].max()  # beside enormous numbers the total would be lost
        ranked = np.sort(below)[::-1]
        thresholds = (np.cumsum(ranked) - constraint.total) / np.arange(1, best.size + 1)
        theta = thresholds[np.flatnonzero(ranked > thresholds)[-1]]
        result[best] = np.maximum(below - theta, 0)
    elif constraint == "binary":
        result[best] = 1
    elif isinstance(constraint, shore.Box):
        result[best] = np.clip(v[best], constraint.low, constraint.high)
    else:
        result[best] = v[best]
    return result


def decode_row(b, Phi, sparsity, *, constraint="real", step=0.9, max_iter=60, tol=1e-3, permitted=None):
    """Algorithm 2 (Algorithm 1 with tol=0) with the divergence rule, in float64. Returns v, n_iter, step."""
    b, Phi = np.asarray(b, dtype=np.float64), np.asarray(Phi, dtype=np.float64)
    limit = 10 * np.linalg.norm(b)
    if isinstance(constraint, shore.Simplex):
        limit = max(limit, 10 * constraint.total * np.linalg.norm(Phi, axis=0).max())
    while True:
        history = [np.zeros(Phi.shape[1])]
        for t in range(1, max_iter + 1):
            v = history[-1]
            with np.errstate(over="ignore", invalid="ignore"):
                v = project_row_float(v - step * Phi.T @ (Phi @ v - b), sparsity, constraint, permitted)
                if not np.linalg.norm(Phi @ v - b) <= limit:
                    break
            history.append(v)
            if tol > 0 and t >= 2 and np.linalg.norm(v - history[-3]) <= tol * (0.01 + np.linalg.norm(v)):
                return v, t, step
        else:
            return v, max_iter, step
        step /= 2


def decode(B, Phi, sparsity, *, permitted=None, **options):
    """Every row; the results and numbers of iterations."""
    B = np.asarray(B)
    if permitted is not None:
        permitted = np.broadcast_to(permitted, (B.shape[0], Phi.shape[1]))
    rows = [
        decode_row(b, Phi, sparsity, permitted=None if permitted is None else permitted[i], **options)
        for i, b in enumerate(B)
    ]
    return np.array([v for v, _, _ in rows]), np.array([t for _, t, _ in rows]), np.array([s for _, _, s in rows])


def correlate_row(b, Phi, sparsity, *, constraint="real", permitted=None):
    """Correlation decoding."""
    return project_row_float(np.asarray(Phi, float).T @ np.asarray(b, float), sparsity, constraint, permitted)


def pursue_row(b, Phi, sparsity, *, constraint="real", permitted=None):
    """Orthogonal matching pursuit with lstsq on every support; the last projection onto F."""
    b, Phi = np.asarray(b, dtype=np.float64), np.asarray(Phi, dtype=np.float64)
    permitted = np.ones(Phi.shape[1], dtype=bool) if permitted is None else permitted
    v, chosen = np.zeros(Phi.shape[1]), []
    while len(chosen) < min(sparsity, Phi.shape[0]):
        correlation = np.where(permitted, np.abs(Phi.T @ (b - Phi @ v)), -1.0)
        correlation[chosen] = -1.0
        if correlation.max() <= 1e-13 * np.linalg.norm(b):
            break
        chosen.append(int(np.argmax(correlation)))
        v = np.zeros(Phi.shape[1])
        v[chosen] = np.linalg.lstsq(Phi[:, chosen], b, rcond=None)[0]
    return project_row_float(v, sparsity, constraint, permitted), len(chosen)


def shrink_row(
    b, Phi, sparsity, *, constraint="real", permitted=None, l1=0.1, step=0.9, max_iter=60, tol=1e-3, norm=None
):
    """FISTA on ½‖Φx - b‖² + l1·max|φ_jᵀb|·‖x‖₁, `step` in units of 1/‖Φ‖²; the last projection onto F.

    `norm` is ‖Φ‖ if that is known.
    """
    b, Phi = np.asarray(b, dtype=np.float64), np.asarray(Phi, dtype=np.float64)
    step = step / (np.linalg.norm(Phi, 2) if norm is None else norm) ** 2
    permitted = np.ones(Phi.shape[1], dtype=bool) if permitted is None else permitted
    weight = l1 * np.abs(Phi.T @ b)[permitted].max(initial=0.0)
    x = y = np.zeros(Phi.shape[1])
    momentum, t = 1.0, 0
    while t < max_iter and weight > 0:
        moved = y - step * Phi.T @ (Phi @ y - b)
        before, x = x, np.where(permitted, np.sign(moved) * np.maximum(np.abs(moved) - step * weight, 0), 0)
        t += 1
        if tol > 0 and t >= 2 and np.linalg.norm(x - before) <= tol * (0.01 + np.linalg.norm(x)):
            break
        momentum, last = (1 + np.sqrt(1 + 4 * momentum**2)) / 2, momentum
        y = x + (last - 1) / momentum * (x - before)
    return project_row_float(x, sparsity, constraint, permitted), t
