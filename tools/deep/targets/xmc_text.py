"""Text of the Extreme Classification Repository: read, or refused, as the slow reader of the tests does it.

What is read is written again, and must read back to the bit; and block by block it must be the same.
"""

import io
import re
import sys
import warnings

import atheris

with atheris.instrument_imports(include=["shore.datasets.xmc"]):
    import shore.datasets
    from shore.datasets.xmc import text as xmc_text

import numpy as np
import slow_xmc

warnings.simplefilter("error")


def rows_of(matrix):
    """[{index: value}] of a canonical CSR matrix."""
    matrix.check_format(full_check=True)
    assert matrix.has_canonical_format
    bounds = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    return [dict(zip(matrix.indices[a:b].tolist(), matrix.data[a:b], strict=True)) for a, b in bounds]


def bits(rows):
    """Something that is equal if and only if the bits are."""
    return [{index: value.tobytes() for index, value in row.items()} for row in rows]


def check(data):
    """One input; its first byte says how to read the rest."""
    how, text = (data[0], data[1:]) if data else (0, b"")
    if text[:2] == b"\x1f\x8b":  # gzip, which is Python's own
        return
    dtype, base, rows = (np.float32, np.float64)[how & 1], how >> 1 & 1, 1 + (how >> 4)
    xmc_text._CHUNK_BYTES = 4 << (how >> 2 & 3)  # reads end anywhere in a line
    options = {"dtype": dtype, "index_base": base}
    expected = refused = None
    try:
        expected = slow_xmc.read(text, dtype, base)
    except slow_xmc.Refused as error:
        refused = error
    try:
        X, Y = shore.datasets.load_xmc(io.BytesIO(text), **options)
    except ValueError as error:
        if refused is None or not re.match(r"<file>:\d+: ", str(error)):
            raise
        return
    assert refused is None, f"{text!r} was read, but {refused}"
    assert (X.shape, Y.shape) == ((expected[2][0], expected[2][1]), (expected[2][0], expected[2][2]))
    assert bits(rows_of(X)) == bits(expected[0]), text
    assert bits(rows_of(Y)) == bits(expected[1]), text
    again = io.BytesIO()
    shore.datasets.save_xmc(again, X, Y)
    for whole, reread in zip((X, Y), shore.datasets.load_xmc(io.BytesIO(again.getvalue()), dtype=dtype), strict=True):
        assert reread.shape == whole.shape
        assert bits(rows_of(reread)) == bits(rows_of(whole)), text
    with shore.datasets.XmcReader(io.BytesIO(text), rows=rows, **options) as reader:
        blocks = list(reader)
    for which, whole in enumerate((X, Y)):
        assert bits([row for block in blocks for row in rows_of(block[which])]) == bits(rows_of(whole)), text


atheris.Setup(sys.argv, check)
atheris.Fuzz()
