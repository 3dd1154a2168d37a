"""Sparse portfolios: which few of thousands of instruments to hold tomorrow, and why.

A decision is a row of weights: at most s of K instruments, none negative, summing to 1, none of them forbidden.
The script makes a market whose structure is known, learns decisions from its first years and trades the later ones.
Everything is synthetic. This shows how a model is set up and checked; it is no investment advice.

    python portfolio.py
    python portfolio.py --figure portfolio.png --cost-bps 10
    python portfolio.py --help
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

import shore

Array = npt.NDArray[Any]

SECTORS = (
    "Energy", "Materials", "Industrials", "Consumer", "Staples", "Health", "Financials", "Technology", "Telecom",
    "Utilities", "Property",
)  # fmt: skip
STYLES = ("momentum", "value", "volatility", "size", "quality", "carry")
SIGNALS = (*STYLES, *(f"news {sector}" for sector in SECTORS), "moon phase")  # the moon moves nothing here

YEAR = 252  # trading days
PERSISTENCE = 0.95  # of signals, from one day to the next
HORIZON = 5  # days ahead that a hindsight portfolio looks
WINDOW = 60  # days back that volatility is measured over
RISK_FACTORS = 18  # of the statistical risk model


# ---------------------------------------------------------------- a market whose structure is known


@dataclass(frozen=True)
class Market:
    """Row t holds what is known at the close of day t; a portfolio chosen then earns ``returns[t + 1]``."""

    signals: Array  # (T, d), of variance 1
    returns: Array  # (T, K)
    effect: Array  # (d, K): what a unit of a signal adds to the expected return of the next day
    drift: float  # expected return of every instrument when all signals are 0
    sector: Array  # (K,)
    instruments: list[str]

    def expected(self, days: Array) -> Array:
        """The true expected returns of the days after, which no model is shown."""
        return self.drift + self.signals[days] @ self.effect


def make_market(n_days: int, n_instruments: int, seed: int) -> Market:
    """Daily returns of a factor model: market, styles, sectors, and noise of each instrument's own.

    Signals fade slowly. Each moves the premium of its style or sector; how much of it an instrument
    gets is its exposure, and a few instruments of a sector have most of it. Noise has fat tails and grows with the
    volatility signal, and premia are small against it: 3 to 5 basis points a day where noise is 150.
    """
    rng = np.random.default_rng(seed)
    d, n_styles, n_sectors = len(SIGNALS), len(STYLES), len(SECTORS)
    signals = np.empty((n_days, d))
    signals[0] = rng.standard_normal(d)
    news = rng.standard_normal((n_days, d)) * np.sqrt(1 - PERSISTENCE**2)
    for t in range(1, n_days):
        signals[t] = PERSISTENCE * signals[t - 1] + news[t]

    sector = rng.integers(n_sectors, size=n_instruments)
    exposure = np.zeros((1 + n_styles + n_sectors, n_instruments))
    exposure[0] = rng.normal(1.0, 0.2, n_instruments)
    exposure[1 : 1 + n_styles] = rng.standard_normal((n_styles, n_instruments))
    exposure[1 + n_styles + sector, np.arange(n_instruments)] = rng.exponential(1.0, n_instruments)
    effect = np.zeros((d, n_instruments))
    effect[:n_styles] = 0.00025 * exposure[1 : 1 + n_styles]
    effect[n_styles : n_styles + n_sectors] = 0.0005 * exposure[1 + n_styles :]

    regime = np.exp(0.3 * signals[:, STYLES.index("volatility"), None])
    size_of_shocks = np.array([0.008] + [0.003] * n_styles + [0.005] * n_sectors)
    returns = rng.standard_t(5, (n_days, n_instruments))
    returns *= rng.uniform(0.010, 0.020, n_instruments)
    returns += (size_of_shocks * rng.standard_normal((n_days, len(exposure)))) @ exposure
    returns *= regime
    drift = 0.0003
    returns[1:] += drift + signals[:-1] @ effect
    instruments = [f"{SECTORS[g]} {j:04d}" for j, g in enumerate(sector)]
    return Market(signals, returns, effect, drift, sector, instruments)


def compliance(market: Market, days: Array, seed: int) -> tuple[Array, sparse.csr_array]:
    """What may be held at all (a mask over instruments), and what may not on a day (a pattern, one row a day).

    The mask leaves out half of the energy sector and one in twenty others. The pattern stands for announced halts
    and blackouts: each instrument in one week out of fifty, known before the week begins.
    """
    rng = np.random.default_rng([seed, 1])
    K = len(market.instruments)
    allowed = rng.random(K) > np.where(market.sector == SECTORS.index("Energy"), 0.5, 0.05)
    weeks = rng.random((-(-len(days) // 5), K)) < 0.02
    return allowed, sparse.csr_array(np.repeat(weeks, 5, axis=0)[: len(days)])


# ---------------------------------------------------------------- what to learn: portfolios in hindsight


def common_part(returns: Array, n_factors: int, seed: int) -> Array:
    """Returns without each instrument's own noise: their part in the space of a few principal components.

    In hindsight the best ten of thousands are mostly the luckiest ten, which no signal foretells. Common moves can be
    foretold. Subspace iteration, as a full decomposition would take most of the run.
    """
    rng = np.random.default_rng([seed, 2])
    basis = rng.standard_normal((returns.shape[1], n_factors + 8))
    for _ in range(4):
        basis = np.linalg.qr(returns.T @ (returns @ basis))[0]
    loadings = np.linalg.svd(returns @ basis, full_matrices=False)[2][:n_factors] @ basis.T
    return (returns @ loadings.T) @ loadings


def hindsight_portfolios(returns: Array, sparsity: int, seed: int) -> tuple[Array, sparse.csr_array]:
    """For every day of a past period the portfolio that would have been best over the next HORIZON days.

    v is the mean common return of those days, in units of the volatility that was measured before them. The portfolio
    maximises v·w - ½·‖w‖² over the weights of at most `sparsity` instruments that are not negative and sum to 1; this
    is the projection of v onto that set.

    Returns the days and their portfolios. The last HORIZON days have none: theirs would look past the period.
    """
    days = np.arange(WINDOW, len(returns) - HORIZON)
    K = returns.shape[1]
    total = np.vstack([np.zeros(K), np.cumsum(common_part(returns, RISK_FACTORS, seed), axis=0)])
    squares = np.vstack([np.zeros(K), np.cumsum(returns**2, axis=0)])
    volatility = np.sqrt((squares[days + 1] - squares[days + 1 - WINDOW]) / WINDOW)
    v = (total[days + 1 + HORIZON] - total[days + 1]) / HORIZON / volatility
    return days, shore.project(v, sparsity, shore.Simplex(1.0))


# ---------------------------------------------------------------- the model


def fit(
    signals: Array, targets: sparse.csr_array, *, sparsity: int, compression: str | None, components: int | str,
    conviction: float, step: float, seed: int,
) -> shore.ShoreRegressor:  # fmt: skip
    """Learn decisions from the signals of past days and their portfolios in hindsight.

    A regression predicts the average portfolio of days like this one, in which even the best instrument has a few
    percent. Decoding has to give weights that sum to 1, far more than such predictions do, and with large steps it
    then ends up going to and fro between two portfolios that are both poor. `conviction` multiplies the targets, so
    that the best `sparsity` predictions together come near 1, and `step` is below the default.
    """
    model = shore.ShoreRegressor(
        sparsity=sparsity,
        constraint=shore.Simplex(1.0),
        compression=compression,
        n_components=components,
        alpha=300.0,  # by hand: alpha="auto" holds out random days, whose targets overlap with their neighbours'
        fit_intercept=True,
        step=step,
        dtype=np.float64,
        random_state=seed,
    )
    return model.fit(signals, targets * conviction)


# ---------------------------------------------------------------- what came of it


@dataclass(frozen=True)
class Outcome:
    """A strategy over the days it was traded."""

    weights: sparse.csr_array
    gross: Array  # return of every day
    traded: Array  # bought and sold, as a share of the portfolio's value
    expected: float  # mean of the true expected returns of what was held

    def net(self, cost: float) -> Array:
        """Daily returns after costs proportional to what is traded."""
        return self.gross - cost * self.traded


def trade(weights: sparse.csr_array, returns: Array, expected: Array) -> Outcome:
    """Hold `weights[i]` over a day that returns `returns[i]`, and trade to the next weights at its close."""
    gross = np.asarray(weights.multiply(returns).sum(axis=1)).ravel()
    grown = weights.multiply(1 + returns)  # positions drift with prices before they are traded
    drifted = sparse.csr_array(sparse.diags_array(1 / (1 + gross)) @ grown)
    trades = abs(weights[1:] - drifted[:-1]).sum(axis=1)
    traded = np.concatenate([[1.0], np.asarray(trades).ravel()])
    return Outcome(weights, gross, traded, float(weights.multiply(expected).sum(axis=1).mean()))


def violations(
    weights: sparse.csr_array, sparsity: int, allowed: Array | None = None, denied: sparse.csr_array | None = None
) -> dict[str, int]:
    """Days on which a portfolio breaks a rule, rule by rule."""
    rows = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    found = {
        f"more than {sparsity} instruments": int(np.sum(np.diff(weights.indptr) > sparsity)),
        "a negative weight": len(np.unique(rows[weights.data < 0])),
        "weights that do not sum to 1": int(np.sum(np.abs(weights.sum(axis=1) - 1) > 1e-9)),
    }
    if allowed is not None:
        found["an instrument off the list"] = len(np.unique(rows[~allowed[weights.indices]]))
    if denied is not None:
        held = weights.multiply(denied.astype(np.float64)).sum(axis=1)
        found["an instrument halted that day"] = int(np.count_nonzero(held))
    return found


def random_portfolios(
    n_days: int, sparsity: int, allowed: Array, denied: sparse.csr_array, seed: int
) -> sparse.csr_array:
    """Equal weights of permitted instruments drawn anew every day."""
    draws = np.random.default_rng([seed, 3]).random((n_days, len(allowed)))
    chosen = shore.project(draws, sparsity, "binary", allowed=allowed, denied=denied)
    return sparse.csr_array(sparse.diags_array(1 / np.diff(chosen.indptr)) @ chosen)


@dataclass(frozen=True)
class Study:
    """Everything a run produced."""

    market: Market
    model: shore.ShoreRegressor
    uncompressed: shore.ShoreRegressor
    days: Array  # of the decisions, all after the split
    allowed: Array
    denied: sparse.csr_array
    outcomes: dict[str, Outcome]


SPARSE, FULL, FREE = "compressed", "uncompressed", "uncompressed, no lists"
EQUAL, RANDOM, TRUTH = "all, equal weights", "random", "knows the true premia"


def study(
    *, instruments: int, train_days: int, test_days: int, sparsity: int, components: int | str, conviction: float,
    step: float, seed: int,
) -> Study:  # fmt: skip
    """Make the market, learn from its first `train_days` days, decide on each of the next `test_days`."""
    market = make_market(train_days + test_days + 1, instruments, seed)
    days = np.arange(train_days, train_days + test_days)
    allowed, denied = compliance(market, days, seed)
    past, targets = hindsight_portfolios(market.returns[:train_days], sparsity, seed)  # no later return is looked at
    shared: dict[str, Any] = {
        "sparsity": sparsity, "components": components, "conviction": conviction, "step": step, "seed": seed,
    }  # fmt: skip
    model = fit(market.signals[past], targets, compression="sparse_sign", **shared)
    uncompressed = fit(market.signals[past], targets, compression=None, **shared)

    x = market.signals[days]
    lists: dict[str, Any] = {"allowed": allowed, "denied": denied}
    expected, returns = market.expected(days), market.returns[days + 1]
    risk = market.returns[:train_days].std(axis=0)
    weights = {
        SPARSE: model.predict(x, **lists),
        FULL: uncompressed.predict(x, **lists),
        FREE: uncompressed.predict(x),
        EQUAL: sparse.csr_array(np.full((test_days, instruments), 1 / instruments)),
        RANDOM: random_portfolios(test_days, sparsity, allowed, denied, seed),
        TRUTH: shore.project(expected / risk, sparsity, shore.Simplex(1.0), **lists),
    }
    outcomes = {name: trade(held, returns, expected) for name, held in weights.items()}
    return Study(market, model, uncompressed, days, allowed, denied, outcomes)


# ---------------------------------------------------------------- the report


def report_returns(result: Study, cost: float) -> None:
    """The table of strategies."""
    print("% a year, out of sample   return    net  premia  volatility  turnover a day  ahead of equal weights")
    base = result.outcomes[EQUAL].net(cost)
    for name, outcome in result.outcomes.items():
        net = outcome.net(cost)
        yearly = 100 * YEAR * np.array([outcome.gross.mean(), net.mean(), outcome.expected])
        line = f"{name:<24}{yearly[0]:8.1f}{yearly[1]:7.1f}{yearly[2]:8.1f}{100 * np.sqrt(YEAR) * net.std():12.1f}"
        ahead = "" if name == EQUAL else f"{100 * np.mean(net > base):12.0f}% of days"
        print(f"{line}{50 * outcome.traded[1:].mean():15.0f}%{ahead}")
    print(f"net: after {1e4 * cost:g} basis points of what is traded; premia: true expected return of what was held")


def report_rules(result: Study, sparsity: int) -> bool:
    """Check every decision of the compressed model; True if all keep all rules."""
    n = len(result.days)
    weights = result.outcomes[SPARSE].weights
    found = violations(weights, sparsity, result.allowed, result.denied)
    print(f"Rules, checked on all {n:,} portfolios of the compressed model: days with")
    for rule, count in found.items():
        print(f"  {rule:<32}{count:>6}")
    free = violations(result.model.predict(result.market.signals[result.days]), sparsity, result.allowed, result.denied)
    off, halted = list(free.values())[-2:]
    print(f"  without the lists, {off:,} days would hold an instrument off the list, and {halted:,} a halted one")
    return not any(found.values())


def report_day(result: Study, day: int, conviction: float, n_instruments: int = 3, n_signals: int = 4) -> None:
    """What one decision holds, and which signals spoke for and against its largest positions."""
    market = result.market
    x = market.signals[result.days[day]][None]
    why = result.model.explain(x, len(SIGNALS) + 1, allowed=result.allowed, denied=result.denied[[day]])
    held = result.outcomes[SPARSE].weights[[day]]
    order = np.lexsort((held.indices, -held.data))
    print(f"The decision of day {day + 1}:")
    shown = [f"{market.instruments[held.indices[e]]} {100 * held.data[e]:.0f}%" for e in order]
    for start in range(0, len(shown), 5):
        print("  " + ", ".join(shown[start : start + 5]))
    print("Why: weights that the model expects its first instruments to have in hindsight, in % of the portfolio")
    for e in order[:n_instruments]:
        mine = why.output == held.indices[e]
        feature, part = why.feature[mine], 100 * why.contribution[mine] / conviction
        score, usual = 100 * why.score[mine][0] / conviction, part[feature == -1].sum()
        signals = [(SIGNALS[f], p) for f, p in zip(feature, part, strict=True) if f >= 0][:n_signals]
        print(f"  {market.instruments[held.indices[e]]:<18}{score:4.1f}, on the average day {usual:.1f}")
        for side, sign in (("for", 1), ("against", -1)):
            listed = ", ".join(f"{name} {p:+.1f}" for name, p in signals if p * sign > 0)
            print(f"    {side + ':':<9}{listed or '-'}")


def share_explained_rightly(result: Study) -> float:
    """How often the signal that truly moves a held instrument most on a day is on the right side of its explanation."""
    market = result.market
    x = market.signals[result.days]
    why = result.model.explain(x, len(SIGNALS) + 1, allowed=result.allowed, denied=result.denied)
    truth = x[why.row, why.feature] * market.effect[why.feature, why.output]
    truth[why.feature == -1] = 0.0  # the intercept
    _, start = np.unique(why.row * len(market.instruments) + why.output, return_index=True)
    stop = np.append(start[1:], len(truth))
    strongest = [a + np.argmax(np.abs(truth[a:b])) for a, b in zip(start, stop, strict=True)]
    return float(np.mean(np.sign(truth[strongest]) == np.sign(why.contribution[strongest])))


def draw(result: Study, cost: float, path: str) -> None:
    """Wealth of the strategies, and the sectors of the compressed model's portfolios."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    years = (np.arange(len(result.days)) + 1) / YEAR
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 7.5), sharex=True, layout="constrained")
    looks = {
        SPARSE: ("#0b5394", "-", 2.0), FULL: ("#e07b00", "-", 1.2), EQUAL: ("#333333", "--", 1.4),
        RANDOM: ("#999999", "-", 1.0),
    }  # fmt: skip
    for name, (colour, line, width) in looks.items():
        wealth = np.cumprod(1 + result.outcomes[name].net(cost))
        top.plot(years, wealth, line, color=colour, linewidth=width, label=f"{name}: {wealth[-1]:.1f}")
    top.set_yscale("log")
    ticks = [v for v in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if top.get_ylim()[0] < v < top.get_ylim()[1]]
    top.set_yticks(ticks, [f"{v:g}" for v in ticks])
    top.minorticks_off()
    top.grid(alpha=0.3)
    top.set_ylabel("wealth, log scale (1 at the start)")
    top.set_title(f"Synthetic market, after costs of {1e4 * cost:g} basis points of what is traded")
    top.legend(loc="upper left", frameon=False, title="at the end")

    month = YEAR // 12
    membership = sparse.csr_array(
        (np.ones(len(result.market.sector)), (np.arange(len(result.market.sector)), result.market.sector)),
        shape=(len(result.market.sector), len(SECTORS)),
    )
    shares = (result.outcomes[SPARSE].weights @ membership).toarray()
    starts = np.arange(0, len(shares), month)
    means = np.array([shares[start : start + month].mean(axis=0) for start in starts])
    widths = np.diff(np.append(starts, len(shares))) / YEAR
    floor = np.zeros(len(starts))
    colours = plt.get_cmap("tab20")([0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 1])
    for g in np.argsort(-means.sum(axis=0)):
        bottom.bar(starts / YEAR, means[:, g], widths, floor, align="edge", color=colours[g], label=SECTORS[g])
        floor += means[:, g]
    bottom.set_ylim(0, 1)
    bottom.set_xlim(0, years[-1])
    bottom.set_ylabel("share of the portfolio, monthly mean")
    bottom.set_xlabel("years since the end of the training period")
    bottom.set_title(
        f"Sectors of the compressed model's portfolios (at most {result.model.sparsity} instruments a day)"
    )
    handles, labels = bottom.get_legend_handles_labels()
    bottom.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)


# ---------------------------------------------------------------- the command


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Learn sparse long-only portfolios in a synthetic market and trade them on later days: weights of "
        "a few out of thousands of instruments that are not negative, sum to 1 and keep to a compliance list. Prints "
        "what the strategies earned, that every rule was kept, and why one day's instruments were chosen.",
        epilog="All data is made up; nothing is downloaded, and nothing here is investment advice.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--instruments", type=int, default=3000, metavar="K", help="instruments to choose from")
    parser.add_argument("--sparsity", type=int, default=10, metavar="s", help="instruments to hold at most")
    parser.add_argument("--train-days", type=int, default=10 * YEAR, metavar="N", help="days to learn from")
    parser.add_argument("--test-days", type=int, default=4 * YEAR, metavar="N", help="later days to trade")
    parser.add_argument(
        "--components", type=int, default=None, metavar="m",
        help="numbers that a portfolio of K weights is compressed to; without it, shore's rule for K and s",
    )  # fmt: skip
    parser.add_argument(
        "--conviction", type=float, default=8.0, metavar="C",
        help="factor on the training targets; more puts more weight on the best few instruments (see the README)",
    )  # fmt: skip
    parser.add_argument("--step", type=float, default=0.7, help="step size of decoding (see the README)")
    parser.add_argument(
        "--cost-bps", type=float, default=5.0, metavar="BPS", help="cost of trading, in basis points of what is traded"
    )
    parser.add_argument("--explain-day", type=int, default=1, metavar="DAY", help="test day to explain, from 1")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes another market")
    parser.add_argument(
        "--figure", metavar="FILE", help="also draw wealth and sectors over time to this file (needs matplotlib)"
    )
    arguments = parser.parse_args(argv)
    if arguments.train_days < WINDOW + HORIZON + 2:
        parser.error(f"--train-days must be at least {WINDOW + HORIZON + 2}, got {arguments.train_days}")
    if arguments.instruments < 100:
        parser.error(f"--instruments must be at least 100, got {arguments.instruments}")
    for name in ("sparsity", "test_days", "components", "conviction", "step"):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            parser.error(f"--{name.replace('_', '-')} must be positive, got {value}")
    if arguments.seed < 0 or not arguments.cost_bps >= 0:
        parser.error("--seed and --cost-bps must not be negative")
    if not 1 <= arguments.explain_day <= arguments.test_days:
        parser.error(f"--explain-day must be from 1 to {arguments.test_days}, got {arguments.explain_day}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    s, cost = arguments.sparsity, arguments.cost_bps / 1e4
    result = study(
        instruments=arguments.instruments, train_days=arguments.train_days, test_days=arguments.test_days, sparsity=s,
        components=arguments.components or "auto", conviction=arguments.conviction, step=arguments.step,
        seed=arguments.seed,
    )  # fmt: skip
    model = result.model
    print(
        f"Synthetic market: {arguments.instruments:,} instruments, {len(SECTORS)} sectors, {len(SIGNALS)} signals; "
        f"{arguments.train_days:,} days to learn from, {arguments.test_days:,} to trade"
    )
    print(
        f"Model: {model.n_outputs_:,} weights in {model.coef_.shape[0]} numbers, {model.coef_.size:,} coefficients "
        f"({result.uncompressed.coef_.size:,} uncompressed)\n"
    )
    report_returns(result, cost)
    print()
    kept = report_rules(result, s)
    print()
    report_day(result, arguments.explain_day - 1, arguments.conviction)
    print(
        "For all days and instruments held: the signal that moves the instrument most in the formula of the market is\n"
        f"on the right side of the explanation in {100 * share_explained_rightly(result):.0f}% of cases"
    )
    if arguments.figure:
        try:
            draw(result, cost, arguments.figure)
        except ImportError:
            print("no figure: matplotlib is not installed (pip install matplotlib)", file=sys.stderr)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
