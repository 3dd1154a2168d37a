"""What the paper's theorems say in numbers: for a choice of sizes, for a given Φ, for data, and for a fitted model."""

from shore.theory.bounds import components_for, contraction, delta_for, iterations_for, step_range
from shore.theory.rip import RipEstimate, rip_estimate

__all__ = [
    "RipEstimate",
    "components_for",
    "contraction",
    "delta_for",
    "iterations_for",
    "rip_estimate",
    "step_range",
]
