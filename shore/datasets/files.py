"""Data sets in folders: SciPy's matrices or text of the Extreme Classification Repository."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from shore._validation import canonical_csr, check_number, check_seed, float_dtype, working_dtype
from shore.datasets.xmc import load_xmc

__all__ = ["Dataset", "find_files", "load_dataset", "load_files", "load_npz", "load_pair", "split_rows"]

_FOUR = ("X_train.npz", "Y_train.npz", "X_test.npz", "Y_test.npz")
_TWO = ("X.npz", "Y.npz")
_LOOKED_FOR = (
    f"{', '.join(_FOUR)}; or {' and '.join(_TWO)}; or two files *.txt or *.txt.gz with 'train' or 'trn' and "
    "'test' or 'tst' in their names; or one file *.txt or *.txt.gz"
)

Pair = tuple[sparse.csr_array, sparse.csr_array]


@dataclass(frozen=True)
class Dataset:
    """What `load_dataset` returns.

    Attributes
    ----------
    name : str
        Of the folder or file.
    X_train, X_test : csr_array of shape (n, d)
        Inputs.
    Y_train, Y_test : csr_array of shape (n, K)
        Outputs.
    """

    name: str
    X_train: sparse.csr_array
    Y_train: sparse.csr_array
    X_test: sparse.csr_array
    Y_test: sparse.csr_array


def load_npz(path: Path, dtype: np.dtype[Any]) -> sparse.csr_array:
    """A matrix as scipy.sparse.save_npz writes it: canonical, finite, without zeros. No pickles are read.

    Parameters
    ----------
    path : Path
    dtype : dtype
    """
    try:
        with open(path, "rb") as file:
            stored = sparse.load_npz(file)
    except OSError:
        raise
    except Exception as error:  # zipfile, zlib, NumPy and SciPy each raise their own
        raise ValueError(f"{path}: not a matrix of scipy.sparse.save_npz: {error}") from None
    working_dtype(stored.dtype, str(path))
    if stored.ndim != 2:
        raise ValueError(f"{path}: expected a matrix, got shape {stored.shape}")
    csr: Any = canonical_csr(stored, str(path))
    with np.errstate(over="ignore"):  # what overflows is refused below
        csr = csr.astype(dtype, copy=False)
    if not np.isfinite(csr.data).all():
        raise ValueError(f"{path}: values must be finite in {dtype}")
    csr.eliminate_zeros()
    return sparse.csr_array(csr)


def load_pair(x_path: Path, y_path: Path, dtype: np.dtype[Any]) -> Pair:
    """Inputs and outputs of the same rows, each in a file ``.npz``.

    Parameters
    ----------
    x_path, y_path : Path
    dtype : dtype
    """
    X, Y = load_npz(x_path, dtype), load_npz(y_path, dtype)
    if X.shape[0] != Y.shape[0]:
        raise ValueError(
            f"{x_path} and {y_path.name} must have the same number of rows, got {X.shape[0]} and {Y.shape[0]}"
        )
    return X, Y


def split_rows(X: sparse.csr_array, Y: sparse.csr_array, test_share: float, seed: int) -> tuple[Pair, Pair]:
    """A random part of the rows for testing, the others for training; both in their order in the file.

    Parameters
    ----------
    X, Y : csr_array
    test_share : float
    seed : int

    Returns
    -------
    train, test : (X, Y)
    """
    n = X.shape[0]
    if n < 2:
        raise ValueError(f"a data set to split needs at least 2 rows, got {n}")
    n_test = min(max(1, round(n * test_share)), n - 1)
    order = np.random.default_rng(seed).permutation(n)
    test, train = np.sort(order[:n_test]), np.sort(order[n_test:])
    return (X[train], Y[train]), (X[test], Y[test])


def _agree(train: Pair, test: Pair, train_name: str, test_name: str) -> None:
    for what, a, b in (("features", train[0], test[0]), ("outputs", train[1], test[1])):
        if a.shape[1] != b.shape[1]:
            raise ValueError(
                f"training and test rows must have the same {what}, but {train_name} has {a.shape[1]} and "
                f"{test_name} has {b.shape[1]}"
            )


def _text_files(names: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The names of text files: all, those of training rows, and those of test rows."""
    # The repository's older sets come with lists of row numbers, *Split.txt: no data.
    texts = [name for name in names if re.search(r"\.txt(\.gz)?$", name, re.IGNORECASE) and "split" not in name.lower()]
    train = [name for name in texts if re.search("train|trn", name, re.IGNORECASE)]
    test = [name for name in texts if re.search("test|tst", name, re.IGNORECASE)]
    return texts, train, test


Files = tuple[Path, ...]


def find_files(folder: Path) -> tuple[Files, Files | None]:
    """The files of training and of test rows, or of all rows and None if they are not split.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    train, test : tuple of Path
        X and Y in two files ``.npz``, or one text file.
    """
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    present = [name for name in _FOUR if name in names]
    if len(present) == 4:
        paths = tuple(folder / name for name in _FOUR)
        return paths[:2], paths[2:]
    if present:
        missing = [name for name in _FOUR if name not in names]
        raise ValueError(f"{folder} holds {', '.join(present)}, but not {', '.join(missing)}")
    if all(name in names for name in _TWO):
        return tuple(folder / name for name in _TWO), None

    texts, trains, tests = _text_files(names)
    if len(trains) == len(tests) == 1 and trains != tests:
        return (folder / trains[0],), (folder / tests[0],)
    if len(texts) == 1:
        return (folder / texts[0],), None
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    raise ValueError(f"{folder} is no data set: looked for {_LOOKED_FOR}; found {shown or 'no files'}")


def dataset_name(path: str | os.PathLike[str]) -> str:
    """What `load_dataset` calls a folder or file."""
    place = Path(path)
    if place.is_dir():
        return place.resolve().name
    return re.sub(r"(\.txt)?(\.gz)?$", "", place.name, flags=re.IGNORECASE)


def load_files(files: Files, dtype: np.dtype[Any]) -> Pair:
    """X and Y of files as `find_files` gives them.

    Parameters
    ----------
    files : tuple of Path
    dtype : dtype
    """
    return load_xmc(files[0], dtype=dtype) if len(files) == 1 else load_pair(files[0], files[1], dtype)


def _load_folder(folder: Path, dtype: np.dtype[Any]) -> tuple[Pair, Pair | None]:
    """Training and test rows, or all rows and None if they are not split."""
    train_files, test_files = find_files(folder)
    train = load_files(train_files, dtype)
    if test_files is None:
        return train, None
    test = load_files(test_files, dtype)
    if len(train_files) == 2:
        _agree(train, test, str(folder / "*_train.npz"), "*_test.npz")
    else:
        _agree(train, test, str(train_files[0]), test_files[0].name)
    return train, test


def load_dataset(
    path: str | os.PathLike[str],
    *,
    test_share: float = 0.2,
    seed: int = 0,
    dtype: npt.DTypeLike = np.float32,
) -> Dataset:
    """Read a data set: training and test rows.

    Parameters
    ----------
    path : str or os.PathLike
        A folder that holds one of these, the first that is there:

        - ``X_train.npz``, ``Y_train.npz``, ``X_test.npz``, ``Y_test.npz``, as `scipy.sparse.save_npz` writes them;
        - ``X.npz`` and ``Y.npz``;
        - two files that `load_xmc` reads, ``*.txt`` or ``*.txt.gz``, the one with "train" or "trn" in its name and the
          other with "test" or "tst" (names with "split" in them do not count);
        - one such file.

        Or such a file itself.
    test_share : float, default 0.2
        The share of rows for testing, where the data is not split yet.
    seed : int, default 0
        Of that random split.
    dtype : float32 or float64, default float32

    Returns
    -------
    Dataset
        With attributes name, X_train, Y_train, X_test and Y_test, the matrices csr_array in canonical form.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from shore.datasets import load_dataset, save_xmc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "tiny.txt")
    ...     save_xmc(path, [[0.5, 0], [0, 1], [1, 1], [2, 0]], [[1, 0, 0], [0, 1, 1], [0, 0, 1], [1, 0, 0]])
    ...     data = load_dataset(path, test_share=0.25)
    >>> data.name, data.X_train.shape, data.Y_test.shape
    ('tiny', (3, 2), (1, 3))
    """
    kind = float_dtype(dtype)
    share = check_number(test_share, "test_share", "a number between 0 and 1", 0, 1)
    check_seed(seed, "seed")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a str or os.PathLike, got {path!r} of type {type(path).__name__}")
    place = Path(path)
    test: Pair | None = None
    if place.is_dir():
        train, test = _load_folder(place, kind)
    elif place.exists():
        train = load_xmc(place, dtype=kind)
    else:
        raise FileNotFoundError(f"path must be a folder or a file, but {place} does not exist")
    if test is None:
        train, test = split_rows(*train, share, seed)
    return Dataset(dataset_name(place), *train, *test)
