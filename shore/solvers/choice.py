"""Which solver, and one call for all of them."""

from __future__ import annotations

import os

import numpy as np

from shore._core.blas import limit_blas
from shore._progress import Progress
from shore._validation import is_sparse
from shore.solvers.accuracy import require_solution
from shore.solvers.cg import cg_csr, cg_dense
from shore.solvers.checking import check_gradients
from shore.solvers.direct import Factorisation, solve_direct
from shore.solvers.rows import Array, Rows, Targets
from shore.solvers.units import TargetUnits, rows_in_units

__all__ = ["SOLVERS", "choose_solver", "memory", "solve"]

SOLVERS = ("auto", "cholesky", "dual", "cg")


def memory() -> float:
    """Bytes of memory of this machine."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 8e9


def choose_solver(n: int, d: int, m: int, nnz: int | None, itemsize: int, alpha: float) -> str:
    """The solver with the least cost that fits a quarter of the memory.

    Costs are in floating-point operations at the rates seen of each: BLAS 3 at 100 a nanosecond, products of CSR
    rows at 15.

    Parameters
    ----------
    n, d, m : int
        Rows, features and right-hand sides.
    nnz : int or None
        Entries of CSR rows; None for dense rows.
    itemsize : int
        Bytes of a number.
    alpha : float
        0 keeps to direct solvers where they fit.
    """
    entries = n * d if nnz is None else nnz
    rate = 100.0 if nnz is None else 15.0
    products = entries * 2.0 * m
    room = memory() / 4 / itemsize
    costs = {"cg": (40 if alpha > 0 else 400) * 2 * products / rate}
    for name, size in (("cholesky", d), ("dual", n)):
        if float(size) * size <= room:
            own = entries * float(size if nnz is None else entries / max(1, n if name == "cholesky" else d))
            costs[name] = own / rate + (size**3 / 3 + 2.0 * size * size * m) / 100 + products / rate
    if costs.get("cholesky", np.inf) <= costs.get("dual", np.inf):
        costs.pop("dual", None)
    return min(costs, key=lambda name: costs[name])


def solve(
    rows: Rows,
    targets: Targets,
    m: int,
    alpha: float,
    *,
    solver: str,
    tol: float,
    n_threads: int,
    verbose: bool = False,
    factorisation: Factorisation | None = None,
) -> tuple[Array, str, int]:
    """W of shape (d, m), the name of the solver used, and the steps it took (0 for direct ones).

    A `factorisation` of the same rows and alpha is used instead of a new one.
    """
    n, d = rows.shape
    nnz = rows.X.nnz if is_sparse(rows.X) else None
    if factorisation is not None:
        solver = factorisation.solver
    elif solver == "auto":
        solver = choose_solver(n, d, m, nnz, rows.dtype.itemsize, alpha)
    n_iter = 0
    with Progress(f"fit ({solver})", m, show=verbose) as progress:
        if solver in ("cholesky", "dual"):
            if factorisation is None:
                factorisation = Factorisation(rows, alpha, solver, n_threads)
            W = solve_direct(factorisation, targets, m, n_threads, progress)
        else:
            gradients = cg_dense if nnz is None else cg_csr
            scale = rows_in_units(rows, alpha, factors=4)
            rows, alpha = scale.rows, scale.alpha
            units = TargetUnits(targets, m, rows.dtype, scale)
            W, n_iter, converged = gradients(rows, units, m, alpha, tol, n_threads, progress)
            with limit_blas(n_threads):
                check_gradients(rows, units, m, alpha, W, tol, n_iter, converged, n_threads)
            W = units.undo(W)
    W = np.ascontiguousarray(W, dtype=rows.dtype)
    require_solution(rows.dtype, W)
    return W, solver, n_iter
