"""Data: the paper's synthetic problems, and files of the Extreme Classification Repository."""

from shore.datasets.files import Dataset, load_dataset
from shore.datasets.synthetic import SyntheticProblem, make_synthetic
from shore.datasets.xmc import XmcReader, load_xmc, save_xmc

__all__ = ["Dataset", "SyntheticProblem", "XmcReader", "load_dataset", "load_xmc", "make_synthetic", "save_xmc"]
