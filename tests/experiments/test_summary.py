"""What report.md says, on results whose summary is known beforehand."""

import numpy as np
import pytest

from shore.experiments.figures import mean_and_spread
from shore.experiments.store import COLUMNS, Store
from shore.experiments.summary import (
    iterations_observation,
    linear_time_observation,
    loss_ratio_observation,
    precision_observation,
    summarise,
)

KEYS = {"dataset": "a", "compression": "gaussian", "snr_db": 10.0, "sparsity": 3, "m": 100, "trial": 0, "method": "pgd"}


def row(**values):
    return {**dict.fromkeys(COLUMNS), **KEYS, "rows": 50, **values}


def test_mean_and_spread():
    assert mean_and_spread([1.0, 3.0]) == (2.0, pytest.approx(np.sqrt(2)))
    assert mean_and_spread([5.0]) == (5.0, 0.0)


def test_loss_ratio():
    """1.2 and 0.8 are within 1 ± 3/√100, and 1.2 is not within 1 ± 3/√900."""
    rows = [row(loss_ratio=1.2), row(loss_ratio=0.8, snr_db=30.0), row(loss_ratio=1.2, m=900)]
    assert loss_ratio_observation(rows[:2]).startswith("- **yes** (2 of 2 points)")
    said = loss_ratio_observation(rows)
    assert said.startswith("- **no** (2 of 3 points)")
    assert "Farthest from 1: 6.00/√m at m = 900" in said
    assert loss_ratio_observation([row()]) is None
    assert loss_ratio_observation([row(loss_ratio=0.5)]).startswith("- **no** (0 of 1 points)")


def test_precision():
    def point(m, pgd, cd):
        both = (("pgd", pgd), ("cd", cd))
        return [row(m=m, method=name, trial=i, precision=p) for name, values in both for i, p in enumerate(values)]

    better, within = point(100, [0.9, 0.9], [0.5, 0.5]), point(200, [0.78, 0.82], [0.81, 0.81])
    assert precision_observation(better + within).startswith("- **yes** (2 of 2 points)")
    said = precision_observation(better + within + point(300, [0.5, 0.5], [0.6, 0.6]))
    assert said.startswith("- **no** (2 of 3 points)")
    assert "Least: -0.1000 (standard deviation 0.0000) at m = 300; most: +0.4000." in said
    assert precision_observation([row(precision=1.0)]) is None


def test_iterations_and_time():
    rows = [row(m=m, trial=t, iterations=m / 100 + t, us_per_row=5 + m / 50) for m in (500, 700, 1000) for t in (0, 2)]
    assert iterations_observation(rows).endswith("6.0 at m = 500, 8.0 at m = 700, 11.0 at m = 1000.")
    assert "a, PGD: 5.0 + 2.00·m/100, R² = 1.000" in linear_time_observation(rows)
    assert linear_time_observation(rows[:4]) is None


def test_report(tmp_path):
    pytest.importorskip("matplotlib")
    store = Store(tmp_path, {})
    slow = {"method": "sklearn_omp", "rows": 20, "us_per_row": 1e6}
    store.add([row(us_per_row=1e4, precision=0.5), row(us_per_row=4e4, m=300, precision=0.25), row(**slow)])
    summarise(store, "real")
    lines = (tmp_path / "report.md").read_text(encoding="utf-8").splitlines()
    assert "| a (50 rows), Gaussian Φ | 0.5 to 2 s | 50 to 50 s |" in lines  # carried on from 20 rows to 50
    assert "| 100 |  | 0.5000 ± 0.0000 |  |" in lines
