import contextlib
import copy
import errno
import hashlib
import io
import json
import mmap
import os
import pickle
import stat
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import reference
from safetensors.numpy import save_file

import shore
from shore import modelfile
from shore._core import runtime
from shore._core.compression import sign_layout
from shore.datasets import make_synthetic
from shore.modelfile.header import CODES, DTYPES

# Damaged files that are tried; the variable SHORE_MUTATIONS asks for more.
MUTATIONS = int(os.environ.get("SHORE_MUTATIONS", "10000"))

DATA = make_synthetic(120, 12, 70, sparsity=3, snr_db=30, seed=1)
X, Y = DATA.X, DATA.Y


class Frame:
    """Rows with names of columns, as a data frame has them."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.rows, dtype=dtype)


def fitted(inputs=X, **options):
    return shore.ShoreRegressor(3, **{"n_components": 40, **options}).fit(inputs, Y)


def assert_same_model(one, other):
    for name, value in one.get_params().items():
        if name == "dtype":
            assert np.dtype(value) == np.dtype(other.dtype)
        elif name != "compression":
            assert value == getattr(other, name), name
    for name in ("n_features_in_", "n_outputs_", "solver_", "n_iter_", "alpha_"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("coef_", "intercept_"):
        mine, its = getattr(one, name), getattr(other, name)
        assert mine.dtype == its.dtype
        assert mine.tobytes() == its.tobytes()
    assert one._feature_major.dtype == other._feature_major.dtype
    assert repr(one.compression) == repr(other.compression)
    assert repr(one.compression_) == repr(other.compression_)
    if one.compression_ is not None:
        np.testing.assert_array_equal(one.compression_.toarray(), other.compression_.toarray())
    names = [model.__dict__.get("feature_names_in_", np.array([])).tolist() for model in (one, other)]
    assert names[0] == names[1]
    paths = [model.__dict__.get("alpha_path_", {}) for model in (one, other)]
    assert paths[0].keys() == paths[1].keys()
    for name, values in paths[0].items():
        np.testing.assert_array_equal(values, paths[1][name])
    reference.assert_same_bits(one.predict(X), other.predict(X))


def matrix(dtype):
    return shore.MatrixCompression((np.random.default_rng(0).normal(size=(20, 70)) / 4).astype(dtype))


def head_tail(m, H):
    """With the last H outputs in the head, from the heaviest."""
    return shore.HeadTailCompression(m, np.r_[np.full(70 - H, 1e-9), 2.0 ** np.arange(H)], seed=3, dtype=np.float64)


MODELS = {
    "signs": {},
    "signs, few": {"compression": shore.SparseSignCompression(30, 70, nnz_per_output=5, seed=2**64 - 1)},
    "signs, float64": {"dtype": np.float64, "fit_intercept": True},
    "signs, wide tables": {"n_components": 40_000},
    "head and tail": {"compression": "head_tail", "n_components": 50},
    "head and tail, float64": {"compression": head_tail(20, 9), "dtype": np.float64},
    "a head alone": {"compression": "head_tail", "n_components": 80, "fit_intercept": True},
    "no head": {"compression": head_tail(20, 0)},
    "gaussian": {"compression": "gaussian", "random_state": 7},
    "gaussian, float64": {"compression": "gaussian", "dtype": "float64"},
    "matrix": {"compression": matrix(np.float64)},
    "matrix, float32": {"compression": matrix(np.float32)},
    "uncompressed": {"compression": None, "fit_intercept": True},
    "box": {"constraint": shore.Box(-np.inf, 0.1), "decoder": "fista", "l1": 0.25},
    "simplex": {"constraint": shore.Simplex(2.5)},
    "binary": {"constraint": "binary", "decoder": "omp"},
    "real": {"constraint": "real", "decoder": "cd", "step": 0.7, "max_iter": 11, "tol": 0},
    "alpha": {"alpha": "auto", "solver": "cholesky"},
    "cg": {"alpha": np.float32(0.1), "solver": "cg", "solver_tol": 1e-5, "n_threads": np.int64(2), "verbose": True},
    "names": {"inputs": Frame(X, [f'"{i}\\,é😀\n\ud800[' for i in range(12)])},
}


@pytest.fixture(scope="module")
def models():
    with contextlib.redirect_stderr(io.StringIO()):
        return {name: fitted(**options) for name, options in MODELS.items()}


@pytest.fixture
def path(models, tmp_path):
    models["names"].save(tmp_path / "m.shore")
    return tmp_path / "m.shore"


# ---------------------------------------------------------------- round trips


@pytest.mark.parametrize("kind", MODELS)
def test_round_trip(kind, models, tmp_path):
    model, path = models[kind], tmp_path / "m.shore"
    assert model.save(path) is None
    for options in ({}, {"verify": False}, {"mmap": False}, {"mmap": False, "verify": False}):
        again = shore.load(path, **options)
        assert_same_model(again, model)
        assert not again._feature_major.flags.writeable
        np.testing.assert_array_equal(again.predict_compressed(X), model.predict_compressed(X))
        assert_same_explanation(again.explain(X[:3]), model.explain(X[:3]))
        again.save(tmp_path / "again.shore")
        assert_same_model(shore.load(tmp_path / "again.shore"), model)
    assert sorted(os.listdir(tmp_path)) == ["again.shore", "m.shore"]


def assert_same_explanation(one, other):
    for name, column in one.to_dict().items():
        np.testing.assert_array_equal(column, other.to_dict()[name])


@pytest.mark.parametrize("kind", ["signs", "gaussian", "matrix", "uncompressed", "names"])
@pytest.mark.parametrize("weights", [None, "float16"])
def test_a_loaded_model_is_a_model(kind, weights, models, tmp_path):
    models[kind].save(tmp_path / "m.shore", weights=weights)
    model = shore.load(tmp_path / "m.shore")
    (tmp_path / "m.shore").unlink()  # a mapping stays
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert_same_model(again, model)
    assert np.diff(again.set_params(sparsity=2).predict(X).indptr).max() <= 2
    inputs = MODELS[kind].get("inputs", X)
    assert_same_model(copy.deepcopy(model).fit(inputs, Y), models[kind])
    scale = np.abs(models[kind].coef_).max()
    np.testing.assert_allclose(model.partial_fit(X, Y).coef_, models[kind].coef_, rtol=0, atol=1e-5 * scale)


def test_joblib(models, tmp_path):
    joblib = pytest.importorskip("joblib")
    models["signs"].save(tmp_path / "m.shore")
    model = shore.load(tmp_path / "m.shore")
    joblib.dump(model, tmp_path / "m.joblib")
    assert_same_model(joblib.load(tmp_path / "m.joblib"), model)
    for found in joblib.Parallel(n_jobs=2, max_nbytes=100)(joblib.delayed(model.predict)(X) for _ in range(2)):
        reference.assert_same_bits(found, model.predict(X))


def test_a_stored_compression_pickles_its_numbers_not_its_seed(models, tmp_path):
    path = tmp_path / "m.shore"
    for kind, tensor, change in (("signs", "tables", swapped), ("gaussian", "columns", lambda columns: columns[::-1])):
        models[kind].save(path)
        forge(path, {tensor: change})
        model = shore.load(path)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.compression_.toarray(), model.compression_.toarray())
        assert (again.compression_.toarray() != models[kind].compression_.toarray()).any()
        parts = [shore.ShoreRegressor(3, compression=m.compression_).partial_fit(X, Y) for m in (model, models[kind])]
        with pytest.raises(ValueError, match="same compression"):
            parts[0].merge(parts[1])
        parts[0].merge(shore.ShoreRegressor(3, compression=again.compression_).partial_fit(X, Y))


def swapped(tables):
    """The first two outputs in each other's place."""
    tables = tables.copy().reshape(-1, 16)
    tables[:, [0, 1]] = tables[:, [1, 0]]
    return tables.reshape(-1)


def test_partial_fit_is_solved_and_starts_anew(tmp_path):
    model = shore.ShoreRegressor(3, n_components=40, fit_intercept=True).partial_fit(X[:60], Y[:60])
    model.partial_fit(X[60:], Y[60:])
    model.save(tmp_path / "m.shore")
    again = shore.load(tmp_path / "m.shore")
    assert_same_model(again, model)
    with pytest.raises(ValueError, match="merge needs two models that were fitted by partial_fit"):
        again.merge(model)


class OwnCompression(shore.SparseSignCompression):
    pass


def test_what_cannot_be_saved_is_refused(tmp_path):
    path = tmp_path / "m.shore"
    with pytest.raises(shore.NotFittedError):
        shore.ShoreRegressor().save(path)
    with pytest.raises(TypeError, match="model must be a ShoreRegressor"):
        modelfile.save(3, path)
    model = fitted()
    for weights in ("float32", 16, np.float16):
        with pytest.raises(ValueError, match="weights must be None or 'float16'"):
            model.save(path, weights=weights)
    for parameter, kind, match in (
        ({"compression": shore.SparseSignCompression(9, 70)}, ValueError, "compression was changed since fit"),
        ({"compression": "fourier"}, ValueError, "compression must be"),
        ({"sparsity": 0}, ValueError, "sparsity"),
        ({"verbose": [1]}, TypeError, "verbose cannot be written to a model file"),
        ({"n_threads": "all"}, TypeError, "n_threads"),
    ):
        with pytest.raises(kind, match=match):
            copy.copy(model).set_params(**parameter).save(path)
    with pytest.raises(TypeError, match="cannot hold a compression of type OwnCompression"):
        fitted(compression=OwnCompression(20, 70)).save(path)
    model._feature_major[0, 0] = np.nan
    with pytest.raises(ValueError, match="W holds NaN or infinity"):
        model.save(path)
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- half precision

COMPARE = """
import sys
from pathlib import Path
import numpy as np
from scipy import sparse
import shore

level, folder = sys.argv[1], Path(sys.argv[2])
assert shore._core.runtime.simd()[0] == level
X = np.load(folder / "X.npy")
half, expanded = shore.load(folder / "half.shore"), shore.load(folder / "expanded.shore")
assert half._feature_major.dtype == np.float16
for rows in (X, sparse.csr_array(X)):
    np.testing.assert_array_equal(half.predict_compressed(rows), expanded.predict_compressed(rows))
    found, expected = half.predict(rows), expanded.predict(rows)
    assert found.dtype == np.float32
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
one, other = half.explain(X[:5]).to_dict(), expanded.explain(X[:5]).to_dict()
for name, column in one.items():
    np.testing.assert_array_equal(column, other[name])
np.testing.assert_array_equal(half.coef_, expanded.coef_)
assert half.coef_.dtype == np.float32 and half.predict(X[:0]).dtype == np.float32
"""


@pytest.mark.parametrize("options", [{}, {"compression": "gaussian"}, {"compression": None, "fit_intercept": True}])
@pytest.mark.parametrize("level", runtime.LEVELS[: runtime.LEVELS.index(runtime.simd()[1]) + 1])
def test_half_precision_predicts_as_its_expansion(options, level, tmp_path):
    model = fitted(**options)
    model.save(tmp_path / "half.shore", weights="float16")
    expanded = copy.deepcopy(model)
    expanded._feature_major = model._feature_major.astype(np.float16).astype(np.float32)
    expanded.save(tmp_path / "expanded.shore")
    np.save(tmp_path / "X.npy", X)
    command = [sys.executable, "-c", COMPARE, level, str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, "SHORE_SIMD": level}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_half_precision_halves_the_file_and_stays(tmp_path):
    model = fitted(n_components=4000)
    model.save(tmp_path / "m.shore")
    model.save(tmp_path / "half.shore", weights="float16")
    sizes = [(tmp_path / name).stat().st_size for name in ("m.shore", "half.shore")]
    assert sizes[0] - sizes[1] == pytest.approx(2 * 12 * 4000, abs=8)
    half = shore.load(tmp_path / "half.shore")
    assert np.dtype(half.dtype) == np.float32
    for weights in (None, "float16"):
        half.save(tmp_path / "again.shore", weights=weights)
        assert_same_model(shore.load(tmp_path / "again.shore"), half)
    assert half.fit(X, Y).coef_.tobytes() == model.coef_.tobytes()


def test_half_precision_is_refused_where_it_cannot_be(tmp_path):
    path = tmp_path / "m.shore"
    with pytest.raises(ValueError, match="weights='float16' is for float32 models, but this one is float64"):
        fitted(dtype=np.float64).save(path, weights="float16")
    model = fitted()
    for largest in (65505.0, -1e30):
        model._feature_major[3, 3] = largest
        with pytest.raises(ValueError, match=r"weights='float16' cannot hold W: its largest entry is .*ends at 65504"):
            model.save(path, weights="float16")
    model._feature_major[3, 3], model._feature_major[4, 4] = 65504, 7e-8  # the largest half, and a subnormal one
    model.save(path, weights="float16")
    again = shore.load(path)
    assert (again.coef_[3, 3], again.coef_[4, 4]) == (65504, 2.0**-24)


# ---------------------------------------------------------------- writing


def test_a_file_is_replaced_while_it_is_mapped(models, tmp_path):
    path = tmp_path / "m.shore"
    models["signs"].save(path)
    old = shore.load(path)
    models["gaussian"].save(path)
    assert_same_model(old, models["signs"])
    assert_same_model(shore.load(path), models["gaussian"])
    old.save(path)
    shore.load(path).save(path, weights="float16")  # onto the file that it is mapped from
    assert_same_model(old, models["signs"])


def test_mode_and_links(models, tmp_path):
    path, link = tmp_path / "m.shore", tmp_path / "link"
    before = os.umask(0o027)
    try:
        models["signs"].save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o444)
    link.symlink_to("m.shore")
    models["gaussian"].save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert_same_model(shore.load(str(path)), models["gaussian"])


@pytest.mark.parametrize("where", ["os.fsync", "os.replace", "os.chmod", "shore.modelfile.writing.save_file"])
@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(where, kind, models, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise kind(errno.ENOSPC, os.strerror(errno.ENOSPC))

    models["signs"].save(tmp_path / "m.shore")
    with monkeypatch.context() as patch:
        patch.setattr(where, fail)
        for name in ("m.shore", "new.shore"):
            with pytest.raises(kind):
                models["gaussian"].save(tmp_path / name)
    assert os.listdir(tmp_path) == ["m.shore"]
    assert_same_model(shore.load(tmp_path / "m.shore"), models["signs"])


def test_errors_of_the_system_stay_what_they_are(models, tmp_path):
    for name in ("none.shore", "no/such/folder"):
        with pytest.raises(FileNotFoundError):
            shore.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        models["signs"].save(tmp_path / "no" / "m.shore")
    with pytest.raises(IsADirectoryError):
        shore.load(tmp_path)
    with pytest.raises(IsADirectoryError):
        models["signs"].save(tmp_path)
    with pytest.raises(TypeError):
        shore.load(3)
    with pytest.raises(shore.ModelFileError, match="not a regular file"):
        shore.load(os.devnull)
    (tmp_path / "secret").touch(0)
    if not os.access(tmp_path / "secret", os.R_OK):  # the superuser reads it
        with pytest.raises(PermissionError):
            shore.load(tmp_path / "secret")


SMALL_LIMIT = """
import errno, resource, sys
import shore
from shore.datasets import make_synthetic

data = make_synthetic(120, 12, 70, sparsity=3)
model = shore.ShoreRegressor(3, n_components=4000).fit(data.X, data.Y)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    model.save(sys.argv[1])
except OSError as error:
    sys.exit(0 if (error.errno, error.filename) == (errno.EFBIG, sys.argv[1]) else f"{error!r}")
sys.exit("no error")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(models, tmp_path):
    path = tmp_path / "m.shore"
    models["signs"].save(path)
    done = subprocess.run([sys.executable, "-c", SMALL_LIMIT, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == ["m.shore"]
    assert_same_model(shore.load(path), models["signs"])


KILLED = """
import os, random, signal, sys, time
import numpy as np
import shore
from shore.datasets import make_synthetic

data = make_synthetic(120, 12, 70, sparsity=3)
models = [shore.ShoreRegressor(3, n_components=60_000, random_state=seed, n_threads=1) for seed in (0, 1)]
path = sys.argv[1]
for model in models:
    model.fit(data.X, data.Y)
    started = time.perf_counter()
    model.save(path)
each = time.perf_counter() - started
draw, seen = random.Random(0), set()
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        while True:
            for model in models:
                model.save(path)
    time.sleep(draw.uniform(0, 4 * each))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = shore.load(path)
    assert np.array_equal(found.coef_, models[found.random_state].coef_)
    seen.add(found.random_state)
print(sorted(seen))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_kill_at_any_moment_leaves_a_whole_file(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "m.shore"), "30"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0, 1]\n"  # the kills came at different moments


# ---------------------------------------------------------------- files that are not what they should be


def pieces(path):
    """The header and the bytes of the tensors."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def with_header(header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def signed(metadata):
    """The metadata with the checksum that it should have."""
    rest = {name: value for name, value in metadata.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return rest | {"sha256": hashlib.sha256(text.encode()).hexdigest()}


def forge(path, tensors=None, document=None, metadata=None):
    """Rewrite a model file as one would who knows the format: all checksums are right."""
    header, body = pieces(path)
    given = header.pop("__metadata__")
    described, arrays = json.loads(given["model"]), {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(body[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    for name, change in (tensors or {}).items():
        arrays[name] = np.ascontiguousarray(change(arrays.get(name)))
    described["tensors"] = {
        name: {
            "dtype": CODES[array.dtype],
            "shape": list(array.shape),
            "sha256": hashlib.sha256(array).hexdigest(),
        }
        for name, array in arrays.items()
    }
    if document is not None:
        document(described)
    save_file(arrays, path, signed(given | {"model": json.dumps(described)} | (metadata or {})))


def refused(path, match, **options):
    for mapped in (True, False):
        with pytest.raises(shore.ModelFileError, match=match) as caught:
            shore.load(path, mmap=mapped, **options)
        assert str(caught.value).startswith(f"{path}: ")


def test_a_forged_file_with_nothing_changed_is_read(path, models):
    forge(path)
    assert_same_model(shore.load(path), models["names"])


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


def test_a_newer_file_says_what_is_needed(path):
    forge(path, metadata={"format_version": "2", "shore_version": "7.1"})
    refused(path, r"format version 2, and this is shore .*, which reads version 1: shore '7\.1' or newer is needed")
    for version in ("0", "01", "1.0", "", "-1", "１", "9" * 100, "x"):
        forge(path, metadata={"format_version": version})
        refused(path, "no valid format version")


def edit(*keys, value):
    """A change of a document: put the value under the keys."""

    def change(document):
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


def remove(*keys):
    def change(document):
        for key in keys[:-1]:
            document = document[key]
        del document[keys[-1]]

    return change


def places_of(value, at=()):
    """Every value of a document, with the keys that lead to it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*at, key), part
        yield from places_of(part, (*at, key))


ODD = [None, True, -1, 0, 1.5, 1e308, 10**30, "x", "auto", [], {}, [1, 2], {"a": 1}, "\ud800", "é" * 100]


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
    refused(path, "tables of shape", verify=False)


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


def test_misaligned_tensors_are_copied(path, models):
    header, body = pieces(path)
    text = json.dumps(header).encode()
    for more in range(1, 9):
        longer = text + b" " * more
        path.write_bytes(len(longer).to_bytes(8, "little") + longer + body)
        for mapped in (True, False):
            model = shore.load(path, mmap=mapped)
            assert model._feature_major.flags.aligned
            assert_same_model(model, models["names"])


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
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            again = None
            with contextlib.suppress(shore.ModelFileError):
                again = shore.load(path, mmap=mapped, verify=verify)
            grown = tracemalloc.get_traced_memory()[1] - before
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


# ---------------------------------------------------------------- memory and files


def test_many_threads_load_one_file(path, models):
    with ThreadPoolExecutor(8) as pool:
        for model in pool.map(lambda _: shore.load(path), range(40)):
            assert_same_model(model, models["names"])


def test_a_mapped_model_has_the_pages_of_the_file(path):
    def owner(array):
        while isinstance(array, np.ndarray) and array.base is not None:
            array = array.base
        return array.obj if isinstance(array, memoryview) else array

    model = shore.load(path)
    for array in (model._feature_major, model.intercept_, model.compression_._tables):
        assert isinstance(owner(array), mmap.mmap)
    assert isinstance(owner(shore.load(path, mmap=False)._feature_major), np.ndarray)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="there is no /proc")
def test_no_file_is_left_open(path):
    bad = path.with_name("bad")
    bad.write_bytes(path.read_bytes()[:-1])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        shore.load(path)
        shore.load(path, mmap=False)
        with contextlib.suppress(shore.ModelFileError):
            shore.load(bad)
        shore.load(path).save(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_devices_and_pipes_are_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=r"path must be a regular file or a new name, but .*pipe"):
        fitted().save(pipe)
    assert pipe.is_fifo()
