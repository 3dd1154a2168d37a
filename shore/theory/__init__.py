"""What the paper's theorems say in numbers: for a choice of sizes, for a given Φ, for data, and for a fitted model."""

from shore.theory.bounds import components_for, contraction, delta_for, iterations_for, step_range

__all__ = [
    "components_for",
    "contraction",
    "delta_for",
    "iterations_for",
    "step_range",
]
