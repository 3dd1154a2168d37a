"""Data: the paper's synthetic problems."""

from shore.datasets.synthetic import SyntheticProblem, make_synthetic

__all__ = ["SyntheticProblem", "make_synthetic"]
