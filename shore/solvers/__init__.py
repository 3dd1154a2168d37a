"""Stage 1: least squares for W, min ‖B - XW‖² + alpha ‖W‖², on dense or CSR rows.

W is feature-major, (d, m). Rows may be weighted and centred: a `Rows` stands for diag(√weight) (X - 1 meanᵀ), and
the targets come weighted and centred to match. CSR rows are never made dense, or only block by block: the
centring enters as a rank-one term wherever they are multiplied.

::

    choice.py    `choose_solver` by cost and memory; `solve` runs the one chosen
      ├─► direct.py        'cholesky' and 'dual': factors, and refinement where they are not accurate
      │     └─► orthogonal.py  singular values of X itself, where its products have lost them
      └─► cg.py            'cg': blocks of columns, on CSR rows by the compiled core
            └─► checking.py    how far off that is
    sums.py      W from XᵀX and XᵀB alone
    units.py     X and targets in powers of two that keep products within the range of numbers
    path.py      many penalties: one spectrum, or conjugate gradients from penalty to penalty
    accuracy.py  when W is good enough to go without a warning
    rows.py      `Rows` and the products with them, which all of the above use
"""

from shore.solvers.accuracy import require_solution, warn_inaccurate
from shore.solvers.cg import conjugate_gradients
from shore.solvers.checking import check_products
from shore.solvers.choice import SOLVERS, choose_solver, memory, solve
from shore.solvers.direct import Factorisation
from shore.solvers.path import path
from shore.solvers.rows import Rows, cross, gram, times, weighted_csr
from shore.solvers.rows import Targets as Targets
from shore.solvers.sums import InaccurateError, solve_normal_equations

__all__ = [
    "SOLVERS",
    "Factorisation",
    "InaccurateError",
    "Rows",
    "check_products",
    "choose_solver",
    "conjugate_gradients",
    "cross",
    "gram",
    "memory",
    "path",
    "require_solution",
    "solve",
    "solve_normal_equations",
    "times",
    "warn_inaccurate",
    "weighted_csr",
]
