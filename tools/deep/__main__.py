"""All parts one after the other, a summary, and the figures of docs/reliability.md: `make deep`."""

import argparse
import platform
import sys

from deep import builds, certificate, coverage, errors, faults, leaks, properties, sanitizers
from deep.outcome import Outcome, timed

sys.path.insert(0, str(builds.ROOT / "asv_bench" / "benchmarks"))
from pages import table_head, table_row, write_between

PAGE = builds.ROOT / "docs" / "reliability.md"
PARTS = {
    "errors": errors.outcome,
    "certificate": certificate.outcome,
    "leaks": leaks.run,
    "faults": faults.run,
    "properties": properties.run,
    "coverage": coverage.run,
    "sanitizers": sanitizers.run,
}


def run_part(name, quick):
    """The outcome of a part; what it could not do is a failure of it."""
    print(f"{name}:", flush=True)
    try:
        return timed(PARTS[name], quick)
    except (builds.MissingError, RuntimeError, OSError) as error:
        outcome = Outcome(name.capitalize())
        outcome.fail(str(error))
        return outcome


def write_page(outcomes):
    """The figures of the page, and what they were measured on."""
    lines = table_head("", "", "Seconds")
    for outcome in outcomes:
        lines.append(table_row(f"**{outcome.title}**", f"{len(outcome.failures)} failures", f"{outcome.seconds:.0f}"))
        lines += [table_row(what, figure, "") for what, figure in outcome.figures]
    total = sum(outcome.seconds for outcome in outcomes) / 60
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    lines += ["", f"`make deep` on {machine}: {total:.0f} minutes."]
    write_between(PAGE, "figures", lines)
    for outcome in outcomes:
        if outcome.details:
            write_between(PAGE, outcome.title.lower(), outcome.details)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m deep", description="The long checks of shore.")
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; docs/ is left alone then. All by default")
    parser.add_argument("--quick", action="store_true", help="short runs, to see that the parts work")
    arguments = parser.parse_args()
    names = arguments.part or list(PARTS)
    if unknown := set(names) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    outcomes = [run_part(name, arguments.quick) for name in names]
    print("\nSummary")
    for outcome in outcomes:
        print(f"  {outcome.title:<22} {len(outcome.failures):3d} failures {outcome.seconds:6.0f} s")
        for what, figure in outcome.figures:
            print(f"      {what}: {figure}")
    failed = sum(len(outcome.failures) for outcome in outcomes)
    print(f"{failed} failures, {sum(outcome.seconds for outcome in outcomes) / 60:.1f} minutes")
    if not (failed or arguments.part or arguments.quick):
        write_page(outcomes)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
