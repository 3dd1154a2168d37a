"""What this build is and which instruction set it uses here."""

import os
import warnings

from shore._core._openmp cimport SHORE_OPENMP_VERSION


cdef extern from "simd.h" nogil:
    int SHORE_BASELINE
    int shore_simd_available() noexcept

cdef extern from *:
    """
    #if defined(__clang__)
    #define SHORE_COMPILER "clang " __clang_version__
    #elif defined(__GNUC__)
    #define SHORE_COMPILER "gcc " __VERSION__
    #elif defined(_MSC_VER)
    #define SHORE_STRINGIZE_(x) #x
    #define SHORE_STRINGIZE(x) SHORE_STRINGIZE_(x)
    #define SHORE_COMPILER "msvc " SHORE_STRINGIZE(_MSC_VER)
    #else
    #define SHORE_COMPILER "unknown"
    #endif
    #ifndef SHORE_CYTHON_VERSION
    #define SHORE_CYTHON_VERSION "unknown"
    #endif
    #ifdef SHORE_DEBUG
    #define SHORE_IS_DEBUG 1
    #else
    #define SHORE_IS_DEBUG 0
    #endif
    """
    const char *SHORE_COMPILER
    const char *SHORE_CYTHON_VERSION
    const int SHORE_IS_DEBUG

LEVELS = ("baseline", "avx2", "avx512")

# Set once below, at import, and only read afterwards.
cdef int _level = SHORE_BASELINE


cdef int simd_level() noexcept nogil:
    return _level


def _choose_level(wanted):
    """The level to use: the widest there is, or the one that SHORE_SIMD asks for."""
    cdef int available = shore_simd_available()
    if not wanted:
        return available
    if wanted not in LEVELS:
        warnings.warn(
            f"SHORE_SIMD={wanted!r} is not one of {', '.join(LEVELS)}; using {LEVELS[available]}",
            RuntimeWarning, stacklevel=2)
        return available
    level = LEVELS.index(wanted)
    if level > available:
        warnings.warn(
            f"SHORE_SIMD={wanted!r}, but this machine has {LEVELS[available]} at most; using that",
            RuntimeWarning, stacklevel=2)
        return available
    return level


_level = _choose_level(os.environ.get("SHORE_SIMD", "").strip().lower())


def simd():
    """Name of the instruction set in use, and of the widest one this machine has.

    Examples
    --------
    >>> used, available = simd()
    >>> used in ("baseline", "avx2", "avx512")
    True
    """
    return LEVELS[_level], LEVELS[shore_simd_available()]


def build_info():
    """How the extension modules were compiled, as a dict of strings."""
    return {
        "compiler": SHORE_COMPILER.decode(),
        "cython": SHORE_CYTHON_VERSION.decode(),
        "openmp": str(SHORE_OPENMP_VERSION) if SHORE_OPENMP_VERSION else "no",
        "debug": "yes" if SHORE_IS_DEBUG else "no",
    }


cdef class Guard:
    """A context manager that calls enter(self) and then, whatever comes, leave(self).

    Python hears Ctrl-C where a function written in Python begins, and so before the first line of its `__exit__`. This
    one is not: either nothing was entered, or it is left.

    Parameters
    ----------
    enter, leave : callable
        Both may be interrupted. `leave` is then called once more, and also if `enter` was.
    """

    cdef object enter, leave

    def __init__(self, enter, leave):
        self.enter, self.leave = enter, leave

    def __enter__(self):
        try:
            self.enter(self)
        except BaseException:
            self._leave()
            raise

    def __exit__(self, kind, value, trace):
        self._leave()

    cdef _leave(self):
        try:
            self.leave(self)
        except BaseException:
            self.leave(self)
            raise
