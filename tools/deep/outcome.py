"""What a part found: figures for the page, failures if there are any."""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """The result of a part."""

    title: str
    figures: list[tuple[str, str]] = field(default_factory=list)  # what was done, how much of it
    failures: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)  # lines of Markdown, such as a table of its own
    illustrate: Callable[[], None] = lambda: None  # draws its figure, if it has one
    seconds: float = 0.0

    def add(self, what, figure):
        """Note a figure, and say it at once."""
        shown = f"{figure:,}" if isinstance(figure, int) else str(figure)
        self.figures.append((what, shown))
        print(f"  {self.title}: {what}: {shown}", flush=True)

    def fail(self, words):
        """Note a failure, and say it at once."""
        self.failures.append(words)
        print(f"  {self.title}: FAILED: {words}", file=sys.stderr, flush=True)


def timed(run, quick):
    """The outcome of a part, with how long it took."""
    began = time.monotonic()
    outcome = run(quick)
    outcome.seconds = time.monotonic() - began
    return outcome


def main(run, about):
    """The command line of one part."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a short run, as CI makes it")
    outcome = timed(run, parser.parse_args().quick)
    for line in outcome.details:
        print(line)
    print(f"{outcome.title}: {len(outcome.failures)} failures, {outcome.seconds:.0f} s")
    sys.exit(bool(outcome.failures))
