"""All parts one after the other, a summary, and the figures of docs/reliability.md: `make deep`."""

import argparse
import os
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from deep import builds, certificate, coverage, errors, faults, leaks, properties, sanitizers
from deep.outcome import Outcome, timed

sys.path.insert(0, str(builds.ROOT / "asv_bench" / "benchmarks"))
from pages import table_head, table_row, write_between

PAGE = builds.ROOT / "docs" / "reliability.md"
# Each is about one core's work; the longest first.
PARTS = {
    "sanitizers": sanitizers.run,
    "properties": properties.run,
    "coverage": coverage.run,
    "certificate": certificate.outcome,
    "faults": faults.run,
    "errors": errors.outcome,
    "leaks": leaks.run,
}


def run_part(name, quick):
    """The outcome of a part; what it could not do is a failure of it."""
    try:
        return timed(PARTS[name], quick)
    except Exception as error:
        outcome = Outcome(name.capitalize())
        outcome.fail(f"{type(error).__name__}: {error}")
        return outcome


def write_page(outcomes, minutes):
    """The figures of the page, and what they were measured on."""
    lines = table_head("", "", "Seconds")
    for outcome in outcomes:
        lines.append(table_row(f"**{outcome.title}**", f"{len(outcome.failures)} failures", f"{outcome.seconds:.0f}"))
        lines += [table_row(what, figure, "") for what, figure in outcome.figures]
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    lines += ["", f"`make deep` on {machine}: {minutes:.0f} minutes, two parts at a time on {os.cpu_count()} cores."]
    write_between(PAGE, "figures", lines)
    for outcome in outcomes:
        if outcome.details:
            write_between(PAGE, outcome.title.lower(), outcome.details)
        outcome.illustrate()


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m deep", description="The long checks of shore.")
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; docs/ is left alone then. All by default")
    parser.add_argument("--quick", action="store_true", help="short runs, to see that the parts work")
    arguments = parser.parse_args()
    names = arguments.part or list(PARTS)
    if unknown := set(names) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    if not arguments.quick and {"sanitizers", "coverage"}.intersection(names):
        try:
            builds.clang()  # before half an hour has gone
        except builds.MissingError as error:
            sys.exit(f"{parser.prog}: {error}")
    began = time.monotonic()
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        outcomes = list(pool.map(lambda name: run_part(name, arguments.quick), names))
    minutes = (time.monotonic() - began) / 60
    print("\nSummary")
    for outcome in outcomes:
        print(f"  {outcome.title:<22} {len(outcome.failures):3d} failures {outcome.seconds:6.0f} s")
        for what, figure in outcome.figures:
            print(f"      {what}: {figure}")
    failed = sum(len(outcome.failures) for outcome in outcomes)
    print(f"{failed} failures, {minutes:.1f} minutes")
    if not (failed or arguments.part or arguments.quick):
        write_page(outcomes, minutes)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
