"""Sparse and high-dimensional-output regression.

For each input, a short list of outputs with values, out of tens of thousands to millions of possible ones.
"""

from shore import capi, datasets, metrics, theory
from shore._show_versions import show_versions
from shore._version import __version__
from shore.capi import get_include
from shore.compression import GaussianCompression, HeadTailCompression, MatrixCompression, SparseSignCompression
from shore.constraints import Box, Simplex
from shore.decoders import DecodeInfo, decode
from shore.estimator import NotFittedError, ShoreRegressor
from shore.explanation import Explanation
from shore.modelfile import ModelFileError, load
from shore.predictor import Predictor
from shore.projection import project
from shore.tuning import tune

__all__ = [
    "Box",
    "DecodeInfo",
    "Explanation",
    "GaussianCompression",
    "HeadTailCompression",
    "MatrixCompression",
    "ModelFileError",
    "NotFittedError",
    "Predictor",
    "ShoreRegressor",
    "Simplex",
    "SparseSignCompression",
    "__version__",
    "capi",
    "datasets",
    "decode",
    "get_include",
    "load",
    "metrics",
    "project",
    "show_versions",
    "theory",
    "tune",
]
