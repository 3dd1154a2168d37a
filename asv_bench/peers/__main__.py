"""The command: python -m peers [part ...] in asv_bench; see the package's docstring."""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

from peers.models import MODELS
from peers.report import broken_promises, write_figures, write_pages

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "figures"
DATA = ROOT.parent / "shared" / "data" / "citeulike-t-tags5"
# K, with dense methods, and the share of their usual rows that these are given
OUTPUTS = {2_000: 1.0, 5_000: 1.0, 10_000: 1.0, 20_000: 1.0, 50_000: 0.5, 100_000: 0.25, 300_000: None, 1_000_000: None}


def write_csv(name, rows):
    with open(FIGURES / name, "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, rows[0], lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


def stage_rows(n_outputs, results):
    for name, measured in results.items():
        for turn, microseconds in enumerate(measured["us"]):
            found = "" if measured["found"] is None else f"{measured['found']:.4f}"
            yield {"outputs": n_outputs, "method": name, "rows": measured["rows"], "turn": turn,
                   "us": f"{microseconds:.3f}", "found": found}  # fmt: skip


def stage(threads, **_):
    from peers.stage import measure

    write_csv("peers-stage.csv", list(stage_rows(20_000, measure(20_000, threads=threads))))


def outputs(threads, **_):
    from peers.stage import measure

    rows = []
    for n_outputs, few in OUTPUTS.items():
        print(f"  K = {n_outputs:,}", file=sys.stderr, flush=True)
        which = {"dense": False} if few is None else {"few": few}
        rows += stage_rows(n_outputs, measure(n_outputs, threads=threads, turns=3, slow=False, **which))
    write_csv("peers-outputs.csv", rows)


def models(threads, data, **_):
    rows = []
    rounds = max(rounds for _, rounds in MODELS.values())
    for turn in range(rounds):
        for name, (_, own) in MODELS.items():
            if turn >= own:
                continue
            print(f"  round {turn + 1}: {name}", file=sys.stderr, flush=True)
            command = [sys.executable, "-m", "peers.one", name, str(data), str(threads)]
            done = subprocess.run(command, cwd=ROOT / "asv_bench", capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{name} failed:\n{done.stderr[-3000:]}")
            measured = json.loads(done.stdout.splitlines()[-1])
            shown = {key: f"{value:.5g}" for key, value in measured.items()}
            rows.append({"data": Path(data).name, "model": name, "round": turn, **shown})
    write_csv("peers-models.csv", rows)


PARTS = {"stage": stage, "outputs": outputs, "models": models, "report": lambda **_: None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[[], *PARTS], help="all by default; 'report' measures nothing")
    parser.add_argument("--data", type=Path, default=DATA if DATA.is_dir() else "generated",
                        help="folder that shore.datasets.load_dataset reads, or 'generated'")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    for part in given.part or PARTS:
        print(part, file=sys.stderr, flush=True)
        PARTS[part](threads=given.threads, data=given.data)
    write_figures(FIGURES)
    write_pages(ROOT, given.threads)
    broken = broken_promises(FIGURES)
    for promise in broken:
        print("BROKEN:", promise)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
