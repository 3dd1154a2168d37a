"""How many threads BLAS runs on while a call is in progress: one count for the whole process.

Most BLAS libraries have one number of threads for all that call them. Calls that each noted it, set it and set it
back would, two at a time, leave it as one of them had set it. Here the first call that comes notes the number, the
calls in progress share the least that any of them was given, and the last that leaves puts the number back. It is
never raised: a limit that the caller has set outside holds inside.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from shore._core.runtime import Guard

__all__ = ["limit_blas"]

# Re-entrant: a signal handler may come to run here, on the thread that has it.
_lock = threading.RLock()
# Calls in progress: the thread of each, and how many threads it was given.
_inside: dict[int, tuple[int, int]] = {}
# Numbers to put back, by library and owner, while calls are in progress.
_before: dict[tuple[int, int], int] = {}


@cache
def _libraries() -> list[Any]:
    """The BLAS of NumPy and of SciPy. They were loaded with shore, and what is loaded later is not ours to call."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _owner(library: Any) -> int:
    """Whose number of threads it is: this thread's, of a BLAS on OpenMP, else everyone's."""
    return threading.get_ident() if getattr(library, "threading_layer", None) == "openmp" else 0


def _set(library: Any, number: int) -> None:
    # threadpoolctl, which cannot know of our lock, does nothing in new versions for any but the first thread that asks.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)


def _apply() -> None:
    """Set what the calls in progress ask for; whoever calls has the lock. To do it again does no harm."""
    for key, library in enumerate(_libraries()):
        owner = _owner(library)
        number = _before.get((key, owner))
        if number is None:
            continue
        limits = [n for thread, n in _inside.values() if owner in (0, thread)]
        _set(library, min([number, *limits]))
        if not limits:
            del _before[key, owner]


def _before_fork() -> None:
    """No thread is to set numbers meanwhile: OpenBLAS then has a lock, which nobody would open in the child."""
    _lock.acquire()


def _after_fork_in_parent() -> None:
    _lock.release()


def _after_fork_in_child() -> None:
    """Of all threads only the one that forked is here: the calls of others ended."""
    global _lock
    _lock = threading.RLock()
    here = threading.get_ident()
    for call in [call for call, (thread, _) in _inside.items() if thread != here]:
        del _inside[call]
    for key in [key for key in _before if key[1] not in (0, here)]:
        del _before[key]
    if _before:
        _apply()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def limit_blas(n_threads: int) -> Guard:
    """Hold BLAS to so many threads at most, in a ``with`` block.

    Any number of threads may do so at once, and blocks may lie within each other. What Ctrl-C interrupts is undone.

    Parameters
    ----------
    n_threads : int

    Examples
    --------
    >>> from shore._core.blas import limit_blas
    >>> with limit_blas(1):
    ...     pass
    """

    def enter(guard: Guard) -> None:
        with _lock:
            for key, library in enumerate(_libraries()):
                if (key, _owner(library)) not in _before:
                    _before[key, _owner(library)] = library.get_num_threads()
            _inside[id(guard)] = threading.get_ident(), n_threads
            _apply()

    return Guard(enter, _leave)


def _leave(guard: Guard) -> None:
    with _lock:
        _inside.pop(id(guard), None)
        _apply()
