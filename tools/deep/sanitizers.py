"""The tests on builds with AddressSanitizer and UndefinedBehaviorSanitizer, and the threaded ones with ThreadSanitizer.

`make sanitize` runs all of it, `--quick` the kernels' tests on the first build alone, which needs no clang. There are
no suppressions; the options that are not the defaults are argued in builds.py.
"""

from deep import builds
from deep.outcome import Outcome, main
from deep.running import run_tests

# The tests that call the kernels directly: those of the quick run, and with those below of every level of SIMD.
_QUICK = ("test_decoders.py", "test_head_tail.py", "test_compression.py", "test_transport.py", "datasets/test_xmc.py")
_KERNELS = (*_QUICK, "test_projection.py", "test_baselines.py", "test_solvers.py")
# The tests with more than one thread, of OpenMP or of Python.
_THREADED = (
    "core",
    "test_projection.py",
    "test_decoders.py",
    "test_head_tail.py",
    "test_compression.py",
    "test_solvers.py",
    "test_serving.py",
    "test_served_files.py",
    "test_capi.py",
    "datasets",
    "theory/test_rip.py",
)


def _run(outcome, build, paths, what, **environment):
    passed, skipped, failures = run_tests(paths, environment=build.environment(**environment))
    outcome.add(what, f"{passed:,} passed" + (f", {skipped} skipped" if skipped else ""))
    for words in failures:
        outcome.fail(f"{what}: {words}")


def run(quick=False):
    """Build, run, and look at what was reported."""
    outcome = Outcome("Sanitizers")
    address = builds.make("address")
    if quick:
        _run(outcome, address, _QUICK, "kernels, AddressSanitizer + UBSan")
    else:
        _run(outcome, address, [""], "all tests, AddressSanitizer + UBSan")
        for level in ("avx2", "baseline"):
            _run(outcome, address, _KERNELS, f"kernels, the same, {level}", SHORE_SIMD=level)
    reports = address.findings()
    if not quick:
        thread = builds.make("thread")
        _run(outcome, thread, _THREADED, "threaded tests, ThreadSanitizer")
        reports += thread.findings()
    outcome.add("reports of sanitizers", len(reports))
    for text in reports:
        outcome.fail(text)
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
