"""The text of the Extreme Classification Repository, read slowly: words, Python's own numbers, exact rounding."""

import re
from fractions import Fraction

import numpy as np

_NUMBER = re.compile(rb"([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")


class Refused(Exception):  # noqa: N818
    """The text is not in the format."""


def nearest_float32(decimal):
    """The float32 nearest to a decimal, ties to even, in exact arithmetic."""
    exact = Fraction(decimal)
    with np.errstate(over="ignore"):
        guess = np.float32(float(decimal))
        around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    if np.isinf(around).any():
        # Past the middle between the largest float and the next power of two, an even number, it is infinity.
        return guess if abs(exact) < Fraction(2**25 - 1) * 2**103 else np.copysign(np.float32(np.inf), guess)
    return min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) & 1))


def number(word, dtype):
    """The number of the dtype nearest to a decimal."""
    found = _NUMBER.fullmatch(word)
    if found is None:
        raise Refused(f"no number: {word!r}")
    nearest = float(word)
    if dtype == np.float32 and 1e-60 < abs(nearest) < 1e60:
        nearest = nearest_float32(word.decode())
    elif dtype == np.float32:
        nearest = nearest * 0 if abs(nearest) < 1 else np.inf
    if np.isinf(nearest):
        raise Refused(f"too large: {word!r}")
    return dtype(nearest)


def index(word, size, base):
    """An index of `size` that count from `base`."""
    if not re.fullmatch(rb"[0-9]{1,18}", word) or not base <= int(word) < base + size:
        raise Refused(f"no index: {word!r}")
    return int(word) - base


def pairs(words, size, base, dtype):
    """{index: value} of words index:value."""
    row = {}
    for word in words:
        first, colon, second = word.partition(b":")
        if not colon:
            raise Refused(f"no colon: {word!r}")
        at = index(first, size, base)
        if at in row:
            raise Refused(f"twice: {at}")
        row[at] = number(second, dtype)
    return row


def read_row(line, header, base, dtype):
    """Features and labels of a line, each as {index: value}."""
    _, d, K, with_values = header
    words = [word for word in re.split(rb"[ \t]", line) if word]
    labels = []
    first = re.match(rb"[0-9]*:", line)
    if words and line[:1] not in b" \t" and (with_values or not first):
        labels = words.pop(0).split(b",")
    if with_values:
        return pairs(words, d, base, dtype), pairs(labels, K, base, dtype)
    found = [index(word, K, base) for word in labels]
    if len(set(found)) < len(found):
        raise Refused("a label twice")
    return pairs(words, d, base, dtype), dict.fromkeys(found, dtype(1))


def read(text, dtype=np.float32, base=0):
    """The rows of X and of Y, each a list of {index: value} without zeros, and the header's (n, d, K)."""
    lines = [line.removesuffix(b"\r") for line in text.removesuffix(b"\n").split(b"\n")]
    found = re.fullmatch(rb"[ \t]*" + rb"[ \t]+".join([rb"([0-9]{1,18})"] * 3) + rb"([ \t]+values)?[ \t]*", lines[0])
    if found is None:
        raise Refused("no header")
    header = (*map(int, found.groups()[:3]), found.group(4) is not None)
    rows = lines[1 : 1 + header[0]]
    if len(rows) < header[0] or any(line.strip(b" \t") for line in lines[1 + header[0] :]):
        raise Refused("another number of rows")
    X, Y = [], []
    for line in rows:
        for matrix, row in zip((X, Y), read_row(line, header, base, dtype), strict=True):
            matrix.append({at: value for at, value in row.items() if value != 0})
    return X, Y, header[:3]
