"""The C interface by ctypes, without a compiler: the structs of shore.h, and calls that take NumPy arrays."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p

import numpy as np

import shore

KINDS = {"real": 0, "nonneg": 1, "binary": 2}
METHODS = {"pgd": 0, "cd": 1, "omp": 2}
BEHIND = 64  # bytes behind a workspace that must stay as they are


class Constraint(Structure):
    _fields_ = [("kind", c_int), ("low", c_double), ("high", c_double), ("total", c_double)]

    @classmethod
    def of(cls, constraint):
        if isinstance(constraint, shore.Box):
            return cls(3, constraint.low, constraint.high, 0)
        if isinstance(constraint, shore.Simplex):
            return cls(4, 0, 0, constraint.total)
        return cls(KINDS[constraint], 0, 0, 0)


class Decoding(Structure):
    _fields_ = [
        ("method", c_int), ("constraint", Constraint), ("sparsity", c_int64), ("decode_sparsity", c_int64),
        ("max_iter", c_int64), ("step", c_double), ("tol", c_double),
    ]  # fmt: skip


OUTCOME = np.dtype([("n_iter", "i8"), ("full_passes", "i8"), ("residual", "f8"), ("step", "f8"), ("converged", "i8")])

PROJECT = CFUNCTYPE(c_int64, c_void_p, c_int64, POINTER(Constraint), c_int64, c_void_p, c_void_p, c_void_p, c_void_p)
FULL_PASS = CFUNCTYPE(
    c_int, c_void_p, c_void_p, c_int64, POINTER(Constraint), c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p
)
DECODE = CFUNCTYPE(
    c_int, c_void_p, c_void_p, c_int64, POINTER(Decoding), c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p
)


class Api(Structure):
    _fields_ = [
        ("abi_version", c_int64),
        ("size", c_int64),
        ("message", CFUNCTYPE(c_char_p, c_int)),
        ("phi_shape", CFUNCTYPE(None, c_void_p, POINTER(c_int64), POINTER(c_int64), POINTER(c_int))),
        ("project_workspace", CFUNCTYPE(c_size_t, c_int64)),
        ("project_float", PROJECT),
        ("project_double", PROJECT),
        ("full_pass_workspace", CFUNCTYPE(c_size_t, c_void_p, c_int64, c_int64)),
        ("full_pass_float", FULL_PASS),
        ("full_pass_double", FULL_PASS),
        ("decode_defaults", CFUNCTYPE(None, POINTER(Decoding))),
        ("decode_workspace", CFUNCTYPE(c_size_t, c_void_p, POINTER(Decoding), c_int64)),
        ("decode_float", DECODE),
        ("decode_double", DECODE),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]

api = Api.from_address(_pointer(shore.capi.API, b"shore.capi.API"))


def borrow(capsule):
    return _pointer(capsule, b"shore.capi.phi")


def decoding_of(sparsity, **options):
    decoding = Decoding()
    api.decode_defaults(decoding)
    decoding.sparsity = sparsity
    for name, value in options.items():
        setattr(decoding, name, {"constraint": Constraint.of, "method": METHODS.get}.get(name, lambda v: v)(value))
    return decoding


class Workspace:
    """Memory full of other things that starts where it will, and ends where something else begins."""

    def __init__(self, size, *, shift=1):
        self.memory = np.full(shift + size + BEHIND, 0xA5, dtype=np.uint8)
        self.shift, self.size = shift, size

    @property
    def address(self):
        return self.memory.ctypes.data + self.shift

    def assert_kept_to(self):
        assert (self.memory[: self.shift] == 0xA5).all()
        assert (self.memory[self.shift + self.size :] == 0xA5).all()


class Slots:
    """Room for results, marked, so that what is not written shows."""

    def __init__(self, n, sparsity, dtype):
        self.index = np.full((n, sparsity), -7, dtype=np.int64)
        self.value = np.full((n, sparsity), -7, dtype=dtype)
        self.count = np.full(n, -7, dtype=np.int64)

    def csr(self, n_outputs):
        for row, count in enumerate(self.count):
            assert 0 <= count <= self.index.shape[1]
            assert (self.index[row, count:] == -7).all()
            assert (self.value[row, count:] == -7).all()
        return shore.projection.csr_from_slots(self.index, self.value, self.count, n_outputs)


def _bytes_or_null(forbidden):
    return None if forbidden is None else np.ascontiguousarray(forbidden, dtype=np.uint8)


def _address(array):
    return None if array is None else array.ctypes.data


def project(V, sparsity, constraint="real", *, forbidden=None):
    call = api.project_float if V.dtype == np.float32 else api.project_double
    slots = Slots(len(V), sparsity, V.dtype)
    workspace = Workspace(api.project_workspace(sparsity))
    mask = _bytes_or_null(forbidden)
    for i in range(len(V)):
        slots.count[i] = call(
            V[i].ctypes.data, V.shape[1], Constraint.of(constraint), sparsity, _address(mask), workspace.address,
            slots.index[i].ctypes.data, slots.value[i].ctypes.data,
        )  # fmt: skip
    workspace.assert_kept_to()
    return slots


def full_pass(R, capsule, sparsity, constraint="real", *, forbidden=None):
    call = api.full_pass_float if R.dtype == np.float32 else api.full_pass_double
    phi, mask = borrow(capsule), _bytes_or_null(forbidden)
    slots = Slots(len(R), sparsity, R.dtype)
    workspace = Workspace(api.full_pass_workspace(phi, sparsity, len(R)))
    code = call(
        phi, R.ctypes.data, len(R), Constraint.of(constraint), sparsity, _address(mask), workspace.address,
        slots.index.ctypes.data, slots.value.ctypes.data, slots.count.ctypes.data,
    )  # fmt: skip
    workspace.assert_kept_to()
    return code, slots


def decode(B, capsule, decoding, *, forbidden=None, outcome=None, workspace=None):
    call = api.decode_float if B.dtype == np.float32 else api.decode_double
    phi, mask = borrow(capsule), _bytes_or_null(forbidden)
    slots = Slots(len(B), max(decoding.sparsity, 1), B.dtype)
    workspace = workspace or Workspace(api.decode_workspace(phi, decoding, len(B)))
    code = call(
        phi, B.ctypes.data, len(B), decoding, _address(mask), workspace.address, slots.index.ctypes.data,
        slots.value.ctypes.data, slots.count.ctypes.data, _address(outcome),
    )  # fmt: skip
    workspace.assert_kept_to()
    return code, slots
