import gzip
import io
import itertools
import locale
import random
import re
import struct
import tracemalloc
from decimal import Decimal
from fractions import Fraction

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import reference
import slow_xmc
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse
from slow_xmc import nearest_float32

from shore._core.xmc import parse_number
from shore.datasets import XmcReader, load_xmc, save_xmc

ROWS = b"3 4 5\n0,3 1:0.5 3:-2\n 0:1e-1\n4\n"


def load(text, **options):
    return load_xmc(io.BytesIO(text), **options)


def saved(X, Y):
    file = io.BytesIO()
    save_xmc(file, X, Y)
    return file.getvalue()


def random_csr(n, columns, density):
    rng = np.random.default_rng(0)
    return sparse.csr_array(rng.random((n, columns)) * (rng.random((n, columns)) < density))


def assert_reads(text, X, Y, **options):
    for found, expected in zip(load(text, **options), (X, Y), strict=True):
        expected = np.asarray(expected, dtype=options.get("dtype", np.float32))
        reference.assert_canonical(found, expected.shape, expected.shape[1], expected.dtype)
        np.testing.assert_array_equal(found.toarray(), expected)


# ---- the format ----


@pytest.mark.parametrize(
    ("text", "X", "Y"),
    [
        (b"1 2 3\n0,2 0:1 1:2.5\n", [[1, 2.5]], [[1, 0, 1]]),
        (b"1 2 3\n0,2 0:1 1:2.5", [[1, 2.5]], [[1, 0, 1]]),  # no newline at the end
        (b"1 2 3\r\n0,2 0:1 1:2.5\r\n", [[1, 2.5]], [[1, 0, 1]]),
        (b"1 2 3 \n0,2\t0:1  \t 1:2.5 \t\n", [[1, 2.5]], [[1, 0, 1]]),
        (b" 1\t2 3\n0,2 0:1 1:2.5\n\n \t\n\r\n", [[1, 2.5]], [[1, 0, 1]]),  # blank lines behind
        (b"1 2 3\n2,0 1:2.5 0:1\n", [[1, 2.5]], [[1, 0, 1]]),  # in any order
        (b"1 2 3\n 0:1\n", [[1, 0]], [[0, 0, 0]]),
        (b"1 2 3\n\t0:1\n", [[1, 0]], [[0, 0, 0]]),
        (b"1 2 3\n0:1\n", [[1, 0]], [[0, 0, 0]]),
        (b"1 20 3\n13:1\n", [[0] * 13 + [1] + [0] * 6], [[0, 0, 0]]),  # a feature that would be no label
        (b"1 2 3\n1\n", [[0, 0]], [[0, 1, 0]]),
        (b"1 2 3\n1 \r\n", [[0, 0]], [[0, 1, 0]]),
        (b"3 2 3\n\n0 1:3\n\n", [[0, 0], [0, 3], [0, 0]], [[0, 0, 0], [1, 0, 0], [0, 0, 0]]),
        (b"2 2 3\n \r\n\r\n", [[0, 0], [0, 0]], [[0, 0, 0], [0, 0, 0]]),
        (b"1 2 3\n0 0:0 1:-0.0\n", [[0, 0]], [[1, 0, 0]]),  # zeros are not stored
        (b"1 2 3\n0 0:1e-60\n", [[0, 0]], [[1, 0, 0]]),  # nor what float32 rounds to zero
        (b"0 2 3\n", np.zeros((0, 2)), np.zeros((0, 3))),
        (b"0 0 0", np.zeros((0, 0)), np.zeros((0, 0))),
        (b"1 0 0\n\n", np.zeros((1, 0)), np.zeros((1, 0))),
        (b"2 2 3 values\n0:0.5,2:-3 0:1\n 1:7\n", [[1, 0], [0, 7]], [[0.5, 0, -3], [0, 0, 0]]),
        (b"2 2 3 values\n2:1e1,1:2,0:0\n0:0\n", [[0, 0], [0, 0]], [[0, 2, 10], [0, 0, 0]]),
        (b"1 2 3\n007 000:1\n".replace(b"7", b"1"), [[1, 0]], [[0, 1, 0]]),
        (b"1 5 3\n0 0:1. 1:.5 2:+1 3:1E-5 4:-2.5e+01\n", [[1, 0.5, 1, np.float32(1e-5), -25]], [[1, 0, 0]]),
    ],
)
def test_what_is_read(text, X, Y):
    assert_reads(text, X, Y)
    assert_reads(gzip.compress(text), X, Y)


def test_indices_may_begin_at_one():
    assert_reads(b"1 2 3\n1,3 2:1\n", [[0, 1]], [[1, 0, 1]], index_base=1)
    assert_reads(b"1 2 3 values\n1:4,3:5 2:1\n", [[0, 1]], [[4, 0, 5]], index_base=1)


def test_more_columns_than_int32_counts():
    X, Y = load(b"1 3000000000 5\n0 2999999999:1\n")
    assert (X.indices.dtype, Y.indices.dtype) == (np.int64, np.int32)
    assert (X.shape, X.indices.tolist()) == ((1, 3000000000), [2999999999])
    X, Y = load(b"1 5 3000000000\n2999999999 1:1\n")
    assert (X.indices.dtype, Y.indices.dtype) == (np.int32, np.int64)
    assert Y.indices.tolist() == [2999999999]


def test_paths_and_files(tmp_path):
    X, Y = load(ROWS)
    for name in ("a.txt", "a.txt.gz", "gzip-by-content"):
        path = tmp_path / name
        path.write_bytes(ROWS if name == "a.txt" else gzip.compress(ROWS[:9]) + gzip.compress(ROWS[9:]))
        for source in (path, str(path)):
            for found, expected in zip(load_xmc(source), (X, Y), strict=True):
                reference.assert_same_bits(found, expected)
        with open(path, "rb", buffering=0) as file:
            reference.assert_same_bits(load_xmc(file)[0], X)
    with pytest.raises(FileNotFoundError):
        load_xmc(tmp_path / "none")
    with pytest.raises(TypeError, match="binary mode"):
        load_xmc(io.StringIO("1 1 1"))
    with pytest.raises(TypeError, match="path must be a str"):
        load_xmc(3)
    with pytest.raises(TypeError, match="path must be a str"):
        XmcReader(3)
    with pytest.raises(TypeError, match="path must be a str"):
        save_xmc(3, X, Y)
    with pytest.raises(TypeError, match="path must be a file opened in binary mode, but its write takes no bytes"):
        save_xmc(io.StringIO(), X, Y)
    for use in (load_xmc, XmcReader, lambda path: save_xmc(path, X, Y)):
        with pytest.raises(ValueError, match="path must not hold NUL characters"):
            use("a\0b")


@pytest.mark.parametrize("wrong", [2, True, "0", None, np.array([0, 1]), [0]])
def test_wrong_bases(wrong):
    with pytest.raises(ValueError, match="index_base must be 0 or 1"):
        load_xmc(io.BytesIO(ROWS), index_base=wrong)


class Trickle(io.RawIOBase):
    """A file that gives one byte at a time."""

    def __init__(self, data):
        self.data = io.BytesIO(data)

    def read(self, size=-1):
        return self.data.read(min(size, 1))


def test_names_as_long_as_names_can_be(tmp_path):
    path = tmp_path / ("é" * 120 + ".txt")  # 244 bytes of 255
    save_xmc(path, np.eye(2), np.eye(2))
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    assert load_xmc(path)[0].shape == (2, 2)


def test_files_may_give_less_than_is_asked_for():
    for text in (ROWS, gzip.compress(ROWS)):
        for found, expected in zip(load_xmc(Trickle(text)), load(ROWS), strict=True):
            reference.assert_same_bits(found, expected)
    with pytest.raises(ValueError, match="expected the header"):
        load_xmc(Trickle(b"3"))


@pytest.mark.parametrize("size", range(1, 45))
def test_reads_end_anywhere(size, monkeypatch):
    expected = load(ROWS)
    monkeypatch.setattr("shore.datasets.xmc.text._CHUNK_BYTES", size)
    for ending in (b"\n", b"\r\n"):
        for found, matrix in zip(load(ROWS.replace(b"\n", ending)), expected, strict=True):
            reference.assert_same_bits(found, matrix)
    with pytest.raises(ValueError, match=re.escape("<file>:4: label 9 is out of range")):
        load(ROWS.replace(b"\n4\n", b"\n9\n"))


@pytest.mark.parametrize("size", [100, 1000, 30_000])
def test_arrays_grow(size, monkeypatch):
    rng = np.random.default_rng(0)
    # the last rows are the longest: what the first ones let expect is too little
    longer = np.linspace(0, 1, 300)[:, None]
    X = sparse.csr_array(rng.random((300, 300)) * (rng.random((300, 300)) < longer / 2))
    Y = sparse.csr_array((rng.random((300, 40)) < longer).astype(float))
    text = saved(X, Y)
    monkeypatch.setattr("shore.datasets.xmc.text._CHUNK_BYTES", size)
    found = load(text, dtype=np.float64)
    reference.assert_same_bits(found[0], X)
    reference.assert_same_bits(found[1], Y)
    owner = found[0].data if found[0].data.base is None else found[0].data.base
    assert owner.size == X.nnz  # the room to grow was given back


# ---- block by block ----


def stacked(blocks):
    return tuple(sparse.csr_array(sparse.vstack(parts, format="csr")) for parts in zip(*blocks, strict=True))


@pytest.mark.parametrize("chunk", [1, 7, 300, 1 << 22])
@pytest.mark.parametrize("rows", [None, 1, 2, 7, 40, 41, 1000])
def test_blocks_are_the_rows_of_the_file(rows, chunk, monkeypatch):
    monkeypatch.setattr("shore.datasets.xmc.text._CHUNK_BYTES", chunk)
    X = random_csr(40, 9, 0.3)
    text = saved(X, X > 0.5) + b"\n \n"
    for packed in (text, gzip.compress(text)):
        with XmcReader(io.BytesIO(packed), rows=rows, dtype=np.float64) as reader:
            assert (reader.n_rows, reader.n_features, reader.n_outputs, reader.name) == (40, 9, 9, "<file>")
            blocks = list(reader)
        if rows is not None:
            assert [x.shape[0] for x, _ in blocks[:-1]] == [rows] * (len(blocks) - 1)
        for x, y in blocks:
            reference.assert_canonical(x, (len(y.indptr) - 1, 9), 9, np.float64)
        for found, expected in zip(stacked(blocks), load(text, dtype=np.float64), strict=True):
            reference.assert_same_bits(found, expected)


def test_blocks_before_a_wrong_line_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("shore.datasets.xmc.text._CHUNK_BYTES", 8)
    path = tmp_path / "f.txt"
    path.write_bytes(ROWS.replace(b"\n4\n", b"\n9\n"))
    with XmcReader(path, rows=1) as reader:
        assert [next(reader)[1].nnz for _ in range(2)] == [2, 0]
        with pytest.raises(ValueError, match=re.escape(f"{path}:4: label 9 is out of range")):
            next(reader)
    path.write_bytes(ROWS[:-2])
    with XmcReader(path) as reader, pytest.raises(ValueError, match=r":3: the header says 3 rows, but .* after 2"):
        list(reader)
    path.write_bytes(b"1 2")
    with pytest.raises(ValueError, match=re.escape(f"{path}:1: expected the header")):
        XmcReader(path)
    with pytest.raises(ValueError, match="<file>:1: the gzip data is damaged"):
        XmcReader(io.BytesIO(gzip.compress(ROWS)[:12]))
    for wrong, words in (({"rows": 0}, "rows must be"), ({"index_base": 2}, "index_base must be")):
        with pytest.raises(ValueError, match=words):
            XmcReader(path, **wrong)
    with XmcReader(io.BytesIO(b"0 2 3\n")) as reader:
        assert list(reader) == []


@pytest.mark.parametrize("rows", [None, 1])
def test_all_rows_come_once_and_before_any_block(rows):
    with XmcReader(io.BytesIO(ROWS), rows=rows) as reader:
        reference.assert_same_bits(reader.read()[0], load(ROWS)[0])
        assert list(reader) == []
        with pytest.raises(ValueError, match="<file>: read gives all rows, but some or all were given already"):
            reader.read()
    with XmcReader(io.BytesIO(ROWS), rows=rows) as reader:
        next(reader)
        with pytest.raises(ValueError, match="<file>: read gives all rows, but some or all were given already"):
            reader.read()


def test_memory_does_not_grow_with_the_file():
    line = b"0,3 1:0.5 3:-2\n"
    peaks = []
    for n in (100_000, 1_000_000):  # 1.5 and 15 MB of text
        with XmcReader(io.BytesIO(b"%d 4 5\n" % n + line * n), rows=1000) as reader:
            tracemalloc.start()
            assert sum(x.shape[0] for x, _ in reader) == n
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0]


# ---- refusals ----


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (b"", 1, "expected the header 'n d K', got an empty file"),
        (b"\n", 1, "expected the header 'n d K', got an empty line"),
        (b"0,3 1:0.5\n", 1, "expected the header 'n d K' of three non-negative integers"),
        (b"1 2\n", 1, "got '1 2'"),
        (b"1 2 -3\n", 1, "got '1 2 -3'"),
        (b"1 2 3.0\n", 1, "got '1 2 3.0'"),
        (b"1 2 3 4\n", 1, "got '1 2 3 4'"),
        (b"1 2 3 value\n", 1, "'values'"),
        (b"1 2 9999999999999999999\n", 1, "header"),
        (b"PK\x03\x04\xff" + b"x" * 100, 1, "xxx...'"),
        (b"2 2 3\n\n3 0:1\n", 3, "label 3 is out of range: the header says 3 of them, 0 to 2. The file looks 1-based"),
        (b"1 2 3\n2 2:1\n", 2, "feature 2 is out of range: the header says 2 of them, 0 to 1. The file looks 1-based"),
        (b"1 2 3\n2 3:1\n", 2, "feature 3 is out of range: the header says 2 of them, 0 to 1$"),
        (b"1 0 3\n2 3:1\n", 2, "feature 3 is out of range: the header says 0 of them$"),
        (b"1 2 3\n2 123456789012345678901234567890:1\n", 2, "feature 123456789012345678901234567890 is out of range"),
        (b"1 2 3\n18446744073709551616\n", 2, "label 18446744073709551616 is out of range"),
        (b"1 2 3\n-1 0:1\n", 2, "a negative index in '-1'"),
        (b"1 2 3\n1 -1:1\n", 2, "a negative index in '-1:1'"),
        (b"1 2 3\n1 0:nan\n", 2, "values must be finite, got '0:nan'"),
        (b"1 2 3\n1 0:-Inf\n", 2, "values must be finite, got '0:-Inf'"),
        (b"1 2 3\n1 1:1e999\n", 2, "the value of 1 is too large for float32"),
        (b"1 2 3\n1 1:-1e39\n", 2, "the value of 1 is too large for float32"),
        (b"1 2 3 values\n1:1e39\n", 2, "the value of 1 is too large for float32"),
        (b"1 2 3 values\n1:1e999\n", 2, "the value of 1 is too large for float32"),
        (b"1 2 3\n1 0:\n", 2, "a value is missing behind ':' in '0:'"),
        (b"1 2 3\n1 0: 1:2\n", 2, "a value is missing behind ':' in '0:'"),
        (b"1 2 3\n1 0:\r\n", 2, "a value is missing"),
        (b"1 2 3 values\n1:,2:1\n", 2, "a value is missing"),
        (b"1 2 3 values\n1,2:1\n", 2, "expected 'index:value', got '1,2:1'"),
        (b"1 2 3 values\n1:1,2:x\n", 2, "expected a decimal number behind ':', got '2:x'"),
        (b"1 2 3 values\n1:nan,2:x\n", 2, "values must be finite, got '1:nan,2:x'"),
        (b"1 2 3\n1 0:one\n", 2, "expected a decimal number behind ':', got '0:one'"),
        (b"1 2 3\n1 0:1x\n", 2, "expected a decimal number"),
        (b"1 2 3\n1 0:1,5\n", 2, "expected a decimal number"),
        (b"1 2 3\n1 0:1_0\n", 2, "expected a decimal number"),
        (b"1 2 3\n1 0:0x1p3\n", 2, "expected a decimal number"),
        (b"1 2 3\n1 0:1e\n", 2, "expected a decimal number"),
        (b"1 2 3\n1 0:1e+\n", 2, "expected a decimal number"),
        (b"1 2 3\n1 0:.\n", 2, "expected a decimal number"),
        (b"1 2 3\n1 0:-\n", 2, "expected a decimal number"),
        (b"1 2 3\n1 0:1\r1:1\n", 2, "expected a decimal number"),
        (b"1 2 3\n1 0:1:1\n", 2, "expected a decimal number"),
        (b"1 2 3\n1 0\n", 2, "expected 'index:value', got '0'"),
        (b"1 2 3\n1 :1\n", 2, r"expected an index \(digits\), got ':1'"),
        (b"1 2 3\n1, 0:1\n", 2, "expected an index .*, got a blank"),
        (b"1 2 3\n,1 0:1\n", 2, "expected an index .*, got ',1'"),
        (b"1 2 3\nx 0:1\n", 2, "expected an index .*, got 'x'"),
        (b"1 2 3\n1;2 0:1\n", 2, "expected ',' or a blank behind label 1, got '1;2'"),
        (b"1 2 3\n1,2:1 0:1\n", 2, "expected ',' or a blank behind label 2, got '2:1'"),
        (b"1 2 3\n1\0 0:1\n", 2, "a NUL byte"),
        (b"1 2 3\n1 0:1\0\n", 2, "a NUL byte"),
        (b"1 2 3\n1 0:1\n\0", 3, "a NUL byte"),
        (b"1 2 3\n1 0:1 \xff\n", 2, "expected an index"),
        (b"2 2 3\n1 0:1\n1 0:1 1:1 0:2\n", 3, "feature 0 is there twice"),
        (b"2 2 3\n1 0:1\n1 0:0 0:2\n", 3, "feature 0 is there twice"),
        (b"1 2 3\n2,1,2 0:1\n", 2, "label 2 is there twice"),
        (b"2 2 3\n1 0:1\n", 2, "the header says 2 rows, but the file ends after 1"),
        (b"900000000000000000 2 3\n", 1, "the header says 900000000000000000 rows, but the file ends after 0"),
        (b"1 2 3\n1 0:1\n\n2 0:1\n", 4, "the header says 1 rows, but more follow"),
        (b"0 2 3\n1 0:1\n", 2, "the header says 0 rows, but more follow"),
    ],
)
def test_refusals_name_the_line(text, line, words, tmp_path):
    path = tmp_path / "f.txt"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}:{line}: .*{words}"):
        load_xmc(path)


def test_refusals_with_indices_from_one():
    with pytest.raises(ValueError, match=r"<file>:2: feature 0 is out of range: .* 1 to 2. The file looks 0-based"):
        load(b"1 2 3\n1 0:1\n", index_base=1)
    with pytest.raises(ValueError, match=r"<file>:2: label 0 is out of range: .* 1 to 3. The file looks 0-based"):
        load(b"1 2 3\n0 1:1\n", index_base=1)
    with pytest.raises(ValueError, match="<file>:2: label 3 is there twice"):
        load(b"1 2 3\n3,3 1:1\n", index_base=1)
    with pytest.raises(ValueError, match="<file>:2: feature 2 is there twice"):
        load(b"1 2 3\n3 2:1 2:1\n", index_base=1)
    with pytest.raises(ValueError, match="the value of 2 is too large for float32"):
        load(b"1 2 3\n3 2:1e40\n", index_base=1)


@pytest.mark.parametrize("base", [2, -1, "0", None, True])
def test_bad_arguments(base):
    with pytest.raises(ValueError, match="index_base must be 0 or 1"):
        load(ROWS, index_base=base)
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        load(ROWS, dtype=np.int32)


def test_damaged_gzip():
    packed = gzip.compress(b"2000 4 5\n" + b"0,3 1:0.5 3:-2\n" * 2000)
    for damaged in (packed[:-1], packed[: len(packed) // 2], packed[:11], packed[:-8] + b"\0" * 8, packed + b"junk"):
        with pytest.raises(ValueError, match=r"<file>:\d+: the gzip data is damaged"):
            load(damaged)


def test_mutated_files_are_read_as_the_slow_reader_reads_them(monkeypatch):
    monkeypatch.setattr("shore.datasets.xmc.text._CHUNK_BYTES", 64)
    dice = random.Random(0)
    rows = random_csr(12, 9, 0.4).astype(np.float32)
    starts = [saved(rows, rows > 0.5), saved(rows, rows * 3)]
    loaded = 0
    for _ in range(4000):
        text = bytearray(dice.choice(starts))
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(text))
            piece = bytes(dice.choice(b"0123456789:, .-+eE\t\r\n\0\xffn") for _ in range(dice.randint(0, 2)))
            text[at : at + dice.randint(0, 2)] = piece
        dtype = dice.choice([np.float32, np.float64])
        try:
            expected = slow_xmc.read(bytes(text), dtype)
        except slow_xmc.Refused:
            with pytest.raises(ValueError, match=r"<file>:\d+: "):
                load(bytes(text), dtype=dtype)
            continue
        loaded += 1
        for matrix, slow in zip(load(bytes(text), dtype=dtype), expected[:2], strict=True):
            reference.assert_canonical(matrix, matrix.shape, matrix.shape[1], matrix.dtype)
            pairs = list(zip(matrix.indices.tolist(), matrix.data, strict=True))
            assert [dict(pairs[a:b]) for a, b in itertools.pairwise(matrix.indptr)] == slow, bytes(text)
    assert 200 < loaded < 3800


# ---- numbers ----


def middles(single):
    """Decimals in the middle of two neighbours, and a little beside it."""
    dice = random.Random(2)
    for _ in range(300):
        if single:
            low = struct.unpack("f", struct.pack("I", dice.randrange(0x7F7FFFFF)))[0]
            high = float(np.nextafter(np.float32(low), np.float32(np.inf)))
        else:
            low = struct.unpack("d", struct.pack("Q", dice.randrange(0x7FEFFFFFFFFFFFFF)))[0]
            high = float(np.nextafter(low, np.inf))
        mantissa, exponent = ((Fraction(low) + Fraction(high)) / 2).as_integer_ratio()
        # exact digits: a fraction with a power of two below is a finite decimal
        twos = exponent.bit_length() - 1
        digits = str(mantissa * 5**twos)
        yield from (f"{digits}e-{twos}", f"{digits}0001e-{twos + 4}", f"{int(digits) * 1000 - 1}e-{twos + 3}")
        yield from (f"{digits[:k]}e{len(digits) - k - twos}" for k in (16, 17, 18, 19, 20) if len(digits) > k)


PLAIN = """
0 -0 +0 0.0 -0.0 0e999999999999999999999999 1 +1 -1 1. .5 1e-5 1E5 1e+5 1e0 0.1 0.30000000000000004
9007199254740992 9007199254740993 9007199254740993.0 9007199254740995 1e22 1e23 1e-22 1e-23 8.5e22
123456789012345678 1234567890123456789 12345678901234567890 18446744073709551615 18446744073709551616
99999999999999999999 1e308 1.7976931348623157e308 1.7976931348623158e308 2.2250738585072014e-308
2.2250738585072011e-308 2.2250738585072012e-308 5e-324 4.9406564584124654e-324 2.4703282292062327e-324
2.4703282292062328e-324 2e-324 1e-400 1e-999999999999999 16777217 16777217.0000000001
16777216.9999999999999 3.4028235e38 1e-45 7.0064923216240854e-46 7.0064923216240853e-46
1.1754943508222875e-38 1.17549429e-38 1.1754942807573643e-38
"""
ADVERSARIAL = [
    *PLAIN.split(),
    *("0." + "0" * 40 + "e5", "0." + "0" * 400 + "1", "0." + "0" * 30 + "12345", "1" + "0" * 300),
    *("1" + "0" * 30 + "e-30", "3" * 800 + "e-700", "9" * 19 + "e10", "9" * 20 + "e-10"),
]


def assert_same_number(text):
    for sign in ("", "-"):
        found, expected = parse_number((sign + text).encode()), float(sign + text)
        assert struct.pack("d", found) == struct.pack("d", expected), text


@pytest.mark.parametrize("text", ADVERSARIAL)
def test_adversarial_numbers(text):
    if text[0] in "+-":
        assert parse_number(text.encode()) == float(text)
        return
    assert_same_number(text)
    if 0 < float(text) < 3.4e38:
        assert np.float32(parse_number(text.encode(), True)) == nearest_float32(Decimal(text))


def test_numbers_in_the_middle_of_two():
    for text in middles(single=False):
        assert_same_number(text)
    differ = 0
    for text in middles(single=True):
        expected = nearest_float32(Decimal(text))
        found = parse_number(text.encode(), True)
        assert np.float32(found) == expected, text
        differ += np.float32(float(text)) != expected
    assert differ > 0  # rounding twice would have been wrong


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_reads_back(value):
    text = repr(value)
    assert struct.pack("d", parse_number(text.encode())) == struct.pack("d", value)


@given(st.from_regex(r"([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_decimals_read_as_python_reads_them(text):
    assert_same_number(text)
    if 0 < float(text) < 3.4e38:
        assert np.float32(parse_number(text.encode(), True)) == nearest_float32(Decimal(text))


def test_random_numbers_take_every_path():
    dice = random.Random(3)
    for _ in range(20_000):
        assert_same_number(f"{dice.randrange(10 ** dice.randint(1, 20))}e{dice.randint(-345, 310)}")


@pytest.mark.parametrize("text", ["", ".", "e5", "1e", "1e+", "--1", "1 ", "nan", "inf", "0x1", "1_0", "1,5", "١"])
def test_no_numbers(text):
    assert parse_number(text.encode()) is None


def test_the_locale_has_no_say():
    before = locale.setlocale(locale.LC_NUMERIC)
    X = np.array([[0.1, 12345678901234567.0, 1.5e-310]])
    try:
        for name in ("C", "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "German_Germany.1252"):
            try:
                locale.setlocale(locale.LC_NUMERIC, name)
            except locale.Error:
                continue
            assert_reads(saved(X, [[2.5]]), X, [[2.5]], dtype=np.float64)
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)


# ---- writing ----


@st.composite
def problems(draw):
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    n, d, K = (draw(st.integers(0, 6)) for _ in range(3))
    finite = st.floats(allow_nan=False, allow_infinity=False, width=32 if dtype is np.float32 else 64)
    outputs = draw(st.sampled_from([st.sampled_from([0.0, 1.0]), finite]))
    X = draw(hnp.arrays(dtype, (n, d), elements=finite, fill=st.just(0.0)))
    Y = draw(hnp.arrays(dtype, (n, K), elements=outputs, fill=st.just(0.0)))
    return X, Y


@given(problems(), st.sampled_from([np.asarray, sparse.csr_array, sparse.csc_matrix, sparse.coo_array]))
@example((np.float32([[1e-45, 3.4028235e38, 16777216, 9.9e-39]]), np.float32([[1]])), np.asarray)
def test_what_is_written_reads_back_to_the_bit(problem, make):
    X, Y = problem
    text = saved(make(X), make(Y))
    for found, expected in zip(load(text, dtype=X.dtype), (X, Y), strict=True):
        reference.assert_canonical(found, expected.shape, expected.shape[1], expected.dtype)
        assert (found.toarray() + 0.0).tobytes() == (expected + 0.0).tobytes()  # + 0.0: a zero has no sign here
    words = text.split(b"\n", 1)[0].split(b" ")
    assert words[3:] == ([] if np.isin(Y, [0, 1]).all() else [b"values"])


def test_all_single_exponents_read_back():
    bits = np.random.default_rng(0).integers(1, 0x7F800000, 100_000).astype(np.uint32)
    X = bits.view(np.float32).reshape(100, 1000)
    found, _ = load(saved(X, np.zeros((100, 1))))
    np.testing.assert_array_equal(found.toarray().view(np.uint32), X.view(np.uint32))


def test_text_is_short():
    assert saved(np.float32([[0.1, 1, 1e-7]]), [[1, 1]]) == b"1 3 2\n0,1 0:0.1 1:1 2:1e-07\n"
    assert saved([[0, 3], [0, 0]], [[0, 1], [0, 0]]) == b"2 2 2\n1 1:3\n\n"
    assert saved([[0, 3]], [[0, 2.5]]) == b"1 2 2 values\n1:2.5 1:3\n"
    stored = sparse.csr_array((np.array([1.0, 0.0]), ([0, 0], [1, 0])), shape=(1, 2))
    assert saved(stored, stored) == b"1 2 2\n1 1:1\n"
    assert stored.nnz == 2  # the caller's matrix is the caller's


def test_blocks_do_not_show(monkeypatch):
    X, Y = random_csr(40, 30, 0.2), random_csr(40, 9, 0.2)
    whole = saved(X, Y)
    for entries in (1, 20, 100):
        monkeypatch.setattr("shore.datasets.xmc.writing._BLOCK_ENTRIES", entries)
        assert saved(X, Y) == whole
        assert saved(X.toarray(), Y.toarray()) == whole


def test_read_only_and_wide_indices(tmp_path):
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    wide = sparse.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    dense = np.memmap(tmp_path / "m", dtype=np.float32, mode="w+", shape=(3, 3))
    dense[:] = np.eye(3)
    assert saved(X, wide) == saved(dense, X) == b"3 3 3\n0 0:1\n1 1:1\n2 2:1\n"


def test_files_are_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "x.txt"
    save_xmc(path, [[1.0]], [[1]])
    good = path.read_bytes()
    for X, Y, words in (
        ([[1.0], [np.nan]], [[1], [1]], "X must be finite, but row 1 holds NaN or infinity"),
        ([[1.0], [2.0]], [[1], [np.inf]], "Y must be finite, but row 1 holds NaN or infinity"),
        ([[1.0]], [[1], [1]], "X and Y must have the same number of rows, got 1 and 2"),
        ([1.0], [[1]], "X must be 2-D"),
    ):
        with pytest.raises(ValueError, match=words):
            save_xmc(path, X, Y)
    assert path.read_bytes() == good
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]
    save_xmc(str(path), [[2.0]], [[1]])
    assert path.read_bytes() == b"1 1 1\n0 0:2\n"
    with pytest.raises(FileNotFoundError):
        save_xmc(tmp_path / "no" / "x.txt", [[1.0]], [[1]])


def test_gzip_is_written_by_name(tmp_path):
    X, Y = load(ROWS)
    save_xmc(tmp_path / "x.txt.gz", X, Y)
    packed = (tmp_path / "x.txt.gz").read_bytes()
    assert gzip.decompress(packed) == saved(X, Y)
    save_xmc(tmp_path / "y.txt.gz", X, Y)
    assert (tmp_path / "y.txt.gz").read_bytes() == packed  # no name, no time in it
    reference.assert_same_bits(load_xmc(tmp_path / "x.txt.gz")[0], X)
