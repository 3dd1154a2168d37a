"""A file is replaced as a whole or stays as it was, whatever fails; and nothing else is left."""

import contextlib
import copy
import errno
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from small_models import assert_same_model, fitted

import shore
from shore import modelfile


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
        ({"verbose": [1]}, TypeError, "verbose must be an integer of at least 0"),
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
    for read in (shore.load, modelfile.inspect):
        with pytest.raises(ValueError, match="path must not hold NUL characters") as caught:
            read("m\0.shore")
        assert type(caught.value) is ValueError  # no file is to blame
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


@pytest.mark.parametrize("read", [shore.load, modelfile.inspect])
def test_a_pipe_is_refused_and_not_waited_for(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(read, tmp_path / "pipe")
        try:
            with pytest.raises(shore.ModelFileError, match="pipe: not a regular file"):
                called.result(20)
        finally:
            os.close(os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK))  # lets go who waits


def test_options_of_reading_are_checked(path):
    for options in ({"mmap": np.ones(2)}, {"verify": np.ones(2)}, {"mmap": "no"}, {"verify": None}):
        with pytest.raises(TypeError, match=f"{next(iter(options))} must be True or False"):
            shore.load(path, **options)
    with pytest.raises(TypeError, match="verify must be True or False"):
        modelfile.inspect(path, verify=np.ones(2))
    assert shore.load(path, mmap=np.False_, verify=np.True_).n_outputs_ == 70


def test_devices_and_pipes_are_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=r"path must be a regular file or a new name, but .*pipe"):
        fitted().save(pipe)
    assert pipe.is_fifo()
