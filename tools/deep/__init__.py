"""The long checks, whose figures are in docs/reliability.md: `make deep`.

::

    __main__.py      all parts, one after the other; the summary; the figures of the page
      ├─► properties.py     tests/fuzz under hypothesis's profile `deep`
      ├─► coverage.py       fuzzers that follow coverage, on an instrumented build
      │     └─► targets/         what they call: the reader of text, the reader of model files
      ├─► sanitizers.py     the tests on instrumented builds: `make sanitize`
      ├─► faults.py         tests/faults, at length
      ├─► leaks.py          memory over 10,000 cycles of fit, predict, save and load
      ├─► errors.py         forward errors of the solvers against 50 digits
      │     ├─► ill.py           least squares of a prescribed condition
      │     └─► many.py          of many features and outputs, by conjugate gradients
      └─► certificate.py    screening against the loop without it, on 1,000,000 rows
            └─► problems.py      random problems that are made to break it
    builds.py        instrumented builds of the core, in build/deep
    running.py       child processes: pytest with a count of its tests
    outcome.py       what a part reports

Every part is a module with a function of `quick` that returns an `Outcome`, and can be run alone, from the folder
tools: `python -m deep leaks`, or `python -m deep.leaks`.
"""

import os

# Two parts share the cores: threads of OpenMP and of OpenBLAS that wait leave them to others at once. Both libraries
# read this when they are loaded, here and in children.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
