"""The model file: a fitted `ShoreRegressor` in the safetensors format.

::

    8 bytes     length of the header
    header      JSON: what safetensors says of every tensor (dtype, shape, place), and `__metadata__`
                    format           "shore model"
                    format_version   "1"
                    shore_version    who wrote it
                    model            JSON: parameters, what fit found, Φ without its numbers, and every tensor's
                                     dtype, shape and SHA-256
                    sha256           of the four above
    tensors     W                    (d, m) float16, float32 or float64, feature-major
                intercept            (m,)
                tables | columns     Φ: sparse signs as compression.h lays them out | (K, m)
                head                 (H,) int64, outputs that own a row, if any do; if all do there are no tables
                feature_names        bytes: a JSON array, if the model has names

and which part does what::

    writing.py       `save`: all of it into a temporary file that takes the place of the old one; `model_bytes`
    reading.py       `load`, and `inspect`, which reports instead of refusing
      ├─► document.py      the metadata and its checksum; parameters, and what fit found
      ├─► compression.py   Φ: its description in the document, and its tensors
      └─► tensors.py       what the document says of tensors; `Tensors`, those of an open file, mapped or read
            └─► header.py      the frame: length, limits, and where every tensor lies
    checks.py        `ModelFileError`, and readers of JSON that raise it, which all of the above use

Nothing that is read is trusted. The header is parsed here and not by safetensors, so that what is accepted is written
down in one place; sizes are Python's integers; every array that is made is as long as bytes of the file that are
there.
"""

from shore.modelfile.checks import ModelFileError
from shore.modelfile.reading import inspect, load
from shore.modelfile.writing import model_bytes, save

__all__ = ["ModelFileError", "inspect", "load", "model_bytes", "save"]
