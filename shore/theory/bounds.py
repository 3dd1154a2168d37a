"""Closed formulas: rows of Φ for a distortion δ and back (Theorems 1 and 2), step sizes and steps (Theorem 2)."""

from __future__ import annotations

import math
from typing import Any

from shore._validation import check_number, check_positive, check_size

__all__ = ["components_for", "contraction", "delta_for", "iterations_for", "log_binomial", "step_range"]

# Rows of Φ per s·ln(K/s). Then decoding finds all outputs with noise at 10 dB, and 93 to 100 % of them with noise as
# strong as the signal (measured in docs/recovery.md).
_ROWS_PER_NAT = 10.0

# Below, δ² or the rows that it asks for leave the range of numbers.
_SMALLEST_DELTA = 1e-100

_FORMS = ("rip", "jl")


def log_binomial(n: int, k: int) -> float:
    """The logarithm of C(n, k)."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _check_sizes(sparsity: Any, n_outputs: Any, tau: Any, form: Any) -> tuple[int, int, float]:
    n_outputs = check_size(n_outputs, "n_outputs")
    if not isinstance(form, str) or form not in _FORMS:
        raise ValueError(f"form must be one of {', '.join(map(repr, _FORMS))}, got {form!r}")
    tau = check_number(tau, "tau", "a number between 0 and 1", 0, 1)
    return check_positive(sparsity, "sparsity", n_outputs), n_outputs, tau


def _rip_numerator(s: int, n_outputs: int, tau: float) -> float:
    """√k + √(2 ln(2 C(K, k)/τ)): over √m, how far singular values of k columns stray from 1 at most."""
    k = min(3 * s, n_outputs)
    return math.sqrt(k) + math.sqrt(2 * (log_binomial(n_outputs, k) + math.log(2) - math.log(tau)))


def components_for(
    sparsity: int, n_outputs: int, *, delta: float | None = None, tau: float = 0.05, form: str = "rip"
) -> int:
    """How many components m to compress K outputs to, s of which are not zero.

    Without `delta`, the practical rule: 10·s·ln(K/s), as Theorem 2 scales, rounded up to a multiple of 16, at least
    16, and no more than K rounded up likewise.

    With `delta`, the rows that are proven to be enough for a Gaussian Φ (Assumption 1) with probability at least
    1 - τ; more than K if the proof asks for more than K. Both forms are explicit, with no constant left open:

    - ``form="jl"``, what Theorem 1 needs: |‖Φu‖² - 1| ≤ δ for all vectors u of a fixed orthonormal basis. m‖Φu‖² has
      the χ² distribution, whose Chernoff bound gives P(|‖Φu‖² - 1| > δ) ≤ 2 exp(-m (δ²/4 - δ³/6)), so

          m ≥ ln(2K/τ) / (δ²/4 - δ³/6).

    - ``form="rip"``, what Theorems 2 and 4 need: |‖Φv‖² - ‖v‖²| ≤ δ‖v‖² for all 3s-sparse v. The singular values of
      k = min(3s, K) columns are all above 1 - √(k/m) - t, and all below 1 + √(k/m) + t, each with probability at least
      1 - exp(-mt²/2) (Davidson and Szarek, 2001, Theorem II.13). Over all C(K, k) supports, and with
      √(k/m) + t ≤ √(1+δ) - 1, which is less than 1 - √(1-δ) and so binds both ends,

          m ≥ (√k + √(2 ln(2 C(K, k)/τ)))² / (√(1+δ) - 1)².

    For sparse signs nothing of this is proven; `rip_estimate` measures a Φ of any kind.

    Parameters
    ----------
    sparsity : int
        s. More than K means K.
    n_outputs : int
        K.
    delta : float, optional
        The distortion δ to guarantee, between 0 and 1; None for the practical rule.
    tau : float, default 0.05
        The probability that a Gaussian Φ of that size fails, at most. Only with `delta`.
    form : {'rip', 'jl'}, default 'rip'
        What to guarantee. Only with `delta`; 'jl' does not depend on s.

    Returns
    -------
    int

    Examples
    --------
    >>> from shore.theory import components_for
    >>> components_for(5, 20_000)
    416
    >>> components_for(5, 20_000, delta=0.3, form="jl")
    756
    >>> components_for(5, 20_000, delta=0.3)
    19636
    """
    s, n_outputs, tau = _check_sizes(sparsity, n_outputs, tau, form)
    if delta is None:
        wanted = _ROWS_PER_NAT * s * max(1.0, math.log(n_outputs / s))
        return 16 * math.ceil(max(1.0, min(wanted, float(n_outputs))) / 16)
    delta = check_number(delta, "delta", "a number between 0 and 1, or None", 0, 1)
    if delta < _SMALLEST_DELTA:
        raise ValueError(
            f"delta must be at least {_SMALLEST_DELTA:g}, or m is out of the range of numbers, got {delta!r}"
        )
    if form == "jl":
        rows = (math.log(2 * n_outputs) - math.log(tau)) / (delta**2 / 4 - delta**3 / 6)
    else:
        # √(1+δ) - 1 = δ/(√(1+δ) + 1), which does not cancel
        rows = (_rip_numerator(s, n_outputs, tau) * (math.sqrt(1 + delta) + 1) / delta) ** 2
    return math.ceil(rows)


def delta_for(n_components: int, sparsity: int, n_outputs: int, *, tau: float = 0.05, form: str = "rip") -> float:
    """The smallest distortion δ that m rows of a Gaussian Φ are proven to give: the inverse of `components_for`.

    Parameters
    ----------
    n_components : int
        m.
    sparsity, n_outputs, tau, form
        As in `components_for`.

    Returns
    -------
    float
        Infinity where no δ < 1 is proven.

    Examples
    --------
    >>> from shore.theory import delta_for
    >>> round(delta_for(756, 5, 20_000, form="jl"), 3)
    0.3
    >>> delta_for(416, 5, 20_000)
    inf
    """
    m = check_size(n_components, "n_components")
    s, n_outputs, tau = _check_sizes(sparsity, n_outputs, tau, form)
    if form == "rip":
        epsilon = _rip_numerator(s, n_outputs, tau) / math.sqrt(m)
        delta = epsilon * (2 + epsilon)
        return delta if delta < 1 else math.inf
    r = (math.log(2 * n_outputs) - math.log(tau)) / m
    if r >= 1 / 12:  # δ²/4 - δ³/6 rises from 0 to that on [0, 1]
        return math.inf
    # The root of δ²/4 - δ³/6 = r in [0, 1], by the cosine of a third of an angle.
    angle = 2 / 3 * math.asin(math.sqrt(12 * r))
    return math.sin(angle / 2) ** 2 + math.sqrt(3) / 2 * math.sin(angle)


def step_range(delta: float) -> tuple[float, float]:
    """The step sizes η that Theorem 2 allows: 1/(2 - 2δ) < η < 1, ends excluded.

    Parameters
    ----------
    delta : float
        The RIP constant δ of order 3s, at least 0 and below 1/2: else no step is allowed.

    Returns
    -------
    (float, float)

    Examples
    --------
    >>> from shore.theory import step_range
    >>> step_range(0.2)
    (0.625, 1.0)
    """
    delta = check_number(delta, "delta", "a number of at least 0", 0, math.inf, closed=True)
    if delta >= 0.5:
        raise ValueError(f"delta must be less than 1/2, or no step satisfies Theorem 2, got {delta!r}")
    return 1 / (2 - 2 * delta), 1.0


def contraction(step: float, delta: float) -> tuple[float, float]:
    """The constants of Theorem 2: c₁ = 2 - 2η + 2ηδ and c₂ = 2η√(1+δ).

    After t steps, ‖ŷ - v⁽ᵗ⁾‖ ≤ c₁ᵗ ‖ŷ - v⁽⁰⁾‖ + c₂/(1-c₁)·‖Φŷ - Wx‖. With c₁ ≥ 1 or η ≥ 1 the theorem says nothing;
    the constants are returned all the same.

    Parameters
    ----------
    step : float
        η, positive.
    delta : float
        The RIP constant δ of order 3s, at least 0.

    Returns
    -------
    (float, float)
        c₁ and c₂.

    Examples
    --------
    >>> from shore.theory import contraction
    >>> c1, c2 = contraction(0.9, 0.2)
    >>> round(c1, 3), round(c2, 3)
    (0.56, 1.972)
    """
    step = check_number(step, "step", "a positive number", 0, math.inf)
    delta = check_number(delta, "delta", "a number of at least 0", 0, math.inf, closed=True)
    c1, c2 = 2 - 2 * step + 2 * step * delta, 2 * step * math.sqrt(1 + delta)
    if not (math.isfinite(c1) and math.isfinite(c2)):
        raise ValueError(f"step={step!r} and delta={delta!r} are too large: the constants leave the range of numbers")
    return c1, c2


def iterations_for(step: float, delta: float, start: float, noise: float) -> int:
    """Steps after which Theorem 2 has the start forgotten: t* = ⌈ln(start/noise)/ln(1/c₁)⌉.

    From then on ‖ŷ - v⁽ᵗ⁾‖ ≤ (1 + c₂/(1-c₁))·noise. That is the paper's t* with its constant taken as 1.

    Parameters
    ----------
    step : float
        η, inside `step_range(delta)`.
    delta : float
        The RIP constant δ of order 3s, at least 0 and below 1/2.
    start : float
        ‖ŷ - v⁽⁰⁾‖: with v⁽⁰⁾ = 0, the norm of the outputs.
    noise : float
        ‖Φŷ - Wx‖, positive. Without noise the distance falls for ever: pass the distance that will do.

    Returns
    -------
    int
        0 where `start` is no more than `noise`.

    Examples
    --------
    >>> from shore.theory import iterations_for
    >>> iterations_for(0.9, 0.2, start=10.0, noise=0.1)
    8
    """
    low, high = step_range(delta)
    step = check_number(step, "step", f"between {low:.6g} and {high:g} for delta={delta!r} (Theorem 2)", low, high)
    start = check_number(start, "start", "a number of at least 0", 0, math.inf, closed=True)
    noise = check_number(noise, "noise", "a positive number", 0, math.inf)
    if start <= noise:
        return 0
    steps = (math.log(start) - math.log(noise)) / -math.log(contraction(step, delta)[0])
    return math.ceil(steps * (1 - 1e-12))  # rounding shall not add a step
