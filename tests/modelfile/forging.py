"""Model files as one would rewrite them who knows the format, and the look whether they are refused."""

import hashlib
import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import shore
from shore.modelfile.header import CODES, DTYPES


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


def refused(path, match, **options):
    for mapped in (True, False):
        with pytest.raises(shore.ModelFileError, match=match) as caught:
            shore.load(path, mmap=mapped, **options)
        assert str(caught.value).startswith(f"{path}: ")
