"""Whether results are projections of what they should be projections of, but for rounding, whichever way ties go."""

import numpy as np
import reference


def norm(x):
    """‖x‖₂, where squares would vanish or overflow too."""
    return np.hypot.reduce(np.abs(x), initial=0.0)


def lost(Phi, s, dtype):
    """Of sums Φᵀ(Φv - b), what products that leave the normal range lose at most, beside what rounding does."""
    terms = len(Phi) + s + 4
    return terms * float(np.finfo(dtype).smallest_subnormal) * (1 + np.abs(Phi).sum(axis=0).max(initial=0))


def assert_nearest(v, x, sparsity, constraint, permitted, rounding):
    """That v is a projection of x: no other is nearer, and its values are those that its support asks for."""
    chosen = v != 0
    assert not np.any(chosen & ~permitted)
    nearest = reference.project_row_float(x, sparsity, constraint, permitted)
    assert norm(x - v) <= norm(x - nearest) + len(x) * rounding
    if chosen.any():
        best = reference.project_row_float(x, sparsity, constraint, chosen)
        np.testing.assert_allclose(v[chosen], best[chosen], rtol=0, atol=len(x) * rounding)


def assert_is_step(before, v, b, Phi, s, constraint, step, permitted, dtype):
    """That v is a projection of v' - step·Φᵀ(Φv' - b) for the v' before it."""
    u = before - step * Phi.T @ (Phi @ before - b)
    # sums of at most m + s terms, each rounded, of the size of |Φ|ᵀ(|Φ||v| + |b|)
    size = np.abs(before) + step * np.abs(Phi.T) @ (np.abs(Phi) @ np.abs(before) + np.abs(b))
    eps = float(np.finfo(dtype).eps)
    rounding = 4 * (len(b) + s + 4) * eps * (size.max(initial=0) + getattr(constraint, "total", 0))
    assert_nearest(v, u, s, constraint, permitted, rounding + (1 + step) * lost(Phi, s, dtype))
