"""Model files: refused with ModelFileError, or a model that predicts as a model should.

Every input is tried as it is, and once more with all its checksums put right, so that what is damaged gets past them.
"""

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import warnings

import atheris

with atheris.instrument_imports(include=["shore.modelfile"]):
    import shore

import numpy as np

warnings.simplefilter("error")
PATH = os.path.join(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None), "m.shore")


def repaired(data):
    """The file with the checksums that its contents should have; None where there is nothing to put right."""
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length])
        metadata, body = header["__metadata__"], data[8 + length :]
        document = json.loads(metadata["model"])
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found = hashlib.sha256(body[begin:end]).hexdigest()
                document["tensors"][name] = {"dtype": entry["dtype"], "shape": entry["shape"], "sha256": found}
        metadata["model"] = json.dumps(document)
        metadata.pop("sha256", None)
        text = json.dumps(metadata, sort_keys=True, separators=(",", ":"))
        metadata["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        new = json.dumps(header).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, UnicodeError):
        return None
    new += b" " * (-len(new) % 8)
    return len(new).to_bytes(8, "little") + new + body


def try_file(data):
    """Load it in every way and use what was loaded."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(PATH)  # a mapped model may still have the old one
    with open(PATH, "wb") as file:
        file.write(data)
    predicted = []
    for mmap in (False, True):
        for verify in (True, False):
            try:
                model = shore.load(PATH, mmap=mmap, verify=verify)
            except shore.ModelFileError:
                continue
            if model.n_features_in_ > 1 << 20:
                continue
            X = np.linspace(-1, 1, 3 * model.n_features_in_, dtype=np.float32).reshape(3, -1)
            try:
                Y = model.predict(X, n_threads=1)
            except ValueError as error:  # W may not be finite where nobody looked
                if verify and "too large" not in str(error):
                    raise
                continue
            Y.check_format(full_check=True)
            assert Y.has_canonical_format
            assert np.isfinite(Y.data).all()
            assert (np.diff(Y.indptr) <= model.sparsity).all()
            predicted.append((Y.indptr.tobytes(), Y.indices.tobytes(), Y.data.tobytes()))
    assert len(set(predicted)) <= 1, "the ways to load a file differ"


def check(data):
    """One input."""
    try_file(data)
    if (again := repaired(data)) is not None:
        try_file(again)


atheris.Setup(sys.argv, check)
atheris.Fuzz()
