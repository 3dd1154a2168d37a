"""Files that are foreign or damaged: they are refused, with the reason, in little memory."""

import contextlib
import json
import os
import pickle
import tracemalloc

import numpy as np
from forging import pieces, refused, with_header
from safetensors.numpy import save_file
from small_models import X, assert_same_model

import shore

# Damaged files that are tried; the variable SHORE_MUTATIONS asks for more.
MUTATIONS = int(os.environ.get("SHORE_MUTATIONS", "10000"))


def test_foreign_files_are_refused(tmp_path, models):
    path = tmp_path / "file"
    for data, match in (
        (b"", "it is empty"),
        (b"1234567", "too short"),
        (bytes(8), "is not JSON"),
        (pickle.dumps(models["signs"]), "not a model file, or cut short"),
        (b"PK\x03\x04" + bytes(10_000), "not a model file, or cut short"),
        (with_header(b"[]", b""), "no JSON object"),
        (with_header(b" {}", b""), "no JSON object"),
        (with_header(b"{}", b""), "not one of shore"),
        (with_header(b"\xff\xfe{}", b""), "not UTF-8"),
        (with_header(b'{"__metadata__": []}', b""), "not one of shore"),
        (with_header(b"{}" + b" " * (1 << 18), b""), "its header has 262152 bytes"),
    ):
        path.write_bytes(data)
        refused(path, match)
    save_file({"W": np.ones((3, 4), dtype=np.float32)}, path, {"format": "pt"})
    refused(path, "a safetensors file, but not one of shore")


def test_offsets_and_keys_of_the_header(path, models):
    header, body = pieces(path)
    text, n = json.dumps(header).encode(), len(body)

    def write(**changes):
        path.write_bytes(with_header(header | {name: header[name] | parts for name, parts in changes.items()}, body))

    for begin, end in (
        (-8, n),
        (0, n + 8),
        (8, n),
        (n, 0),
        (2**63, 2**63 + 8),
        (0, 0),
        (0.0, 8.0),
        (True, 8),
        ("", ""),
    ):
        for name in ("W", "tables"):
            write(**{name: {"data_offsets": [begin, end]}})
            refused(path, f"tensor '{name}'")
    begin, end = header["intercept"]["data_offsets"]
    write(intercept={"data_offsets": [begin + 4, end + 4]})
    refused(path, "the tensors overlap")
    for shape in ([2**62, 4], [2**63, 2**63], [0], [-12, -40], [12.0, 40], [], [1] * 100, [12, 40, 1], "12", None):
        write(W={"shape": shape})
        refused(path, "tensor 'W'")
    write(W={"shape": [40, 12]})
    refused(path, "tensor W is not as the metadata describes it")
    for dtype in ("BF16", "F8", 3, None, ["F32"], "f32"):
        write(W={"dtype": dtype})
        refused(path, "tensor 'W' has an unknown dtype")
    write(W={"more": 1})
    refused(path, "tensor 'W' must be an object with the keys data_offsets, dtype, shape")
    path.write_bytes(with_header(header | {"W": [1]}, body))
    refused(path, "tensor 'W' must be an object")
    path.write_bytes(with_header(text[:-1] + b', "W": {}}', body))
    refused(path, "a key that is there twice")
    for number in (b"NaN", b"Infinity", b"-Infinity"):
        path.write_bytes(with_header(text[:-1] + b', "a": ' + number + b"}", body))
        refused(path, "JSON with the number")
    for deep in (b'{"a":' * 40_000, b'{"a":' + b"[" * 250_000, b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"):
        path.write_bytes(with_header(deep, body))
        refused(path, "nested too deeply|not JSON")
    path.write_bytes(with_header(text[:-1] + b', "a": ' + b"9" * 200_000 + b"}", body))
    refused(path, "not JSON")
    path.write_bytes(with_header(header, body + b"\0"))
    refused(path, "bytes behind the last tensor")
    write(__metadata__={"shore_version": 3})
    refused(path, "the metadata must hold strings")
    write(__metadata__={"shore_version": "3"})
    refused(path, "the metadata is damaged")
    path.write_bytes(with_header(header, body))
    assert_same_model(shore.load(path), models["names"])


def test_a_flipped_bit_of_a_tensor_is_found(path):
    original = path.read_bytes()
    header, body = pieces(path)
    for name, entry in header.items():
        if name != "__metadata__":
            damaged = bytearray(original)
            damaged[len(original) - len(body) + entry["data_offsets"][1] - 1] ^= 1
            path.write_bytes(damaged)
            refused(path, f"tensor {name} is damaged: its checksum does not match")


def mutate(rng, data, other):
    """A damaged copy of a file; `other` is another valid one."""
    length = int.from_bytes(data[:8], "little")
    data, header, body = bytearray(data), data[8 : 8 + length], data[8 + length :]
    at, few = int(rng.integers(8 + length if rng.random() < 0.6 else len(data))), int(rng.integers(1, 20))
    inside = int(rng.integers(length))
    match rng.integers(13):
        case 0:  # a bit
            data[at] ^= 1 << int(rng.integers(8))
        case 1:  # a few bytes
            for i in rng.integers(0, len(data), few):
                data[i] = int(rng.integers(256))
        case 2:  # cut short
            del data[at:]
        case 3:  # bytes are gone
            del data[at : at + few]
        case 4:  # bytes are put in
            data[at:at] = rng.bytes(few)
        case 5:  # the header of another file, with its length or without
            data[8 : 8 + length] = other[8 : 8 + int.from_bytes(other[:8], "little")]
            if few < 10:
                data[:8] = other[:8]
        case 6:  # the length
            lengths = [0, 1, length - 8, length + 8, len(data), 2**31, 2**32 + length, 2**63, 2**64 - 1]
            data[:8] = [*lengths, 2**62 // few][rng.integers(10)].to_bytes(8, "little")
        case 7:  # a number of the header is huge, negative or no number
            digits = [i for i in range(length) if header[i : i + 1].isdigit()]
            i = digits[rng.integers(len(digits))]
            odd = [
                b"-1",
                b"9" * 30,
                b"1e3",
                b"null",
                b'""',
                b"[]",
                b"0",
                b"-",
                b"18446744073709551616",
                b"true",
                b"1.0",
            ]
            return with_header(header[:i] + odd[rng.integers(len(odd))] + header[i + 1 :], body)
        case 8:  # a key is there twice
            name = [b"W", b"intercept", b"__metadata__", b"tables"][rng.integers(4)]
            return with_header(b'{"' + name + b'":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},' + header[1:], body)
        case 9:  # nested deeply
            deep = [b"[", b'{"a":', b'[{"":'][rng.integers(3)] * int(rng.integers(1, 50_000))
            return with_header((header[:1] + b'"a":' if few < 10 else b"") + deep, body)
        case 10:  # not UTF-8, or odd characters
            odd = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\0", b"\xef\xbb\xbf", "é".encode(), b"\\ud800", b"\\", b'"']
            return with_header(header[:inside] + odd[rng.integers(len(odd))] + header[inside:], body)
        case 11:  # a part of the file is elsewhere, too
            begin, size = int(rng.integers(len(data))), 10 * few
            data[at : at + size] = data[begin : begin + size]
        case _:  # zeros, as after a crash
            data[at : at + 100 * few] = bytes(len(data[at : at + 100 * few]))
    return bytes(data)


def test_damaged_files_are_refused_or_read_as_they_were(models, tmp_path):
    path, valid = tmp_path / "m.shore", {}
    for kind in ("names", "gaussian", "uncompressed", "signs, float64", "alpha"):
        models[kind].save(path)
        valid[path.read_bytes()] = models[kind]
    models["signs"].save(path, weights="float16")
    valid[path.read_bytes()] = shore.load(path, mmap=False)
    files, rng, read = list(valid), np.random.default_rng(0), 0
    tracemalloc.start()
    try:
        for number in range(MUTATIONS):
            data = files[number % len(files)]
            damaged = mutate(rng, data, files[rng.integers(len(files))])
            path.unlink()
            path.write_bytes(damaged)
            mapped, verify = bool(rng.integers(2)), bool(rng.random() < 0.8)
            for _ in range(3):  # other threads of this process, such as Dask's, may need memory at the same time
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                again = None
                with contextlib.suppress(shore.ModelFileError):
                    again = shore.load(path, mmap=mapped, verify=verify)
                grown = tracemalloc.get_traced_memory()[1] - before
                if grown <= 2 * len(damaged) + 200_000:
                    break
            assert grown <= 2 * len(damaged) + 200_000, (number, grown, len(damaged))
            if again is not None and verify:
                assert_same_model(again, valid.get(damaged, valid[data]))
                read += 1
            elif again is not None:
                with contextlib.suppress(ValueError):  # W may no longer be finite
                    again.predict(X)
    finally:
        tracemalloc.stop()
    assert 0 < read < MUTATIONS / 10  # where the damage is none, such as a header put in its own place
