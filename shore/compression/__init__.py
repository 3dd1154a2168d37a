"""Φ: the random matrices that compress K outputs into m numbers.

::

    base.py      `Compression`: products with Φ, the same for all
      ├─► dense.py   `GaussianCompression`, `MatrixCompression`: columns in memory
      └─► signs.py   `SparseSignCompression`, and `HeadTailCompression`, where outputs of much weight own a row
    names.py     compressions by name, with weights from the outputs at hand
"""

from typing import Any

from shore.compression.base import Compression
from shore.compression.dense import GaussianCompression, MatrixCompression
from shore.compression.names import COMPRESSIONS, OutputEnergy, compression_for
from shore.compression.signs import HeadTailCompression, SparseSignCompression, head_size

__all__ = [
    "COMPRESSIONS",
    "Compression",
    "GaussianCompression",
    "HeadTailCompression",
    "MatrixCompression",
    "OutputEnergy",
    "SparseSignCompression",
    "compression_for",
    "head_size",
    "same_compression",
]


def same_compression(one: Any, other: Any) -> bool:
    """Whether both are the same Φ; None is that of the uncompressed model."""
    if type(one) is not type(other) or repr(one) != repr(other):
        return False
    return one is None or one is other or bool(one._equals(other))
