"""What to paste into a bug report."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

from shore._core.runtime import build_info, simd
from shore._core.threads import available_cores, resolve_n_threads
from shore._version import __version__

__all__ = ["environment", "show_versions"]

_PACKAGES = ("numpy", "scipy", "threadpoolctl", "safetensors", "scikit-learn", "tqdm", "matplotlib", "dask")


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _blas() -> str:
    from threadpoolctl import threadpool_info

    pools = [
        f"{pool['internal_api']} {pool.get('version') or ''} ({pool.get('architecture') or '?'}, "
        f"{pool['num_threads']} threads)"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return "; ".join(pools) or "unknown"


def environment() -> str:
    """What figures depend on, in one line."""
    used, _ = simd()
    packages = ", ".join(f"{name} {_version_of(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return (
        f"shore {__version__} ({used}, {resolve_n_threads()} threads), Python {platform.python_version()}, {packages}"
    )


def show_versions() -> None:
    """Print the versions of shore and of all it stands on, the SIMD level, BLAS and threads.

    Examples
    --------
    >>> import shore
    >>> shore.show_versions()  # doctest: +ELLIPSIS
    shore...
    """
    used, available = simd()
    build = build_info()
    lines = {
        "shore": __version__,
        "python": sys.version.replace("\n", " "),
        "platform": platform.platform(),
        "compiler": build["compiler"],
        "cython": build["cython"],
        "openmp": build["openmp"],
        "debug build": build["debug"],
        "simd": used if used == available else f"{used} (this machine has {available})",
        "threads": f"{resolve_n_threads()} (cores this process may use: {available_cores()})",
        "blas": _blas(),
        **{package: _version_of(package) for package in _PACKAGES},
    }
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"{name:<{width}}  {value}")
