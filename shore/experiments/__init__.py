"""The paper's experiments: `shore experiment synthetic | real | timing`.

::

    command.py ──► synthetic.py, real.py, timing.py    a grid each: what is varied, and what one cell of it measures
                     ├─► cells.py       one cell: fit with one Φ, decode the test rows with every method, measure
                     ├─► store.py       results.csv in the output folder, row by row; a stopped run goes on from it
                     └─► summary.py     report.md: what the paper observed, and whether it was seen here
                           └─► figures.py     PNG figures

Everything is computed from results.csv: figures and report can be drawn again without running anything.
"""

from shore.experiments.real import RealSettings, run_real
from shore.experiments.synthetic import SyntheticSettings, run_synthetic
from shore.experiments.timing import TimingSettings, run_timing

__all__ = ["RealSettings", "SyntheticSettings", "TimingSettings", "run_real", "run_synthetic", "run_timing"]
