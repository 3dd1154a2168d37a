"""What the paper's theorems say in numbers: for a choice of sizes, for a given Φ, for data, and for a fitted model."""

from shore.compression import head_size
from shore.theory.bounds import components_for, contraction, delta_for, iterations_for, step_range
from shore.theory.moments import Moments, SampleSizes, sample_sizes
from shore.theory.reporting import Report, Statement, report
from shore.theory.rip import RipEstimate, rip_estimate

__all__ = [
    "Moments",
    "Report",
    "RipEstimate",
    "SampleSizes",
    "Statement",
    "components_for",
    "contraction",
    "delta_for",
    "head_size",
    "iterations_for",
    "report",
    "rip_estimate",
    "sample_sizes",
    "step_range",
]
