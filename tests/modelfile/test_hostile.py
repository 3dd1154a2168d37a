"""Files whose checksums are right, but not what they say: they are refused, whatever is asked of `load`."""

import contextlib
import json
import subprocess
import sys

import numpy as np
import pytest
from forging import edit, forge, pieces, refused, remove
from small_models import X, assert_same_model

import shore
from shore._core.compression import sign_layout
from shore._core.threads import available_cores

ODD = [None, True, -1, 0, 1.5, 1e308, 10**30, "x", "auto", [], {}, [1, 2], {"a": 1}, "\ud800", "é" * 100]


def test_a_forged_file_with_nothing_changed_is_read(path, models):
    forge(path)
    assert_same_model(shore.load(path), models["names"])


def test_a_newer_file_says_what_is_needed(path):
    forge(path, metadata={"format_version": "2", "shore_version": "7.1"})
    refused(path, r"format version 2, and this is shore .*, which reads version 1: shore '7\.1' or newer is needed")
    for version in ("0", "01", "1.0", "", "-1", "１", "9" * 100, "x"):
        forge(path, metadata={"format_version": version})
        refused(path, "no valid format version")


def places_of(value, at=()):
    """Every value of a document, with the keys that lead to it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*at, key), part
        yield from places_of(part, (*at, key))


@pytest.mark.parametrize(
    "kind",
    ["names", "signs, few", "head and tail", "a head alone", "gaussian", "matrix", "box", "alpha", "uncompressed"],
)
def test_any_value_of_the_document_may_be_hostile(kind, models, tmp_path):
    path = tmp_path / "m.shore"
    models[kind].save(path)
    original = path.read_bytes()
    document = json.loads(pieces(path)[0]["__metadata__"]["model"])
    # What a valid file may say otherwise; checksums of tensors are not looked at here.
    free = {("parameters",), ("fitted", "n_iter"), ("fitted", "alpha"), ("fitted", "alpha_path")}
    free |= {("compression", "seed")} | {("tensors", name, "sha256") for name in document["tensors"]}
    for keys, present in places_of(document):
        for value in [odd for odd in ODD if odd is not present]:
            path.write_bytes(original)
            forge(path, document=edit(*keys, value=value))
            try:
                model = shore.load(path, verify=False)
            except shore.ModelFileError:
                continue
            assert any(keys[: len(prefix)] == prefix for prefix in free), (keys, value)
            assert keys != ("parameters",)
            model.set_params(max_iter=min(model.max_iter, 60))
            with contextlib.suppress(ValueError):
                model.predict(X)
        if isinstance(keys[-1], str):  # a key that is missing, and one too many
            for change in (remove(*keys), edit(*keys[:-1], "more", value=1)):
                path.write_bytes(original)
                forge(path, document=change)
                refused(path, "must be|unknown|wrong type|the metadata lists")


@pytest.mark.parametrize("kind", ["signs", "signs, few", "signs, wide tables", "head and tail"])
def test_hostile_tables_are_found_always(kind, models, tmp_path):
    path = tmp_path / "m.shore"
    models[kind].save(path)
    original, phi = path.read_bytes(), models[kind].compression_
    nnz, H = phi.nnz_per_output, len(phi.head_outputs)
    pad, size, dtype = sign_layout(phi.n_components - H, phi.n_outputs - H, nnz)
    starts = np.arange(nnz + 1) * (phi.n_components - H) // nnz
    for at in (0, size - 1, size // 2, 69, 16 * nnz):  # also an entry of an output past the last one
        k = at // 16 % nnz
        first, length = k * 2 * pad, int(starts[k + 1] - starts[k])
        inside = {first + sign * pad + row for sign in (0, 1) for row in (0, length - 1)}
        around = {first - 1, first + length, first + pad - 1, first + pad + length, first + 2 * pad - 1}
        around |= {first + 2 * pad, 0, int(np.iinfo(dtype).max)}
        for place in sorted(inside | around):
            if not 0 <= place <= np.iinfo(dtype).max:
                continue

            def change(tables, at=at, place=place):
                tables = tables.copy()
                tables[at] = place
                return tables

            path.write_bytes(original)
            forge(path, {"tables": change})
            if first <= place < first + 2 * pad and (place - first) % pad < length:
                shore.load(path, verify=False).predict(X[:5])
            else:
                refused(path, "tables hold 1 entries that are no places", verify=False)


def test_hostile_heads_are_found_always(models, tmp_path):
    path = tmp_path / "m.shore"
    models["head and tail, float64"].save(path)
    original = path.read_bytes()
    assert models["head and tail, float64"].compression_.head_outputs.tolist() == list(range(61, 70))

    def put(at, value):
        def change(head):
            head = head.copy()
            head[at] = value
            return head

        return {"head": change}

    for tensors, match in (
        (put(0, -1), "must be sorted, different, and below 70"),
        (put(0, 62), "must be sorted"),
        (put(8, 70), "must be sorted"),
        (put(8, 2**62), "must be sorted"),
        (put(4, 3), "must be sorted"),
        ({"head": lambda head: head[:-1]}, "head must be 9 integers"),
        ({"head": lambda head: head.reshape(3, 3)}, "head must be 9 integers"),
        ({"head": lambda head: head.astype(np.float64)}, "head must be 9 integers"),
        ({"head": lambda head: head.astype(np.uint32)}, "head must be 9 integers"),
    ):
        path.write_bytes(original)
        forge(path, tensors)
        refused(path, match, verify=False)
    for n_head, match in ((8, "head must be 8"), (0, "must be the tensors W, intercept, tables"), (70, "the tensors W"),
                          (-1, "n_head must be"), (9.0, "n_head must be"), (10**30, "head must be")):  # fmt: skip
        path.write_bytes(original)
        forge(path, document=edit("compression", "n_head", value=n_head))
        refused(path, match, verify=False)

    def all_rows(head):  # which leaves none to the others
        return np.arange(20)

    path.write_bytes(original)
    forge(path, {"head": all_rows}, document=edit("compression", "n_head", value=20))
    refused(path, "20 outputs cannot own a row|tables of shape", verify=False)


WRITTEN_IN_PLACE = """
import contextlib, json, sys
from pathlib import Path
import numpy as np, shore

path, seed = Path(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(seed)
model = shore.load(path)
predictor, X = model.predictor(), rng.normal(size=(60, model.n_features_in_))
model.predict(X)
data = path.read_bytes()
end = 8 + int.from_bytes(data[:8], "little")
body = b"\\xff" * (len(data) - end) if seed == 0 else rng.bytes(len(data) - end)
for name, entry in json.loads(data[8:end]).items():
    if name in ("W", "intercept"):  # their numbers stay, so that rows are decoded
        begin, stop = entry["data_offsets"]
        body = body[:begin] + data[end + begin : end + stop] + body[stop:]
with open(path, "r+b") as file:
    file.seek(end)
    file.write(body)
with contextlib.suppress(ValueError):  # of numbers that overflow
    model.compression_.compress(np.ones((3, model.n_outputs_)))
for decoder in ("pgd", "cd", "omp", "fista"):
    with contextlib.suppress(ValueError):
        model.set_params(decoder=decoder).predict(X)
for x in X:
    predictor(x)
"""


@pytest.mark.parametrize("kind", ["signs", "signs, wide tables", "head and tail", "a head alone", "gaussian, float64"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_file_that_is_written_in_place_crashes_no_kernel(kind, seed, models, tmp_path):
    models[kind].save(tmp_path / "m.shore")
    subprocess.run([sys.executable, "-c", WRITTEN_IN_PLACE, str(tmp_path / "m.shore"), str(seed)], check=True)


def test_a_file_asks_for_no_more_threads_than_there_are_cores(path):
    cores = available_cores()
    for n_threads, expected in ((1, 1), (cores, cores), (cores + 1, cores), (10**6, cores), (None, None)):
        forge(path, document=edit("parameters", "n_threads", value=n_threads))
        assert shore.load(path).n_threads == expected


def test_tables_of_another_shape_are_refused(path):
    original = path.read_bytes()
    for change in (
        lambda t: t[:-1],
        lambda t: t.reshape(-1, 2),
        lambda t: t.astype(np.uint32),
        lambda t: t.view(np.float16),
        lambda t: np.concatenate([t, t]),
    ):
        path.write_bytes(original)
        forge(path, {"tables": change})
        refused(path, "tables of (shape|dtype)", verify=False)
    for nnz in (15, 17, 41, 2**62):
        path.write_bytes(original)
        forge(path, document=edit("compression", "nnz_per_output", value=nnz))
        refused(path, "tables of shape", verify=False)

    def wrap_around(document):  # 2**60 outputs of 16 entries are 2**64
        document["fitted"]["n_outputs"] = document["compression"]["n_outputs"] = 2**60 + 70

    path.write_bytes(original)
    forge(path, document=wrap_around)
    refused(path, "n_outputs must be at most", verify=False)


def test_numbers_that_are_not_finite(tmp_path, models):
    def put(value):
        def change(array):
            array = array.copy()
            array.flat[-1] = value
            return array

        return change

    path = tmp_path / "m.shore"
    kinds = (("signs", None), ("signs", "float16"), ("uncompressed", None), ("signs, float64", None))
    for kind, weights in kinds:
        for name in ("W", "intercept"):
            for bad in (np.nan, np.inf, -np.inf):
                models[kind].save(path, weights=weights)
                forge(path, {name: put(bad)})
                refused(path, f"{name} holds NaN or infinity")
                with contextlib.suppress(ValueError):
                    assert np.isfinite(shore.load(path, verify=False).predict(X).data).all()
    for kind in ("gaussian", "matrix"):
        models[kind].save(path)
        forge(path, {"columns": put(np.nan)})
        for verify in (True, False):
            refused(path, "columns hold NaN or infinity", verify=verify)


def text_tensor(text):
    return {"feature_names": lambda array: np.frombuffer(text, np.uint8)}


def test_shapes_and_dtypes_must_fit(path):
    original = path.read_bytes()
    for tensors, match in (
        ({"W": lambda a: a[:-1]}, "W must be"),
        ({"W": lambda a: a.reshape(-1)}, "W must be"),
        ({"W": lambda a: a.astype(np.uint16)}, "W must be"),
        ({"W": lambda a: a.astype(np.float64)}, "intercept does not fit W"),
        ({"W": lambda a: a[:, :-1]}, "intercept does not fit W"),
        ({"W": lambda a: a[:, :-1], "intercept": lambda a: a[:-1]}, "compression is not of the shape"),
        ({"intercept": lambda a: a.astype(np.float16)}, "intercept does not fit W"),
        ({"more": lambda a: np.ones(3, dtype=np.uint8)}, "there must be the tensors W, head, intercept, tables"),
        ({"feature_names": lambda a: a[:-1]}, "JSON array of 12 strings"),
        ({"feature_names": lambda a: np.ones((3, 4), dtype=np.uint8)}, "must be bytes"),
        ({"feature_names": lambda a: np.ones(3, dtype=np.uint16)}, "must be bytes"),
        (text_tensor(b"[" * 12), "JSON array of 12 strings"),
        (text_tensor(b'["a"' + b',"b"' * 12 + b"]"), "JSON array of 12 strings"),
        (text_tensor(b'["a"' + b',"\\x"' * 11 + b"]"), "is not JSON"),
        (text_tensor('["é"'.encode() + b',"b"' * 11 + b"]"), "ASCII"),
    ):
        path.write_bytes(original)
        forge(path, tensors)
        for verify in (True, False):
            refused(path, match, verify=verify)


def test_a_signalling_nan_that_nobody_looked_at_raises_no_warning(models, tmp_path):
    path = tmp_path / "m.shore"
    models["signs"].save(path)
    forge(path, {"intercept": lambda array: np.full(len(array), 0x7FA00000, dtype=np.uint32).view(np.float32)})
    refused(path, "intercept holds NaN or infinity")
    with pytest.raises(ValueError, match="X is too large"):
        shore.load(path, verify=False).predict(X)
