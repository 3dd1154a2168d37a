"""Fuzzers that follow coverage, of Python and of the compiled core, under AddressSanitizer and UBSan.

libFuzzer, by way of atheris, changes what it has until new code is reached, and keeps what reached it, in
build/deep/corpus. The two readers of files from elsewhere are its targets. Every run begins with the same few files, so
that its figures are its own. An input that fails is written to build/deep/findings.
"""

import re
import shutil
import subprocess
import sys

import numpy as np

from deep import builds
from deep.outcome import Outcome, main

_SECONDS = {"quick": 20, "long": 180}
# A fuzzer that is slower is at work on something else than the readers.
_LEAST_INPUTS_A_SECOND = 20
_WORDS = {
    "xmc_text": [":", ",", " ", "\\x0a", "\\x0d\\x0a", "values", "e-", "e+", "1e22", "e308", "e-324", "0.", ".5", "-0"],
    "model_file": ["null", "true", "[]", "{}", "-1", "1e999", "NaN", "F16", "F32", "F64", "U16", "I64", "data_offsets"],
}


def _seed_text(folder):
    """Texts of either kind: labels with and without values."""
    for number, text in enumerate(
        [
            "2 3 4\n0,3 1:0.5 2:1e-1\n 0:2\n",
            "2 3 4 values\n0:1.5,3:-5e2 1:0.5\n 0:2\n",
            "3 9 9\r\n1:2\r\n\t\r\n8,1\t0:1 8:123456789012345678901234567890e-20\r\n",
            "1 1 1\n0 0:0.30000000000000004",
        ]
    ):
        for how in (0, 1, 2, 93):
            (folder / f"seed-{number}-{how}").write_bytes(bytes([how]) + text.encode())


def _seed_models(folder):
    """Small models of every compression."""
    import shore

    data = shore.datasets.make_synthetic(30, 4, 12, sparsity=2, snr_db=30, seed=1)
    kinds = {
        "signs": {},
        "gaussian": {"compression": "gaussian", "dtype": np.float64},
        "heads": {"compression": "head_tail", "fit_intercept": True},
        "none": {"compression": None},
        "simplex": {"constraint": shore.Simplex(2.0), "decoder": "fista", "l1": 0.1},
        "box": {"constraint": shore.Box(-1, 2), "decoder": "cd", "alpha": "auto"},
    }
    for name, options in kinds.items():
        model = shore.ShoreRegressor(2, **{"n_components": 8, **options}).fit(data.X, data.Y)
        model.save(folder / f"seed-{name}")
        if name == "signs":
            model.save(folder / "seed-half", weights="float16")


_SEEDS = {"xmc_text": _seed_text, "model_file": _seed_models}


def _fuzz(outcome, build, target, seconds):
    corpus, findings = builds.FOLDER / "corpus" / target, builds.FOLDER / "findings"
    shutil.rmtree(corpus, ignore_errors=True)
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    _SEEDS[target](corpus)
    words = builds.FOLDER / f"{target}.words"
    words.write_text("".join(f'"{word}"\n' for word in _WORDS[target]))
    tests, tools = builds.ROOT / "tests" / "datasets", builds.ROOT / "tools"
    environment = build.environment(PYTHONPATH=f"{build.folder}:{tests}:{tools}")
    command = [sys.executable, "-m", f"deep.targets.{target}", str(corpus), f"-artifact_prefix={findings}/{target}-"]
    command += [f"-max_total_time={seconds}", f"-dict={words}", "-max_len=8192", "-timeout=60", "-rss_limit_mb=4096"]
    print(f"  {target} for {seconds} s ...", flush=True)
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")
    done = re.search(r"Done (\d+) runs", ended.stderr)
    reached = re.findall(r"cov: (\d+) ft: \d+ corp: (\d+)", ended.stderr)
    found = build.findings()
    if ended.returncode or found or done is None or not reached:
        said = found or [ended.stdout[-2000:] + ended.stderr[-6000:]]
        outcome.fail(f"{target} ended with {ended.returncode}: {said}; its input is in {findings}")
        return
    if int(done[1]) < _LEAST_INPUTS_A_SECOND * seconds:
        outcome.fail(f"{target} had no more than {done[1]} inputs in {seconds} s")
    outcome.add(f"{target}: inputs", int(done[1]))
    outcome.add(f"{target}: branches of the code reached", int(reached[-1][0]))
    outcome.add(f"{target}: inputs kept for new ones", int(reached[-1][1]))


def run(quick=False):
    """Fuzz both readers."""
    outcome = Outcome("Fuzzing by coverage")
    build = builds.make("coverage")
    for target in _SEEDS:
        build.clear()
        _fuzz(outcome, build, target, _SECONDS["quick" if quick else "long"])
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
