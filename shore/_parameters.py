"""The parameter protocol of scikit-learn, which is not needed for it."""

from __future__ import annotations

import inspect
from typing import Any, Self

__all__ = ["Parameters"]


class Parameters:
    """A regressor whose parameters are the arguments of its constructor, kept as they came under the same names."""

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters by name."""
        known = self._parameter_names()
        for name in params:
            if name not in known:
                raise ValueError(f"{name!r} is not a parameter of {type(self).__name__}; it has {', '.join(known)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self).__init__).parameters.items()}
        given = [
            f"{name}={value!r}" for name, value in self.get_params().items() if repr(value) != repr(defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks; only scikit-learn calls it."""
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True, one_d_labels=False, two_d_labels=True, multi_output=True,
                                   single_output=False),
            regressor_tags=RegressorTags(poor_score=True),
            input_tags=InputTags(sparse=True),
        )  # fmt: skip
