"""Screening's certificate on a million random rows: every decision is that of the loop without screening.

    PYTHONPATH=tools python -m deep.certificate [--quick] [--rows N] [--seed S] [--keep FOLDER]
    PYTHONPATH=tools SHORE_SIMD=avx2 python -m deep.certificate --problem NUMBER --most ROWS --seed S

Random problems (`deep.problems`) are decoded as users do and once more row by row with a full pass for every
projection. Supports, values, iterations, residuals and steps must have the same bits, at every level of vector
instructions. Some rows are compared with the slow reading of the paper in tests/reference.py too. The second form
repeats one problem. The exit code is 1 if anything differed, or if the certificate decided next to nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from deep.outcome import Outcome
from deep.problems import TESTS, draw_problem
from shore._core import runtime
from shore._progress import Progress

if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))
import reference
from engine import decode_with

# Rows that can be screened in all, and rows of a problem at most.
FULL, QUICK = (1_000_000, 500), (3_000, 40)
# Rows of a problem that the slow reference decodes, and its outputs at most.
REFERENCE_ROWS, REFERENCE_OUTPUTS = 4, 1500
FACTS = ("n_iter", "converged", "residual", "step")


# ------------------------------------------------------------ one problem


def _bits(values):
    return values.view(f"u{values.itemsize}")


def different_rows(a, b):
    """Numbers of the rows in which two results differ in a bit."""
    (found, info), (expected, facts) = a, b
    differ = np.diff(found.indptr) != np.diff(expected.indptr)
    for name in FACTS:
        here, there = getattr(info, name), getattr(facts, name)
        differ |= (here != there) & ~((here != here) & (there != there))  # omp has no step: NaN
    if np.array_equal(found.indptr, expected.indptr):
        bits = found.indices != expected.indices
        bits |= _bits(found.data) != _bits(expected.data)
        differ[np.searchsorted(found.indptr, np.flatnonzero(bits), side="right") - 1] = True
    else:
        for i in np.flatnonzero(~differ):
            here, there = slice(*found.indptr[i : i + 2]), slice(*expected.indptr[i : i + 2])
            differ[i] = (found.indices[here].tobytes(), found.data[here].tobytes()) != (
                expected.indices[there].tobytes(), expected.data[there].tobytes())  # fmt: skip
    return np.flatnonzero(differ)


def against_reference(problem, found, info):
    """Rows compared with the slow reading of the paper, and those of them whose outputs differ.

    A row that rounding decides (the reference itself takes other outputs if b moves by its last digits) is left out.
    """
    phi, options = problem.phi, problem.options
    plain = {name: options[name] for name in ("constraint", "step", "max_iter", "tol")}
    fits = options["method"] == "pgd" and phi.n_outputs <= REFERENCE_OUTPUTS and phi.dtype == np.float64
    if not fits or problem.patterns or not problem.generic or "decode_sparsity" in options:
        return 0, []
    rows = np.flatnonzero(np.isin(problem.kinds, ("planted", "noise")))[:REFERENCE_ROWS]
    Phi, compared, wrong = phi.toarray(), 0, []
    shake = 1 + 1e-12 * np.random.default_rng(0).standard_normal((2, phi.n_components))
    for i in rows:
        results = [reference.decode_row(problem.B[i] * s, Phi, problem.sparsity, **plain) for s in (1.0, *shake)]
        supports = [(np.flatnonzero(v).tolist(), steps) for v, steps, _ in results]
        if supports[0] != supports[1] or supports[0] != supports[2]:
            continue
        compared += 1
        mine = found.indices[found.indptr[i] : found.indptr[i + 1]].tolist()
        if (mine, int(info.n_iter[i])) != supports[0]:
            wrong.append(int(i))
    return compared, wrong


def check(problem):
    """What one problem shows: rows, passes with and without screening, and what differs."""
    options = {**problem.options, "n_threads": problem.n_threads}
    screened = decode_with(problem.B, problem.phi, problem.sparsity, **options)
    plain = decode_with(problem.B, problem.phi, problem.sparsity, screening=False, max_rows=1, **options)
    compared, wrong = against_reference(problem, *screened)
    pgd = problem.options["method"] == "pgd"
    # A certificate can be of use from the second projection on, and where not all outputs are kept.
    useful = pgd and problem.options["max_iter"] > 1 and problem.sparsity < problem.phi.n_outputs
    return {
        "rows": len(problem.B),
        "screened": len(problem.B) if useful else 0,
        "steps": int(plain[1].full_passes.sum()) if pgd else 0,
        "passes": int(screened[1].full_passes.sum()) if pgd else 0,
        "more_passes": int(np.sum(screened[1].full_passes > plain[1].full_passes)),
        "different": different_rows(screened, plain).tolist(),
        "compared": compared,
        "wrong": wrong,
    }


# ------------------------------------------------------------ a process for every level of instructions


def work(seed, first, step, rows, most, keep):
    """Problems first, first + step, ... until enough rows could be screened; a line of JSON for each."""
    number, done = first, 0
    while done < rows:
        problem = draw_problem(seed, number, most)
        result = check(problem)
        done += result["screened"]
        result |= {"problem": number, "method": problem.options["method"], "kind": problem.kind}
        bad = result["different"] + result["wrong"]
        if bad and keep:
            stem = f"certificate-{runtime.simd()[0]}-{seed}-{number}"
            extra = {"said": problem.describe(), "level": runtime.simd()[0], "seed": seed, "most": most, **result}
            Path(keep, f"{stem}.json").write_text(json.dumps(extra, indent=1), encoding="utf-8")
            np.savez_compressed(Path(keep, f"{stem}.npz"), B=problem.B[bad], Phi=problem.phi.toarray(), rows=bad)
        print(json.dumps(result), flush=True)
        number += step


def _levels():
    return runtime.LEVELS[: runtime.LEVELS.index(runtime.simd()[1]) + 1]


def run(quick: bool, *, rows: int | None = None, seed: int = 0, keep: str | None = None, show: bool = False) -> dict:
    """Check `rows` rows that can be screened, and some that cannot, shared by the levels of instructions there are.

    Parameters
    ----------
    quick : bool
        Some thousand rows, in seconds, where a million take minutes.
    rows : int, optional
    seed : int, default 0
        Of all problems.
    keep : str, optional
        Folder for what is needed to repeat a difference; by default a new one in the temporary folder.
    show : bool, default False
        Show the progress.

    Returns
    -------
    dict
        'rows', 'screened' (those that can be), 'problems', 'different' (rows of which a bit differed), 'decided' (the
        share of projections that took no pass over all outputs), 'compared' and 'wrong' (against the slow
        reference), 'failures' (to repeat), and more.
    """
    wanted, most = QUICK if quick else FULL
    total = rows or wanted
    levels = _levels()
    folder = Path(keep or tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    share = -(-total // len(levels))
    began = time.monotonic()
    lines = {level: [] for level in levels}
    with contextlib.ExitStack() as stack, Progress("certificate", share * len(levels), show=show) as progress:
        children = {}
        for number, level in enumerate(levels):
            part = map(str, (number, len(levels), share, most))
            command = [sys.executable, "-m", "deep.certificate", "--work", *part]
            paths = [str(Path(__file__).resolve().parents[1]), *sys.path]
            environment = os.environ | {"SHORE_SIMD": level, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
            child = subprocess.Popen(
                [*command, "--seed", str(seed), "--keep", str(folder)], stdout=subprocess.PIPE, text=True,
                env=environment,
            )  # fmt: skip
            children[level] = stack.enter_context(child)
        for level, line in _lines(children):
            result = json.loads(line)
            lines[level].append(result)
            progress.advance(result["screened"])
    for level, child in children.items():
        if child.returncode != 0:
            raise RuntimeError(f"the check at level {level} ended with exit code {child.returncode}")
    return _summary(lines, seed, most, folder) | {"wanted": total, "seconds": round(time.monotonic() - began, 1)}


def _lines(children):
    """Lines of all children as they come."""
    with selectors.DefaultSelector() as selector:
        for level, child in children.items():
            selector.register(child.stdout, selectors.EVENT_READ, level)
        while selector.get_map():
            for key, _ in selector.select():
                line = key.fileobj.readline()
                if line:
                    yield key.data, line
                else:
                    selector.unregister(key.fileobj)


def _summary(lines, seed, most, folder):
    every = [result for results in lines.values() for result in results]
    total = {
        name: sum(result[name] for result in every) for name in ("rows", "screened", "steps", "passes", "compared")
    }
    by_method = {}
    for result in every:
        by_method[result["method"]] = by_method.get(result["method"], 0) + result["rows"]
    failures = [
        {"level": level, "problem": result["problem"], "different": result["different"], "wrong": result["wrong"]}
        for level, results in lines.items()
        for result in results
        if result["different"] or result["wrong"]
    ]
    return {
        "seed": seed,
        "most": most,
        "rows": total["rows"],
        "screened": total["screened"],
        "rows_by_level": {level: sum(result["rows"] for result in results) for level, results in lines.items()},
        "rows_by_method": by_method,
        "problems": len(every),
        "projections": total["steps"],
        "decided": round(1 - total["passes"] / max(1, total["steps"]), 4),
        "different": sum(len(result["different"]) for result in every),
        "more_passes": sum(result["more_passes"] for result in every),
        "compared": total["compared"],
        "wrong": sum(len(result["wrong"]) for result in every),
        "failures": failures,
        "kept_in": str(folder) if failures else None,
    }


def passed(result: dict) -> bool:
    """Whether nothing differed, and enough was compared and decided by the certificate for that to mean something."""
    enough = result["screened"] >= result["wanted"] and result["compared"] > 0 and result["decided"] > 0.2
    return enough and not (result["different"] or result["wrong"] or result["more_passes"])


def outcome(quick: bool) -> Outcome:
    """The part of `make deep`."""
    result, found = run(quick, show=True), Outcome("Certificate")
    found.add("rows decoded with screening and without", result["screened"])
    found.add("more rows, of decoders without screening, at once and one by one", result["rows"] - result["screened"])
    found.add("problems they are of", result["problems"])
    found.add("projections", result["projections"])
    found.add("share of them that the certificate decided", f"{result['decided']:.1%}")
    found.add("rows that differ in a bit", result["different"])
    found.add("rows compared with the slow reference", result["compared"])
    found.add("rows of them with other outputs", result["wrong"])
    if not passed(result):
        found.fail(json.dumps(result))
    return found


def main() -> int:
    """Run the check, or a part of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK[0]:,} rows")
    parser.add_argument("--rows", type=int, help=f"how many; {FULL[0]:,} by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", help="folder for what is needed to repeat a difference")
    parser.add_argument("--problem", type=int, help="check this one alone, at the level that SHORE_SIMD says")
    parser.add_argument("--most", type=int, default=FULL[1], help="rows of that problem at most, as in the run")
    parser.add_argument("--work", type=int, nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.seed, *given.work, given.keep)
        return 0
    if given.problem is not None:
        problem = draw_problem(given.seed, given.problem, given.most)
        result = check(problem)
        print(problem.describe(), json.dumps(result, indent=1), sep="\n")
        return 1 if result["different"] or result["wrong"] else 0
    result = run(given.quick, rows=given.rows, seed=given.seed, keep=given.keep, show=True)
    print(json.dumps(result, indent=1))
    return 0 if passed(result) else 1


if __name__ == "__main__":
    sys.exit(main())
