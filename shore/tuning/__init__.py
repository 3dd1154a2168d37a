"""Which m, alpha and compression: measured on held-out rows, with a pick for a budget.

::

    search.py        `tune`: fits all Φ of a group at once, and measures them penalty by penalty
      ├─► candidates.py  what to try, by how long model files would be
      └─► result.py      `Tuning`, its trials, and the pick
            └─► figure.py    precision against bytes and time
"""

from shore.tuning.result import Trial, Tuning
from shore.tuning.search import tune

__all__ = ["Trial", "Tuning", "tune"]
