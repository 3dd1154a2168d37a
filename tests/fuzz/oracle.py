"""What every call must do: answer as it does for plain inputs, to the bit, or refuse and name the argument."""

import dataclasses
import os
import re
from collections import defaultdict

import numpy as np
from inputs import Input
from scipy import sparse

# Inputs tried, by test: {"answered": n, "refused": n}.
COUNTS = defaultdict(lambda: {"answered": 0, "refused": 0})
# Calls under way: see calls.py.
TRYING = []


def count(outcome):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
    COUNTS[test][outcome] += 1


@dataclasses.dataclass
class Refusal:
    """A ValueError or TypeError; anything else that is raised is a defect and goes on to the test."""

    error: Exception

    def names(self, *arguments):
        """Whether the message says one of the names, as a word of its own."""
        return any(re.search(rf"(?<![\w-]){re.escape(name)}(?!\w)", str(self.error)) for name in arguments)


def outcome_of(call):
    """What a call returns, or its refusal."""
    try:
        return call()
    except (ValueError, TypeError) as error:
        if type(error) not in (ValueError, TypeError) and not isinstance(error, ValueError):
            raise
        return Refusal(error)


def tried(call, *arguments, inputs=()):
    """The outcome of one call, counted: a refusal must name one of `arguments`, and no input may have changed."""
    TRYING.append(call)
    try:
        outcome = outcome_of(call)
    finally:
        TRYING.pop()
    for each in inputs:
        assert each.untouched(), f"the input was changed: {each.how}"
    if isinstance(outcome, Refusal):
        count("refused")
        assert outcome.names(*arguments), f"{outcome.error!r} names none of {arguments}"
    else:
        count("answered")
        assert_sound(outcome)
    return outcome


def compared(function, inputs, also=()):
    """`function` of named inputs, against the same of their plain forms; returns that of the plain forms.

    Parameters
    ----------
    function : callable
        Of keywords.
    inputs : dict of Input
        By argument.
    also : tuple of str
        Other arguments, right or wrong, that plain inputs may be refused for; which, the caller looks at.
    """
    wrong = [name for name, each in inputs.items() if each.is_wrong]
    outcome = tried(
        lambda: function(**{name: each.given for name, each in inputs.items()}),
        *(wrong or [*inputs]), *also, inputs=inputs.values(),
    )  # fmt: skip
    if wrong:
        how = ", ".join(inputs[name].how for name in wrong)
        assert isinstance(outcome, Refusal), f"{', '.join(wrong)} ({how}) should have been refused, got {outcome!r}"
        return outcome
    plain = outcome_of(lambda: function(**{name: each.plain for name, each in inputs.items()}))
    how = ", ".join(each.how for each in inputs.values())
    if isinstance(plain, Refusal) or isinstance(outcome, Refusal):
        assert type(plain) is type(outcome), f"plain: {plain!r}; {how}: {outcome!r}"
        return plain
    assert_same(outcome, plain, how)
    return plain


def plainly(value):
    """An argument that needs no other form, as an `Input`."""
    return Input(value, value, "as it is")


# ---------------------------------------------------------------- results


def assert_same(a, b, how=""):
    """The same result to the last bit."""
    assert type(a) is type(b), how
    if sparse.issparse(a):
        assert a.shape == b.shape, how
        for name in ("data", "indices", "indptr"):
            assert_same(getattr(a, name), getattr(b, name), f"{how}: {name}")
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), how
        assert a.tobytes() == b.tobytes(), f"{how}: {a!r} is not {b!r}"
    elif isinstance(a, tuple | list):
        assert len(a) == len(b), how
        for one, other in zip(a, b, strict=True):
            assert_same(one, other, how)
    elif dataclasses.is_dataclass(a):
        for each in dataclasses.fields(a):
            assert_same(getattr(a, each.name), getattr(b, each.name), f"{how}: {each.name}")
    elif isinstance(a, dict):
        assert_same([*a.items()], [*b.items()], how)
    else:
        assert a == b or (a != a and b != b), f"{how}: {a!r} is not {b!r}"  # NaN is NaN


def assert_sound(result):
    """No NaN and no infinity in any sparse result, and its form canonical."""
    if isinstance(result, tuple | list):
        for part in result:
            assert_sound(part)
    elif sparse.issparse(result):
        assert isinstance(result, sparse.csr_array)
        assert np.isfinite(result.data).all()
        assert (result.data != 0).all()
        ends = np.zeros(len(result.data) + 1, dtype=bool)
        ends[result.indptr] = True
        rising = np.diff(result.indices.astype(np.int64), prepend=-1) > 0
        assert (rising | ends[:-1]).all(), "indices are not sorted, or there are duplicates"
        assert result.indptr[-1] == len(result.indices) == len(result.data)
        assert result.indices.max(initial=-1) < result.shape[1]


def assert_at_most(result, sparsity):
    """At most s entries in a row."""
    assert np.diff(result.indptr).max(initial=0) <= sparsity
