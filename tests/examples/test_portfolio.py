"""The portfolio example: its rules hold, it does not look ahead, and its page shows what it prints."""

import dataclasses
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "portfolio"
SMALL = {
    "instruments": 400,
    "train_days": 600,
    "test_days": 60,
    "sparsity": 5,
    "components": "auto",
    "conviction": 8.0,
    "step": 0.7,
}


@pytest.fixture(scope="module")
def portfolio():
    spec = importlib.util.spec_from_file_location("portfolio_example", FOLDER / "portfolio.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


@pytest.fixture(scope="module")
def result(portfolio):
    return portfolio.study(**SMALL, seed=3)


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, str(FOLDER / "portfolio.py"), *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", timeout=300, **options,
    )  # fmt: skip


SMALL_RUN = ("--instruments", 400, "--train-days", 600, "--test-days", 60, "--sparsity", 5)


def test_portfolios_keep_the_rules(portfolio, result):
    forbidden = result.denied.toarray() | ~result.allowed
    for name in (portfolio.SPARSE, portfolio.FULL, portfolio.RANDOM, portfolio.TRUTH):
        weights = result.outcomes[name].weights.toarray()
        assert np.all(np.count_nonzero(weights, axis=1) <= 5), name
        assert np.all(weights >= 0), name
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
        assert not np.any(weights[forbidden]), name
    assert np.any(result.outcomes[portfolio.FREE].weights.toarray()[forbidden])  # the lists do matter


def test_violations_are_seen(portfolio, result):
    good = result.outcomes[portfolio.SPARSE].weights
    assert not any(portfolio.violations(good, 5, result.allowed, result.denied).values())
    bad = good.tolil()
    bad[0] = 0.0
    bad[0, :6] = [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]
    bad[1] *= -1
    bad[2, np.flatnonzero(~result.allowed)[0]] = 1e-6
    bad[3, result.denied[[3]].indices[0]] = 1e-6
    assert list(portfolio.violations(bad.tocsr(), 5).values()) == [
        1 + np.sum(np.diff(bad.tocsr().indptr)[1:] > 5),
        1,
        3,
    ]
    seen = list(portfolio.violations(bad.tocsr(), 5, result.allowed, result.denied).values())[3:]
    assert seen[0] >= 1
    assert seen[1] >= 1


def test_decisions_do_not_depend_on_returns_after_the_split(portfolio, result, monkeypatch):
    make = portfolio.make_market

    def another_future(*arguments):
        market = make(*arguments)
        returns = market.returns.copy()
        returns[SMALL["train_days"] :] = np.random.default_rng(9).normal(0, 0.1, returns[SMALL["train_days"] :].shape)
        return dataclasses.replace(market, returns=returns)

    monkeypatch.setattr(portfolio, "make_market", another_future)
    other = portfolio.study(**SMALL, seed=3)
    for name in (portfolio.SPARSE, portfolio.FULL, portfolio.FREE):
        mine, its = result.outcomes[name].weights, other.outcomes[name].weights
        np.testing.assert_array_equal(mine.indices, its.indices)
        np.testing.assert_array_equal(mine.data, its.data)


def test_hindsight_portfolios_look_as_far_ahead_as_they_say(portfolio, result):
    returns = result.market.returns[:200]
    days, targets = portfolio.hindsight_portfolios(returns, 5, 3)
    assert days[0] == portfolio.WINDOW
    assert days[-1] + portfolio.HORIZON == 199
    assert targets.shape == (len(days), 400)
    assert not any(portfolio.violations(targets, 5).values())
    ahead = portfolio.common_part(returns, portfolio.RISK_FACTORS, 3)
    after = np.array([ahead[day + 1 : day + 1 + portfolio.HORIZON].mean(axis=0) for day in days])
    held = targets.multiply(after).sum(axis=1)
    assert np.all(held > after.mean(axis=1))


def test_common_part_is_that_of_the_principal_components(portfolio):
    rng = np.random.default_rng(0)
    low_rank = rng.standard_normal((80, 3)) @ rng.standard_normal((3, 60))
    np.testing.assert_allclose(portfolio.common_part(low_rank, 3, 0), low_rank, atol=1e-9)


def test_trading_accounts_for_drift_and_costs(portfolio, result):
    weights = result.outcomes[portfolio.SPARSE].weights[:3]
    returns = result.market.returns[result.days[:3] + 1]
    outcome = portfolio.trade(weights, returns, np.zeros_like(returns))
    dense = weights.toarray()
    gross = (dense * returns).sum(axis=1)
    np.testing.assert_allclose(outcome.gross, gross)
    drifted = dense[:2] * (1 + returns[:2]) / (1 + gross[:2, None])
    np.testing.assert_allclose(outcome.traded, [1.0, *np.abs(dense[1:] - drifted).sum(axis=1)])
    np.testing.assert_allclose(outcome.net(0.001), gross - 0.001 * outcome.traded)


def test_the_model_learned_something(portfolio):
    learned = portfolio.study(**{**SMALL, "train_days": 1500}, seed=3)
    premia = {name: outcome.expected for name, outcome in learned.outcomes.items()}
    assert premia[portfolio.SPARSE] > 1.5 * premia[portfolio.EQUAL]
    assert premia[portfolio.TRUTH] > premia[portfolio.SPARSE]
    assert portfolio.share_explained_rightly(learned) > 0.7


def test_small_run_in_a_process_of_its_own(tmp_path):
    pytest.importorskip("matplotlib")
    figure = tmp_path / "out.png"
    done = run(*SMALL_RUN, "--explain-day", 60, "--figure", figure, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The decision of day 60:" in done.stdout
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_only_the_figure_is_missing(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')", encoding="utf-8")
    code = (
        f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); sys.modules['sklearn'] = None; "
        f"sys.argv[1:] = {[str(a) for a in SMALL_RUN] + ['--figure', 'out.png']!r}; "
        f"runpy.run_path({str(FOLDER / 'portfolio.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "matplotlib is not installed" in done.stderr
    assert "Rules, checked" in done.stdout
    assert not (tmp_path / "out.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sparsity", 0], "--sparsity must be positive, got 0"),
        (["--components", 0], "--components must be positive, got 0"),
        (["--instruments", 5], "--instruments must be at least 100, got 5"),
        (["--train-days", 20], "--train-days must be at least"),
        (["--test-days", 5, "--explain-day", 6], "--explain-day must be from 1 to 5, got 6"),
        (["--seed", -1], "must not be negative"),
    ],
)
def test_wrong_arguments_are_named(portfolio, capsys, arguments, words):
    with pytest.raises(SystemExit):
        portfolio.main([str(a) for a in arguments])
    assert words in capsys.readouterr().err


def test_the_page_shows_what_the_default_run_prints():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    done = run()
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown[0]
