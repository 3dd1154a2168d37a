"""The text format of the Extreme Classification Repository.

::

    reading.py    `load_xmc`, and `XmcReader`, block by block
      └─► text.py     a file in pieces of whole lines, plain or gzip; rows as the compiled core parses them
    writing.py    `save_xmc`, and `format_rows`, for predictions
"""

from shore.datasets.xmc.reading import XmcReader, load_xmc
from shore.datasets.xmc.writing import format_rows, save_xmc

__all__ = ["XmcReader", "format_rows", "load_xmc", "save_xmc"]
