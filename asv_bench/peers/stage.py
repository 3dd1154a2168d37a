"""Decoding alone, by shore and by what one would write or use otherwise.

Every method is a call for some rows of B; methods that take milliseconds a row are given few of them. Dense methods run
on the dense matrix of the same Φ.
"""

import time
from functools import partial

import numpy as np
import torch
from benchmarks.problems import KINDS, compressed, sparse_outputs
from scipy import sparse
from sklearn.linear_model import ElasticNet, orthogonal_mp
from threadpoolctl import threadpool_limits

import shore

STEP, MAX_ITER, TOL, L1 = 0.9, 60, 1e-3, 0.1
PAUSE = 0.15  # threads of the last method spin on the cores for a while


def best(V, s):
    """The s largest of every row, without what is not positive."""
    columns = np.argpartition(-V, s - 1, axis=1)[:, :s]
    values = np.maximum(np.take_along_axis(V, columns, axis=1), 0)
    rows = np.repeat(np.arange(len(V)), s)
    return sparse.csr_array((values.ravel(), (rows, columns.ravel())), shape=V.shape)


def torch_rows(values, columns, n_outputs):
    n, s = values.shape
    entries = values.numpy().ravel(), (np.repeat(np.arange(n), s), columns.numpy().ravel())
    return sparse.csr_array(entries, shape=(n, n_outputs))


@torch.no_grad()
def torch_pgd(B, Phi, s):
    """Algorithm 2 on all rows at once, non-negative, as the paper states it: v is dense, and so is every product."""
    v = torch.zeros(B.shape[0], Phi.shape[1])
    older = old = v
    for t in range(1, MAX_ITER + 1):
        moved = v - STEP * ((v @ Phi.T - B) @ Phi)
        values, columns = torch.topk(moved, s, dim=1)
        values.clamp_(min=0)
        older, old, v = old, v, torch.zeros_like(v).scatter_(1, columns, values)
        if t >= 2 and bool(((v - older).norm(dim=1) <= TOL * (0.01 + v.norm(dim=1))).all()):
            break
    return torch_rows(values, columns, Phi.shape[1])


@torch.no_grad()
def torch_fista(B, Phi, s, step):
    """min ½‖Φv - b‖² + λ‖v‖₁ over v ≥ 0 by FISTA, then the s largest; λ is a tenth of what makes v zero."""
    weight = L1 * (B @ Phi).amax(dim=1, keepdim=True)
    v = y = torch.zeros(B.shape[0], Phi.shape[1])
    momentum = 1.0
    for _ in range(MAX_ITER):
        after = (y - step * ((y @ Phi.T - B) @ Phi) - step * weight).clamp_(min=0)
        grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        y = after + (momentum - 1) / grown * (after - v)
        change, v, momentum = (after - v).norm(dim=1), after, grown
        if bool((change <= TOL * (0.01 + v.norm(dim=1))).all()):
            break
    return torch_rows(*torch.topk(v, s, dim=1), Phi.shape[1])


def elastic_net(B, Phi, s):
    found = []
    for b in B:
        weight = L1 * float((b @ Phi).max()) / len(b)
        fitted = ElasticNet(alpha=weight, l1_ratio=0.9, positive=True, fit_intercept=False, max_iter=1000)
        found.append(fitted.fit(Phi, b).coef_)
    return best(np.array(found), s)


def omp(B, Phi, s):
    return sparse.csr_array(np.atleast_2d(orthogonal_mp(Phi, B.T, n_nonzero_coefs=s).T))


def correlation(B, Phi, s):
    return best(B @ Phi, s)


def methods(n_outputs, m, s, threads, *, dense=True, slow=True, few=1.0):
    """The true outputs; and by name how many rows a method is given, and a call that decodes them."""
    Y = sparse_outputs(1024, n_outputs, s)
    calls = {}
    for kind, named in (("gaussian", "Gaussian Φ"), ("sparse_sign", "sparse signs")):
        if kind == "gaussian" and not dense:
            continue
        phi = KINDS[kind](m, n_outputs)
        B = compressed(phi, Y)
        calls[f"shore, {named}"] = 1024, partial(shore.decode, B, phi, s, constraint="nonneg", n_threads=threads)
        if not dense:
            continue
        n, Phi = max(8, int(128 * few)), phi.toarray()
        b, matrix = torch.from_numpy(B[:n].copy()), torch.from_numpy(Phi)
        calls[f"PyTorch loop, {named}"] = n, partial(torch_pgd, b, matrix, s)
        if slow:
            fortran = np.asfortranarray(Phi)
            calls[f"OMP of scikit-learn, {named}"] = 8, partial(omp, B[:8], fortran, s)
        if kind == "sparse_sign":
            continue
        rows = max(64, int(1024 * few))
        calls["one BLAS product ΦᵀB"] = rows, partial(np.matmul, np.ascontiguousarray(Phi.T), B[:rows].T)
        if not slow:
            continue
        calls["correlation in NumPy"] = 256, partial(correlation, B[:256], Phi, s)
        step = 1 / torch.linalg.matrix_norm(matrix, 2) ** 2
        calls["FISTA in PyTorch"] = 32, partial(torch_fista, b[:32], matrix, s, step)
        calls["Elastic Net of scikit-learn"] = 2, partial(elastic_net, B[:2], fortran, s)
    return Y, calls


def measure(n_outputs, m=500, s=3, *, threads, turns=5, **which):
    """A row a method: microseconds per row in every turn, and the share of the true outputs that it finds."""
    Y, calls = methods(n_outputs, m, s, threads, **which)
    torch.set_num_threads(threads)
    results = {}
    with threadpool_limits(threads):
        for name, (n, call) in calls.items():
            found = call()  # warm up
            hits = None
            if sparse.issparse(found):
                hits = float(found.astype(bool).multiply(Y[:n].astype(bool)).sum()) / (n * s)
            results[name] = {"rows": n, "found": hits, "us": []}
        for turn in range(turns):
            for name in list(calls)[:: 1 if turn % 2 else -1]:
                n, call = calls[name]
                time.sleep(PAUSE)
                repeats, started = 0, time.perf_counter()
                while repeats == 0 or time.perf_counter() - started < 0.02:
                    call()
                    repeats += 1
                results[name]["us"].append(1e6 * (time.perf_counter() - started) / (repeats * n))
    return results
