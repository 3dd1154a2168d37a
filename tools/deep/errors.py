"""How far solutions of stage 1 are from the exact ones, by solver and by the condition of X, and who says so.

    PYTHONPATH=tools python -m deep.errors [--quick] [--page docs/reliability.md] [--figure docs/figures/errors.png]

Fits on least squares of a prescribed condition (`deep.ill`) are compared with their solutions in 50 digits: X, Y,
weights and alpha as stored are the exact input. A solution is good if ‖W - W*‖ is at most so much of ‖W*‖:

- 1e-4 in float32 and 2⁻²⁶, half of the digits, in float64;
- for cg the root of `solver_tol`, half of the digits that were asked for, if that is more.

Whatever is worse must come with a warning. The exit code is 1 where it does not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np

import shore
from deep import many
from deep.ill import ALPHAS, CONDITIONS, PREPARATIONS, SHAPES, SPECTRA, Case, exact_solutions, make_data, warnings_of_w
from deep.outcome import Outcome
from shore._progress import Progress

# The name of a column, and the parameters of the model.
WAYS = {
    "auto": {"solver": "auto"},
    "cholesky": {"solver": "cholesky"},
    "dual": {"solver": "dual"},
    "cg": {"solver": "cg"},
    "cg, 1e-8": {"solver": "cg", "solver_tol": 1e-8},
    "partial_fit": {},
}
FIGURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "errors.png"
GOOD = {"float32": 1e-4, "float64": 2.0**-26}


def good_error(way: str, dtype: str) -> float:
    """The forward error up to which a result needs no warning."""
    tol = WAYS[way].get("solver_tol", 1e-3) if way.startswith("cg") else 0.0
    return max(GOOD[dtype], math.sqrt(tol))


def cases(quick: bool, seed: int = 0):
    """All cases; a quick run takes every combination of condition and dtype, and of the others a few in turn."""
    kinds = list(itertools.product(SHAPES, ("dense", "csr"), SPECTRA, PREPARATIONS))
    turn = 0
    for condition, dtype in itertools.product(CONDITIONS, GOOD):
        chosen = kinds
        if quick:
            chosen = [kinds[(turn + 7 * i) % len(kinds)] for i in range(2)]
            turn += 1
        for kind in chosen:
            yield Case(condition, *kind, dtype, seed)


def solution(data, case, name, alpha, way):
    """W of shape (d, w), the texts of warnings, and the solver taken."""
    options = {"compression": None, "dtype": case.dtype, "alpha": alpha, "n_threads": 1, **WAYS[way]}
    model = shore.ShoreRegressor(1, fit_intercept=case.preparation != "plain", **options)
    Y, weights = data.targets[name], data.weights
    with warnings_of_w() as said:
        if way == "partial_fit":
            cuts = np.linspace(0, len(Y), 4).astype(int)
            for here in itertools.starmap(slice, itertools.pairwise(cuts)):
                model.partial_fit(data.X[here], Y[here], None if weights is None else weights[here])
        else:
            model.fit(data.X, Y, weights)
        W = model.coef_.T.astype(np.float64)
    return W, said, model.solver_


def examine(case: Case) -> list[dict]:
    """A record of every way to solve a case, by penalty and targets."""
    data = make_data(case)
    records = []
    for (alpha, name), exact in exact_solutions(case, data, ALPHAS).items():
        for way in WAYS:
            W, said, solver = solution(data, case, name, alpha, way)
            error = float(np.linalg.norm(W - exact) / np.linalg.norm(exact))
            records.append(
                {**vars(case), "alpha": alpha, "targets": name, "way": way, "solver": solver, "error": error,
                 "warned": bool(said), "said": said[:1], "good": error <= good_error(way, case.dtype)}
            )  # fmt: skip
    return records


def run(quick: bool, *, seed: int = 0, show: bool = False) -> dict:
    """All cases.

    Parameters
    ----------
    quick : bool
        A few cases of every condition, in seconds.
    seed : int, default 0
    show : bool, default False
        Show the progress.

    Returns
    -------
    dict
        'records', one for every fit; 'silent', those of a bad result without a warning; 'needless', those of a result
        that is a hundred times better than it need be with one.
    """
    chosen = list(cases(quick, seed))
    records = []
    with Progress("errors", len(chosen), show=show) as progress:
        for case in chosen:
            records += examine(case)
            progress.advance(1)
    silent = [record for record in records if not record["good"] and not record["warned"]]
    needless = [
        record
        for record in records
        if record["warned"] and 100 * record["error"] < good_error(record["way"], record["dtype"])
    ]
    return {"seed": seed, "records": records, "fits": len(records), "silent": silent, "needless": needless}


def passed(result: dict) -> bool:
    """Whether every bad result came with a warning."""
    return not result["silent"]


def worst(records, **only) -> tuple[float, bool] | None:
    """The largest error of the records that match, and whether any was warned of; None if there are none."""
    found = [r for r in records if all(r[name] == value for name, value in only.items())]
    return (max(r["error"] for r in found), any(r["warned"] for r in found)) if found else None


def _cell(pair):
    return "" if pair is None else f"{pair[0]:.0e}" + (" ⚠" if pair[1] else "")


def markdown(result: dict) -> list[str]:
    """Tables for docs: the worst forward error of a solver at a condition; ⚠ where a warning was given."""
    lines = []
    groups = {
        "alpha = 0, Y noise or what X explains": lambda r: r["alpha"] == 0 and r["targets"] != "orthogonal",
        "alpha = 0, Y mostly what X cannot explain": lambda r: r["alpha"] == 0 and r["targets"] == "orthogonal",
        "alpha > 0": lambda r: r["alpha"] > 0,
    }
    for dtype, (title, belongs) in itertools.product(GOOD, groups.items()):
        records = [r for r in result["records"] if r["dtype"] == dtype and belongs(r)]
        lines += [f"{dtype}, {title}:", ""]
        lines += ["| condition | " + " | ".join(WAYS) + " |", "|---" * (1 + len(WAYS)) + "|"]
        for condition in CONDITIONS:
            cells = (_cell(worst(records, condition=condition, way=way)) for way in WAYS)
            lines.append(f"| {condition:.0e} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines


def draw(result: dict, path: Path) -> None:
    """The worst forward error of each solver against the condition, as in the first table of a dtype.

    Full marks came with a warning.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(GOOD), figsize=(9, 3.6), sharey=True, layout="constrained")
    for axis, dtype in zip(axes, GOOD, strict=True):
        records = [
            r for r in result["records"] if r["dtype"] == dtype and r["alpha"] == 0 and r["targets"] != "orthogonal"
        ]
        for number, way in enumerate(WAYS):
            pairs = [(c, worst(records, condition=c, way=way)) for c in CONDITIONS]
            points = [(c, max(pair[0], 1e-17), pair[1]) for c, pair in pairs if pair]
            axis.loglog([c for c, _, _ in points], [e for _, e, _ in points], color=f"C{number}", lw=1.2, label=way)
            for warned in (False, True):
                here = [(c, e) for c, e, w in points if w == warned]
                face = f"C{number}" if warned else "white"
                axis.loglog(*zip(*here, strict=True), "o", ms=5, mec=f"C{number}", mfc=face) if here else None
        axis.axhline(GOOD[dtype], color="0.5", lw=0.8, ls="--")
        axis.set(title=dtype, xlabel="condition of X", ylim=(1e-17, 1e8))
        axis.grid(alpha=0.3, lw=0.5)
    axes[0].set_ylabel("‖W − W*‖ / ‖W*‖")
    axes[1].legend(fontsize=8, loc="lower right")
    figure.savefig(path)
    plt.close(figure)


def outcome(quick: bool) -> Outcome:
    """The part of `make deep`."""
    result, found = run(quick, show=True), Outcome("Forward errors")
    of_many = many.run(quick, show=True)
    found.add("fits compared with solutions in 50 digits", result["fits"])
    found.add("fits of up to 200 outputs by conjugate gradients, compared in extended precision", len(of_many))
    found.add("of these chosen by auto", sum(record["asked"] == "auto" for record in of_many))
    every = result["records"] + of_many
    found.add("fits with a warning", sum(record["warned"] for record in every))
    silent = result["silent"] + [record for record in of_many if not (record["good"] or record["warned"])]
    found.add("fits that are not good and gave no warning", len(silent))
    for record in silent:
        found.fail(str(record))
    found.details = markdown(result)
    found.illustrate = lambda: draw(result, FIGURE)
    return found


def main() -> int:
    """Print the tables, and what is wrong; or write the tables to a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few cases of every condition")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="file for all records")
    parser.add_argument("--page", type=Path, help="page that gets the tables, between its markers")
    parser.add_argument("--figure", type=Path, help="file for the figure")
    given = parser.parse_args()
    result = run(given.quick, seed=given.seed, show=True)
    if given.page:
        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "asv_bench"))
        from benchmarks.pages import write_between

        write_between(given.page, "forward errors", markdown(result))
    else:
        print("\n".join(markdown(result)))
    if given.figure:
        draw(result, given.figure)
    print(f"{result['fits']:,} fits; bad without a warning: {len(result['silent'])}; "
          f"far better than the warning says: {len(result['needless'])}")  # fmt: skip
    for name in ("silent", "needless"):
        for record in result[name][:20]:
            print(name, {key: value for key, value in record.items() if key != "said"}, *record["said"])
    if given.json:
        given.json.write_text(json.dumps(result), encoding="utf-8")
    return 0 if passed(result) else 1


if __name__ == "__main__":
    sys.exit(main())
