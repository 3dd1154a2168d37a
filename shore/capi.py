"""The C interface, as Python sees it: where it is, and Φ for it.

``shore.h`` in the folder that `get_include` names describes the functions; ``capi.pxd`` beside this file has them for
Cython. Both load the table of functions from the capsule `API`.

Attributes
----------
API : capsule
    Named ``"shore.capi.API"``: a pointer to a ``shore_api``, valid for the life of the process.
ABI_VERSION : int
    Its version, ``SHORE_ABI_VERSION`` of the header. Clients check it when they load the table.
"""

from __future__ import annotations

from pathlib import Path

from shore._core.capi import ABI_VERSION, API, phi_capsule
from shore.compression import Compression

__all__ = ["ABI_VERSION", "API", "get_include", "phi"]


def get_include() -> str:
    """The folder of ``shore.h``, for a compiler's ``-I``.

    Returns
    -------
    str

    Examples
    --------
    >>> import os, shore
    >>> os.listdir(shore.get_include())
    ['shore.h']
    """
    return str(Path(__file__).parent / "include")


def phi(compression: Compression) -> object:
    """Φ for callers in C.

    Parameters
    ----------
    compression : GaussianCompression, SparseSignCompression, HeadTailCompression or MatrixCompression
        E.g. the ``compression_`` of a fitted model. Nothing of it is copied.

    Returns
    -------
    capsule
        Named ``"shore.capi.phi"``: a pointer to a ``shore_phi``, which is valid for as long as the capsule lives,
        whatever becomes of `compression`.

    Examples
    --------
    >>> import shore
    >>> capsule = shore.capi.phi(shore.SparseSignCompression(100, 5000))
    >>> type(capsule).__name__
    'PyCapsule'
    """
    if not isinstance(compression, Compression):
        raise TypeError(
            f"compression must be a compression such as SparseSignCompression, got {type(compression).__name__}; "
            "for an array, pass shore.MatrixCompression(array)"
        )
    return phi_capsule(compression._phi)
