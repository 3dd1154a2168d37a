"""What was tried, and the pick."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from shore._files import replacing
from shore._validation import check_number
from shore.estimator import ShoreRegressor

__all__ = ["Trial", "Tuning", "pick"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Trial:
    """A model that was tried.

    Attributes
    ----------
    compression : str
        'none' for the uncompressed model.
    n_components : int
        m; of the uncompressed model K.
    alpha : float
    precision, precision_at_1 : float
        At s and at 1, on the held-out rows.
    bytes : int
        Of the model file, at most, without names of features.
    microseconds : float
        Per row, predicted in blocks on the threads given: W times x, and decoding.
    """

    compression: str
    n_components: int
    alpha: float
    precision: float
    precision_at_1: float
    bytes: int
    microseconds: float


@dataclass(frozen=True)
class Tuning:
    """What `tune` found.

    Attributes
    ----------
    trials : tuple of Trial
        All that was measured.
    best : Trial
        The pick: the highest precision at s within the budget, of equal ones the smallest.
    max_bytes, max_microseconds : float or None
        The budget.
    """

    trials: tuple[Trial, ...]
    best: Trial
    max_bytes: float | None
    max_microseconds: float | None
    _template: ShoreRegressor

    def pick(self, max_bytes: float | None = None, max_microseconds: float | None = None) -> Trial:
        """The most precise trial within a budget, of equal ones the smallest.

        Parameters
        ----------
        max_bytes, max_microseconds : float, optional
            None for no bound.
        """
        return pick(self.trials, max_bytes, max_microseconds)

    def model(self, trial: Trial | None = None) -> ShoreRegressor:
        """An unfitted model with the parameters of the pick, or of another trial: fit it to all rows.

        Parameters
        ----------
        trial : Trial, optional
        """
        trial = self.best if trial is None else trial
        if not isinstance(trial, Trial):
            raise TypeError(f"trial must be a Trial, such as `trials` holds, or None, got {type(trial).__name__}")
        named = None if trial.compression == "none" else trial.compression
        given = {**self._template.get_params(), "compression": named, "alpha": trial.alpha}
        return ShoreRegressor(**{**given, "n_components": "auto" if named is None else trial.n_components})

    def frontier(self) -> list[Trial]:
        """The best alpha of every compression and m, in that order."""
        best: dict[tuple[str, int], Trial] = {}
        for trial in self.trials:
            at = trial.compression, trial.n_components
            if at not in best or trial.precision > best[at].precision:
                best[at] = trial
        return list(best.values())

    def to_dict(self) -> dict[str, Array]:
        """The trials column by column, e.g. for a DataFrame."""
        return {field.name: np.array([getattr(t, field.name) for t in self.trials]) for field in fields(Trial)}

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the trials to a file, which is replaced when it is complete.

        Parameters
        ----------
        path : str or path
        """
        text = io.StringIO()
        out = csv.writer(text, lineterminator="\n")
        out.writerow([field.name for field in fields(Trial)])
        out.writerows(astuple(trial) for trial in self.trials)
        with replacing(path) as file:
            file.write(text.getvalue().encode())

    def figure(self, path: str | os.PathLike[str]) -> None:
        """Draw precision against bytes and against time per row; needs matplotlib.

        Parameters
        ----------
        path : str or path
            The PNG to write.
        """
        from shore.tuning.figure import draw  # which needs matplotlib

        draw(self, path)


def pick(trials: Sequence[Trial], max_bytes: float | None, max_microseconds: float | None) -> Trial:
    """The most precise trial within a budget, of equal ones the smallest."""
    for name, limit in (("max_bytes", max_bytes), ("max_microseconds", max_microseconds)):
        if limit is not None:
            check_number(limit, name, "a positive number or None")
    for name, limit, unit in (("bytes", max_bytes, "bytes"), ("microseconds", max_microseconds, "microseconds a row")):
        least = min(trials, key=lambda trial: getattr(trial, name))
        if limit is not None and getattr(least, name) > limit:
            raise ValueError(
                f"max_{name}={limit:g} is too small: the smallest model that was tried takes "
                f"{getattr(least, name):,.6g} {unit}, {least.compression!r} with n_components={least.n_components}"
            )
    within = [
        trial
        for trial in trials
        if (max_bytes is None or trial.bytes <= max_bytes)
        and (max_microseconds is None or trial.microseconds <= max_microseconds)
    ]
    if not within:
        raise ValueError(f"nothing that was tried is within both max_bytes={max_bytes} and max_microseconds="
                         f"{max_microseconds}")  # fmt: skip
    return min(within, key=lambda trial: (-trial.precision, trial.bytes, trial.microseconds))
