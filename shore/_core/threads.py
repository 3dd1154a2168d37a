"""The one place that says how many threads a call runs on."""

from __future__ import annotations

import math
import operator
import os
from functools import cache
from pathlib import Path

from shore._core.runtime import build_info

__all__ = ["available_cores", "resolve_n_threads"]

# A process that was forked after this import has another id. OpenMP's thread pool does not survive a fork, so
# there every call runs on one thread.
_IMPORTED_IN = os.getpid()
_HAS_OPENMP = build_info()["openmp"] != "no"
# Threads that a caller gets who asks for them, whatever the machine.
_ALWAYS_GRANTED = 64


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _quota_v2(folder: Path) -> float:
    """Cores that a cgroup v2 folder grants: "max 100000" or "150000 100000" in cpu.max."""
    words = (_read(folder / "cpu.max") or "").split()
    if len(words) < 2 or words[0] == "max":
        return math.inf
    try:
        quota, period = float(words[0]), float(words[1])
    except ValueError:
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf


def _quota_v1(folder: Path) -> float:
    """The same for cgroup v1, where -1 means no limit."""
    try:
        quota = float(_read(folder / "cpu.cfs_quota_us") or -1)
        period = float(_read(folder / "cpu.cfs_period_us") or -1)
    except ValueError:
        return math.inf
    return quota / period if quota > 0 and period > 0 else math.inf


def cgroup_cores(root: Path = Path("/")) -> float:
    """CPU quota of this process in cores: the least over its control group and all groups above it.

    Parameters
    ----------
    root : Path
        Where /proc and /sys are found; a test puts another tree here.

    Returns
    -------
    float
        Infinity where no quota is set or there are no control groups.
    """
    quota = math.inf
    mount = root / "sys/fs/cgroup"
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            read, tops = _quota_v2, [mount, mount / "unified"]
        elif "cpu" in controllers.split(","):
            read, tops = _quota_v1, [mount / controllers, mount / "cpu"]
        else:
            continue
        inside = [part for part in path.split("/") if part not in ("", "..")]
        for top in tops:
            for depth in range(len(inside) + 1):
                quota = min(quota, read(top.joinpath(*inside[:depth])))
    return quota


@cache
def _cgroup_cores_cached() -> float:
    return cgroup_cores()


def _openmp_limit() -> float:
    """OMP_NUM_THREADS, whose first number counts where it is a list; infinity if it is unset or no number."""
    try:
        limit = int(os.environ.get("OMP_NUM_THREADS", "").split(",")[0])
    except ValueError:
        return math.inf
    return limit if limit > 0 else math.inf


def available_cores() -> int:
    """Cores that this process may use: its affinity, its cgroup quota (rounded up) and OMP_NUM_THREADS."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _cgroup_cores_cached(), _openmp_limit())))


def resolve_n_threads(n_threads: int | None = None) -> int:
    """How many threads to run on, for the `n_threads` that a user passed.

    Parameters
    ----------
    n_threads : int or None
        None for all cores this process may use. More than 64 and than four times those cores count as the larger of
        these: results do not depend on it.

    Returns
    -------
    int
        At least 1; always 1 in a forked child and in a build without OpenMP.
    """
    if n_threads is None:
        wanted = available_cores()
    else:
        try:
            wanted = operator.index(n_threads)
        except TypeError:
            raise TypeError(
                f"n_threads must be a positive integer or None, got {n_threads!r} of type {type(n_threads).__name__}"
            ) from None
        if isinstance(n_threads, bool) or wanted < 1:
            raise ValueError(f"n_threads must be a positive integer or None, got {n_threads!r}")
    if not _HAS_OPENMP or os.getpid() != _IMPORTED_IN:
        return 1
    if wanted <= _ALWAYS_GRANTED:
        return wanted
    # More than this helps nobody, and where the system refuses a thread, OpenMP ends the process.
    return min(wanted, max(_ALWAYS_GRANTED, 4 * available_cores()))
