"""A disk that is full, a folder that may not be written to, a file that is replaced under a mapped model."""

import contextlib
import errno
import io
import os
import shutil
import stat
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from bits import bits, folder_bits
from forks import forked, needs_fork

import shore
from shore.cli import main
from shore.datasets import make_synthetic, save_xmc

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits and owners are POSIX's")

DATA = make_synthetic(400, 20, 300, sparsity=3)
MODEL = shore.ShoreRegressor(3, n_components=40).fit(DATA.X, DATA.Y)
OLD = b"the old file"


class CommandError(Exception):
    """A command that failed, with the line that it said."""


def command(*words):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = main([*map(str, words), "--quiet"])
    if code:
        assert code == 2
        assert said.getvalue().count("\n") == 1
        raise CommandError(said.getvalue())


@pytest.fixture(scope="module")
def inputs():
    """Where others may read, too."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    MODEL.save(folder / "m.shore")
    save_xmc(folder / "x.txt", DATA.X, DATA.Y)
    for path in folder.iterdir():
        path.chmod(0o644)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def written():
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder)


WRITERS = {
    "save": lambda inputs, path: MODEL.save(path),
    "save_xmc": lambda inputs, path: save_xmc(path, DATA.X, DATA.Y),
    "save_xmc gz": lambda inputs, path: save_xmc(path.with_suffix(".gz"), DATA.X, DATA.Y),
    "shore fit": lambda inputs, path: command("fit", inputs / "x.txt", "--output", path),
    "shore predict": lambda inputs, path: command("predict", inputs / "m.shore", inputs / "x.txt", "--output", path),
    "shore explain": lambda inputs, path: command(
        "explain", inputs / "m.shore", inputs / "x.txt", "--rows", "0:100", "--output", path
    ),
    "shore tune": lambda inputs, path: command(
        "tune", inputs / "x.txt", "--components", 40, "--alphas", 1, "--model", path
    ),
}
writers = pytest.mark.parametrize("name", WRITERS)


def target_of(name, folder):
    return folder / ("out.gz" if name.endswith("gz") else "out")


def expect(name, inputs, path, numbers, *, words=()):
    """The writer must fail with one of the errors."""
    with pytest.raises((OSError, CommandError)) as raised:
        WRITERS[name](inputs, path)
    error = raised.value
    if isinstance(error, CommandError):
        assert any(text in str(error) for text in [*map(os.strerror, numbers), *words]), str(error)
        assert ".tmp" not in str(error)
    else:
        assert error.errno in numbers, repr(error)
        assert error.filename is None or Path(error.filename).name == target_of(name, path.parent).name, repr(error)


# ---------------------------------------------------------------- a full disk


@needs_fork
@writers
def test_a_disk_that_is_full_after_some_bytes(name, inputs, written, deep, survived):
    """By a limit on the size of files: to a writer it is the same, but for the number of the error."""
    resource = pytest.importorskip("resource")
    WRITERS[name](inputs, written / "out")
    target = target_of(name, written)
    size = target.stat().st_size
    limits = np.unique(np.linspace(0, size - 1, 40 if deep else 2).astype(int))
    for old in (True, False):
        if old:
            target.write_bytes(OLD)
        else:
            target.unlink()
        before = folder_bits(written)
        for limit in limits:

            def work(limit=int(limit)):
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                expect(name, inputs, written / "out", {errno.EFBIG})

            forked(work)
            assert folder_bits(written) == before
            survived("writes to a full disk")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_device_that_is_full(inputs, survived):
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        save_xmc("/dev/full", DATA.X, DATA.Y)
    for words in (["predict"], ["explain", "--rows", "0:100"]):
        with pytest.raises(CommandError, match=os.strerror(errno.ENOSPC)):
            command(words[0], inputs / "m.shore", inputs / "x.txt", *words[1:], "--output", "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    survived("writes to a full disk", 3)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM])
@pytest.mark.parametrize("where", ["os.fsync", "os.replace"])
@writers
def test_any_error_of_the_last_steps(name, where, number, inputs, written, monkeypatch, deep, survived):
    if not deep and (number not in (errno.ENOSPC, errno.EIO) or name == "shore tune"):
        pytest.skip("only in the long run")

    def fail(*arguments, **options):
        raise OSError(number, os.strerror(number))

    target = target_of(name, written)
    target.write_bytes(OLD)
    monkeypatch.setattr(where, fail)
    expect(name, inputs, written / "out", {number})
    monkeypatch.undo()
    assert folder_bits(written) == {target.name: OLD}
    survived("errors of the system while saving")


# ---------------------------------------------------------------- permission denied


def as_nobody(work):
    """In a child of another user, if this is the superuser, to whom nothing is denied."""

    def changed():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        work()

    forked(changed)


@needs_fork
@writers
def test_a_folder_that_may_not_be_written_to(name, inputs, written, survived):
    target = target_of(name, written)
    target.write_bytes(OLD)
    target.chmod(0o644)
    written.chmod(0o555)
    try:
        as_nobody(lambda: expect(name, inputs, written / "out", {errno.EACCES}, words=["cannot be written to"]))
    finally:
        written.chmod(0o755)
    assert folder_bits(written) == {target.name: OLD}
    survived("permission denied while saving")


@needs_fork
@writers
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser owns files of others")
def test_a_file_of_somebody_else(name, inputs, written, survived):
    """In a folder where anyone may write, but nobody may replace what is not theirs."""
    target = target_of(name, written)
    target.write_bytes(OLD)
    target.chmod(0o644)
    written.chmod(0o1777)
    as_nobody(lambda: expect(name, inputs, written / "out", {errno.EPERM, errno.EACCES}))
    assert folder_bits(written) == {target.name: OLD}
    survived("permission denied while saving")


# ---------------------------------------------------------------- a file that is replaced under a mapped model


def test_what_is_mapped_stays_as_it_was_whatever_becomes_of_the_name(written, survived):
    path, other = written / "m.shore", written / "other"
    MODEL.save(path)
    mapped, expected = shore.load(path), bits(MODEL.predict(DATA.X))
    predictor = mapped.predictor()
    one = bits(predictor(DATA.X[0]))
    another = shore.ShoreRegressor(3, n_components=64, random_state=1).fit(DATA.X, DATA.Y)

    def replace():
        other.write_bytes(b"x")
        os.replace(other, path)

    for change in (
        lambda: another.save(path), lambda: mapped.save(path), lambda: mapped.save(path, weights="float16"), replace,
        path.unlink, lambda: mapped.save(path), lambda: shore.load(path).save(path),
    ):  # fmt: skip
        change()
        assert bits(mapped.predict(DATA.X)) == expected
        assert bits(predictor(DATA.X[0])) == one
        survived("files replaced under a mapped model")
    assert bits(shore.load(path).predict(DATA.X)) == expected
    assert os.listdir(written) == ["m.shore"]


def test_a_file_is_replaced_while_others_load_and_predict(written, deep, survived):
    path, over, errors = written / "m.shore", threading.Event(), []
    models = [shore.ShoreRegressor(3, n_components=m).fit(DATA.X, DATA.Y) for m in (40, 64)]
    expected = {model.n_components: bits(model.predict(DATA.X)) for model in models}
    models[0].save(path)

    def use():
        try:
            while not over.is_set():
                model = shore.load(path)
                for _ in range(3):
                    assert bits(model.predict(DATA.X)) == expected[model.n_components]
        except BaseException as error:
            errors.append(error)
            raise

    users = [threading.Thread(target=use) for _ in range(2)]
    for thread in users:
        thread.start()
    rounds = 400 if deep else 30
    for i in range(rounds):
        models[i % 2].save(path)
    over.set()
    for thread in users:
        thread.join()
    assert not errors
    survived("files replaced under a mapped model", rounds)
    assert os.listdir(written) == ["m.shore"]


def test_what_is_read_and_not_mapped_outlives_even_a_file_that_is_cut(written):
    """A mapped file that is cut or written over in place ends or changes whoever maps it; `save` does neither."""
    path = written / "m.shore"
    MODEL.save(path)
    model, expected = shore.load(path, mmap=False), bits(MODEL.predict(DATA.X))
    with open(path, "r+b") as file:
        file.write(b"\xff" * 1000)
        file.truncate(10)
    assert bits(model.predict(DATA.X)) == expected
    with pytest.raises(shore.ModelFileError):
        shore.load(path)
