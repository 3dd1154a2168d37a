"""Theorem 3: how many samples are enough for an excess loss ε."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields
from typing import Any, Self

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from shore._core.blas import limit_blas
from shore._core.threads import resolve_n_threads
from shore._validation import check_number, check_size, is_sparse
from shore.compression import Compression
from shore.theory._data import Array, blocks, check_compression, check_pair, columns_of

__all__ = ["Moments", "SampleSizes", "sample_sizes"]


@dataclass(frozen=True)
class Moments:
    """What Theorem 3 asks of the distribution of (x, y) and of Φ.

    M_ab stands for E[a bᵀ], Z* = M_yx M_xx⁻¹ for the best regressor, and W* = ΦZ* for the best compressed one.

    Attributes
    ----------
    n_features, n_outputs, n_components : int
        d, K and m.
    sigma : float
        σ, where (x, y) is σ²-subgaussian.
    mean_x : float
        ‖μ_x‖₂.
    lambda_min : float
        The smallest eigenvalue of M_xx; 0 if it is singular.
    z_norm2, w_norm2, phi_norm2 : float
        ‖Z*‖_F², ‖W*‖_F² and ‖Φ‖_F².
    bias2, compressed_bias2 : float
        ‖μ_y - Z* μ_x‖₂² and ‖Φμ_y - W* μ_x‖₂².
    """

    n_features: int
    n_outputs: int
    n_components: int
    sigma: float
    mean_x: float
    lambda_min: float
    z_norm2: float
    w_norm2: float
    phi_norm2: float
    bias2: float
    compressed_bias2: float

    @classmethod
    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what overflows is refused, not warned of
    def from_data(
        cls, X: Any, Y: Any, compression: Compression, *, sigma: float | None = None, n_threads: int | None = None
    ) -> Self:
        """The moments of a sample, in float64: estimates of the distribution's own.

        Takes a (d, d) matrix and its eigenvectors; neither Y nor Z* is ever held dense as a whole.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (n, d)
        Y : array-like or SciPy sparse matrix of shape (n, K)
        compression : Compression
            Φ.
        sigma : float, optional
            σ, positive. None takes the largest standard deviation of (x, y) in any direction, the root of the largest
            eigenvalue of the sample's covariance: for Gaussians that estimates σ, for others σ may be larger.
        n_threads : int, optional
            Threads to run on; None for the cores this process may use.

        Examples
        --------
        >>> import shore
        >>> from shore.datasets import make_synthetic
        >>> from shore.theory import Moments
        >>> problem = make_synthetic(2000, 10, 500)
        >>> moments = Moments.from_data(problem.X, problem.Y, shore.GaussianCompression(100, 500))
        >>> moments.n_features, moments.n_outputs, moments.n_components
        (10, 500, 100)
        """
        check_compression(compression)
        rows, outputs = check_pair(X, Y)
        n, d = rows.shape
        K, m = compression.n_outputs, compression.n_components
        if outputs.shape[1] != K:
            raise ValueError(f"compression is for {K} outputs, but Y has {outputs.shape[1]} columns")
        if sigma is not None:
            sigma = check_number(sigma, "sigma", "a positive number, or None", 0, math.inf)
        threads = resolve_n_threads(n_threads)
        with limit_blas(threads):
            mean_x, mean_y = _mean(rows), np.asarray(outputs.sum(axis=0)) / n
            gram = _gram(rows) / n
            _require_finite(gram)
            eigenvalues, vectors = linalg.eigh(gram, overwrite_a=True)
            kept = eigenvalues > 10 * d * np.finfo(np.float64).eps * eigenvalues[-1]
            # Z* = M_yx V Λ⁻¹ Vᵀ: without the last factor its norm is the same, and Z* μ_x needs Vᵀμ_x alone.
            inverse, rotated_mean = vectors[:, kept] / eigenvalues[kept], vectors[:, kept].T @ mean_x

            cross, mean_b = np.zeros((d, m)), np.zeros(m)
            for here in blocks(n, max(d, m)):
                B = compression.compress(outputs[here], n_threads=threads).astype(np.float64)
                cross += _double(rows[here]).T @ B
                mean_b += B.sum(axis=0) / n
            w = inverse.T @ cross / n
            z_norm2, bias2 = 0.0, 0.0
            by_output = sparse.csc_array(outputs)
            for here in blocks(K, d):
                product = by_output[:, here].T @ rows
                z = (product.toarray() if is_sparse(product) else product) / n @ inverse
                z_norm2 += float(np.sum(z**2))
                bias2 += float(np.sum((mean_y[here] - z @ rotated_mean) ** 2))
            phi_norm2 = sum(
                float(np.sum(columns_of(compression, np.arange(here.start, here.stop), threads) ** 2))
                for here in blocks(K, m)
            )
            if sigma is None:
                sigma = _largest_deviation(rows, outputs, mean_x, mean_y)
        moments = cls(
            n_features=d,
            n_outputs=K,
            n_components=m,
            sigma=sigma,
            mean_x=float(np.linalg.norm(mean_x)),
            lambda_min=float(eigenvalues[0]) if kept.all() else 0.0,
            z_norm2=z_norm2,
            w_norm2=float(np.sum(w**2)),
            phi_norm2=phi_norm2,
            bias2=bias2,
            compressed_bias2=float(np.sum((mean_b - rotated_mean @ w) ** 2)),
        )
        _require_finite([number for number in astuple(moments) if isinstance(number, float)])
        return moments


def _require_finite(numbers: Any) -> None:
    if not np.isfinite(numbers).all():
        raise ValueError("X or Y is too large: their moments leave the range of float64")


def _double(X: Any) -> Any:
    """Rows to multiply; dense ones in one layout, as BLAS adds up others in another order."""
    return X.astype(np.float64, copy=False) if is_sparse(X) else np.ascontiguousarray(X, dtype=np.float64)


def _mean(X: Any) -> Array:
    total = sum((np.asarray(_double(X[here]).sum(axis=0)) for here in blocks(*X.shape)), np.zeros(X.shape[1]))
    return np.asarray(total / X.shape[0])


def _gram(X: Any) -> Array:
    """XᵀX in float64."""
    if is_sparse(X):
        double = _double(X)
        return np.asarray((double.T @ double).toarray())
    total = np.zeros((X.shape[1], X.shape[1]))
    for here in blocks(*X.shape):
        block = _double(X[here])
        total += block.T @ block
    return total


def _largest_deviation(X: Any, Y: sparse.csr_array, mean_x: Array, mean_y: Array) -> float:
    """√λ_max of the covariance of (x, y), by Lanczos steps."""
    n, d = X.shape
    parts = [slice(0, n)] if is_sparse(X) else list(blocks(n, d))
    double, transposed = _double(X) if is_sparse(X) else X, sparse.csr_array(Y.T)

    def covariance_times(v: Array) -> Array:
        # u := (X - 1 μ_xᵀ) v_x + (Y - 1 μ_yᵀ) v_y sums to 0, so the way back needs no centring
        v = v.ravel()
        u = Y @ v[d:] - (mean_x @ v[:d] + mean_y @ v[d:])
        out = np.zeros(v.size)
        for here in parts:
            block = _double(double[here])
            u[here] += block @ v[:d]
            out[:d] += block.T @ u[here]
        out[d:] = transposed @ u
        out /= n
        return out

    size = d + Y.shape[1]
    start = np.random.default_rng(0).standard_normal(size)
    spread = float(np.linalg.norm(covariance_times(start)))
    _require_finite(spread)
    scale = float(np.abs(mean_x).max() + np.abs(mean_y).max())
    if spread <= 1e-12 * scale**2 * np.linalg.norm(start):  # all rows are the same
        return 0.0
    operator: Any = LinearOperator((size, size), matvec=covariance_times, dtype=np.float64)
    largest = eigsh(operator, k=1, which="LA", v0=start, tol=1e-9, return_eigenvectors=False)
    return math.sqrt(max(0.0, float(largest[0])))


def _square(number: float) -> float:
    return number * number  # infinity where ** would raise


@dataclass(frozen=True)
class SampleSizes:
    """The numbers of samples of Theorem 3, not rounded; infinite if M_xx is singular, and past the range of float64.

    Attributes
    ----------
    n1 : float
        For the matrix error: M̂_xx is near M_xx.
    n2, n2_compressed : float
        For the rescaled approximation error, without and with compression.
    uncompressed, compressed : float
        max(n1, n2) and max(n1, n2_compressed): samples after which the loss is within 4ε of the best.
    """

    n1: float
    n2: float
    n2_compressed: float

    @property
    def uncompressed(self) -> float:
        """max(n1, n2)."""
        return max(self.n1, self.n2)

    @property
    def compressed(self) -> float:
        """max(n1, n2_compressed)."""
        return max(self.n1, self.n2_compressed)


def _check_moments(moments: Moments) -> None:
    for field in fields(moments):
        value, name = getattr(moments, field.name), f"moments.{field.name}"
        if field.name in ("n_features", "n_outputs", "n_components"):
            check_size(value, name)
        elif field.name == "lambda_min":  # rounding may leave it below 0
            check_number(value, name, "a number", -math.inf)
        else:
            check_number(value, name, "a number of at least 0", closed=True)


def sample_sizes(moments: Moments, *, epsilon: float, tau: float = 0.05, C: float = 1.0) -> SampleSizes:
    """How many samples Theorem 3 asks for, so that the loss exceeds the best one by no more than 4ε.

    As the theorem states them, with probability at least 1 - 3τ:

        n₁ = max{64 C² σ⁴/(9 λ_min²)·(d + ln(2/τ)),  32² ‖μ_x‖² σ²/λ_min²·(2√d + √ln(1/τ))²}
        n₂ = max{4 (‖Z*‖² + K)·(d + 2√(d ln(K/τ)) + 2 ln(K/τ))/ε,  4 ‖μ_y - Z*μ_x‖²·d/ε}
        ñ₂ = max{4 (‖W*‖² + ‖Φ‖²)·(d + 2√(d ln(m/τ)) + 2 ln(m/τ))/ε,  4 ‖Φμ_y - W*μ_x‖²·d/ε}

    The paper's proof has σ² in the first terms of n₂ and ñ₂, which the theorem leaves out: read them for data scaled to
    σ = 1 (docs/theory.md). Where M_xx is singular, against Assumption 2, Z* is not unique and all sizes are infinite.

    Parameters
    ----------
    moments : Moments
    epsilon : float
        ε, positive.
    tau : float, default 0.05
        Between 0 and 1/3.
    C : float, default 1.0
        The constant of the concentration inequality for sample covariances, which the paper leaves open. n₁ grows with
        its square.

    Returns
    -------
    SampleSizes

    Examples
    --------
    >>> from shore.theory import Moments, sample_sizes
    >>> moments = Moments(
    ...     n_features=10, n_outputs=1000, n_components=100, sigma=1.0, mean_x=0.0, lambda_min=1.0, z_norm2=50.0,
    ...     w_norm2=50.0, phi_norm2=1000.0, bias2=0.0, compressed_bias2=0.0,
    ... )
    >>> sizes = sample_sizes(moments, epsilon=10.0)
    >>> round(sizes.n1), round(sizes.uncompressed), round(sizes.compressed)
    (97, 20878, 17908)
    """
    if not isinstance(moments, Moments):
        raise TypeError(f"moments must be a Moments, such as Moments.from_data gives, got {type(moments).__name__}")
    epsilon = check_number(epsilon, "epsilon", "a positive number", 0, math.inf)
    tau = check_number(tau, "tau", "a number between 0 and 1/3", 0, 1 / 3)
    C = check_number(C, "C", "a positive number", 0, math.inf)
    _check_moments(moments)
    if moments.lambda_min <= 0:
        return SampleSizes(n1=math.inf, n2=math.inf, n2_compressed=math.inf)
    d = moments.n_features

    def n2(weight: float, size: int, bias2: float) -> float:
        log = math.log(size) - math.log(tau)
        return max(4 * weight * (d + 2 * math.sqrt(d * log) + 2 * log) / epsilon, 4 * bias2 * d / epsilon)

    ratio = moments.sigma / moments.lambda_min
    return SampleSizes(
        n1=max(
            64 * _square(C * ratio * moments.sigma) / 9 * (d + math.log(2) - math.log(tau)),
            _square(32 * moments.mean_x * ratio * (2 * math.sqrt(d) + math.sqrt(-math.log(tau)))),
        ),
        n2=n2(moments.z_norm2 + moments.n_outputs, moments.n_outputs, moments.bias2),
        n2_compressed=n2(moments.w_norm2 + moments.phi_norm2, moments.n_components, moments.compressed_bias2),
    )
