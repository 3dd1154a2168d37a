import ctypes
import gc
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import reference
import through_c

import shore

DTYPES = [np.float32, np.float64]
CONSTRAINTS = ["real", "nonneg", "binary", shore.Box(-0.1, 0.7), shore.Box(0, np.inf), shore.Simplex(2.5)]
K, M = 700, 90


def compression(kind, dtype, n_outputs=K, n_components=M):
    if kind == "head_tail":
        weights = np.random.default_rng(0).pareto(1.0, n_outputs)
        return shore.HeadTailCompression(n_components, weights, dtype=dtype)
    if kind == "matrix":
        matrix = np.random.default_rng(0).normal(size=(n_components, n_outputs)) / 9
        return shore.MatrixCompression(matrix.astype(dtype))
    if kind == "gaussian":
        return shore.GaussianCompression(n_components, n_outputs, dtype=dtype)
    return shore.SparseSignCompression(n_components, n_outputs, dtype=dtype)


KINDS = ["sparse_sign", "gaussian", "head_tail", "matrix"]


def rows(n, dtype, n_components=M, seed=1):
    return np.random.default_rng(seed).normal(size=(n, n_components)).astype(dtype)


# ---------------------------------------------------------------- the table


def test_the_table_is_of_the_version_and_size_that_it_says():
    assert through_c.api.abi_version == shore.capi.ABI_VERSION == 1
    assert through_c.api.size == ctypes.sizeof(through_c.Api)


def test_shape_of_phi():
    for dtype in DTYPES:
        capsule = shore.capi.phi(compression("sparse_sign", dtype))
        m, k, is_double = ctypes.c_int64(), ctypes.c_int64(), ctypes.c_int()
        through_c.api.phi_shape(through_c.borrow(capsule), m, k, is_double)
        assert (m.value, k.value, is_double.value) == (M, K, dtype is np.float64)


def test_phi_refuses_what_is_no_compression():
    with pytest.raises(TypeError, match=r"compression must be a compression such as .* got ndarray"):
        shore.capi.phi(np.eye(3))


def test_a_capsule_keeps_phi():
    B = rows(5, np.float32)
    phi = compression("gaussian", np.float32)
    expected = shore.decode(B, phi, 3)
    capsule = shore.capi.phi(phi)
    del phi
    gc.collect()
    code, found = through_c.decode(B, capsule, through_c.decoding_of(3))
    assert code == 0
    reference.assert_same_bits(found.csr(K), expected)


def test_capsules_give_phi_back():
    phi = compression("sparse_sign", np.float32)
    before = sys.getrefcount(phi._phi)
    capsules = [shore.capi.phi(phi) for _ in range(10)]
    during = sys.getrefcount(phi._phi)
    del capsules
    after = sys.getrefcount(phi._phi)
    assert (during - before, after - before) == (10, 0)


# ---------------------------------------------------------------- same bits as from Python


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=str)
@pytest.mark.parametrize("sparsity", [1, 5, 40, K])
def test_projection(dtype, constraint, sparsity):
    V = np.random.default_rng(0).normal(size=(7, K)).astype(dtype).round(2)  # with ties
    found = through_c.project(V, sparsity, constraint)
    reference.assert_same_bits(found.csr(K), shore.project(V, sparsity, constraint))
    denied = np.arange(K) % 3 == 0
    found = through_c.project(V, sparsity, constraint, forbidden=denied)
    reference.assert_same_bits(found.csr(K), shore.project(V, sparsity, constraint, denied=denied))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 3, 50])
@pytest.mark.parametrize("constraint", ["real", "nonneg", shore.Simplex()], ids=str)
def test_full_pass(dtype, kind, n, constraint):
    R, phi = rows(n, dtype), compression(kind, dtype)
    code, found = through_c.full_pass(R, shore.capi.phi(phi), 4, constraint)
    assert code == 0
    reference.assert_same_bits(found.csr(K), shore.decode(R, phi, 4, method="cd", constraint=constraint))
    correlations = R.astype(np.float64) @ phi.toarray().astype(np.float64)
    expected = shore.project(correlations, 4, constraint)
    np.testing.assert_array_equal(found.csr(K).indices, expected.indices)
    np.testing.assert_allclose(found.csr(K).data, expected.data, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 5, 80])
@pytest.mark.parametrize("method", ["pgd", "cd", "omp"])
def test_decode(dtype, kind, n, method):
    B, phi = rows(n, dtype), compression(kind, dtype)
    denied = np.arange(K) % 5 == 0
    for constraint in CONSTRAINTS:
        options = {"method": method, "constraint": constraint, "decode_sparsity": 6, "step": 0.7, "max_iter": 9}
        outcome = np.zeros(n, dtype=through_c.OUTCOME)
        code, found = through_c.decode(
            B, shore.capi.phi(phi), through_c.decoding_of(4, **options), forbidden=denied, outcome=outcome
        )
        expected, info = shore.decode(B, phi, 4, denied=denied, return_info=True, **options)
        assert code == 0
        reference.assert_same_bits(found.csr(K), expected)
        for name in ("n_iter", "full_passes", "residual", "step", "converged"):
            np.testing.assert_array_equal(outcome[name], getattr(info, name), err_msg=name)


def test_defaults_are_those_of_python():
    B, phi = rows(40, np.float32), compression("sparse_sign", np.float32)
    code, found = through_c.decode(B, shore.capi.phi(phi), through_c.decoding_of(3))
    assert code == 0
    reference.assert_same_bits(found.csr(K), shore.decode(B, phi, 3))


def test_a_workspace_does_for_fewer_rows_and_for_other_calls():
    B, phi = rows(60, np.float32), compression("gaussian", np.float32)
    capsule, decoding = shore.capi.phi(phi), through_c.decoding_of(3)
    workspace = through_c.Workspace(through_c.api.decode_workspace(through_c.borrow(capsule), decoding, 60))
    for n in (60, 1, 47, 2, 60):
        code, found = through_c.decode(B[:n], capsule, decoding, workspace=workspace)
        assert code == 0
        reference.assert_same_bits(found.csr(K), shore.decode(B[:n], phi, 3))


def test_workspaces_do_not_shrink_with_rows():
    capsule = shore.capi.phi(shore.SparseSignCompression(800_000, 50))  # so large that not all lanes are used
    decoding = through_c.decoding_of(2)
    sizes = [through_c.api.decode_workspace(through_c.borrow(capsule), decoding, n) for n in range(1, 40)]
    assert sizes == sorted(sizes)
    assert 10 * sizes[0] < sizes[4] < sizes[-1] < 2**28
    assert sizes[-1] - sizes[20] == 18 * through_c.OUTCOME.itemsize


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_threads(dtype):
    B, phi = rows(200, dtype), compression("sparse_sign", dtype)
    capsule, decoding = shore.capi.phi(phi), through_c.decoding_of(3, constraint="nonneg")
    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda i: through_c.decode(B[i : i + 5], capsule, decoding), range(0, 200, 5)))
    expected = shore.decode(B, phi, 3, constraint="nonneg")
    for number, (code, found) in enumerate(parts):
        assert code == 0
        reference.assert_same_bits(found.csr(K), expected[5 * number : 5 * number + 5])


# ---------------------------------------------------------------- what is refused


def test_no_rows():
    code, _ = through_c.decode(
        rows(0, np.float32), shore.capi.phi(compression("sparse_sign", np.float32)), through_c.decoding_of(3)
    )
    assert code == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite(dtype, bad):
    B, phi = rows(6, dtype), compression("sparse_sign", dtype)
    expected = shore.decode(B, phi, 3)
    B[2, 5] = bad
    for code, found in (
        through_c.decode(B, shore.capi.phi(phi), through_c.decoding_of(3)),
        through_c.full_pass(B, shore.capi.phi(phi), 3),
    ):
        assert code == 0
        assert (np.flatnonzero(found.count < 0) == [2]).all()
        assert found.count[2] == -1
    found = through_c.decode(B, shore.capi.phi(phi), through_c.decoding_of(3))[1]
    found.count[2] = 0
    found.index[2] = found.value[2] = -7
    reference.assert_same_bits(found.csr(K)[[0, 1, 3, 4, 5]], expected[[0, 1, 3, 4, 5]])
    V = np.zeros((1, K), dtype=dtype)
    V[0, 13] = bad
    assert through_c.project(V, 2).count[0] == -1
    assert b"NaN or infinity" in through_c.api.message(-1)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"sparsity": 0}, "sparsity"),
        ({"sparsity": K + 1}, "sparsity"),
        ({"decode_sparsity": -1}, "decode_sparsity"),
        ({"method": 3}, "method"),
        ({"method": -1}, "method"),
        ({"max_iter": 0}, "max_iter"),
        ({"step": 0.0}, "step"),
        ({"step": np.inf}, "step"),
        ({"step": np.nan}, "step"),
        ({"tol": -1e-9}, "tol"),
        ({"tol": np.nan}, "tol"),
        ({"constraint": through_c.Constraint(5, 0, 0, 0)}, "constraint"),
        ({"constraint": through_c.Constraint(3, 0.5, 1, 0)}, "constraint"),
        ({"constraint": through_c.Constraint(3, np.nan, 1, 0)}, "constraint"),
        ({"constraint": through_c.Constraint(4, 0, 0, -1)}, "constraint"),
        ({"constraint": through_c.Constraint(4, 0, 0, 1e30)}, "constraint"),
    ],
    ids=str,
)
def test_arguments_that_are_refused(options, argument):
    capsule = shore.capi.phi(compression("sparse_sign", np.float32))
    decoding = through_c.decoding_of(3)
    for name, value in options.items():
        setattr(decoding, name, value)
    if argument != "constraint":
        assert through_c.api.decode_workspace(through_c.borrow(capsule), decoding, 2) == 0
    workspace = through_c.Workspace(1 << 20)
    code, _ = through_c.decode(rows(2, np.float32), capsule, decoding, workspace=workspace)
    assert code < -1
    assert argument in through_c.api.message(code).decode()
    assert (workspace.memory == 0xA5).all()


def test_other_arguments_that_are_refused():
    api = through_c.api
    capsule = shore.capi.phi(compression("sparse_sign", np.float64))
    code, _ = through_c.decode(rows(2, np.float32), capsule, through_c.decoding_of(3))
    assert b"phi must be of the dtype" in api.message(code)
    code, _ = through_c.full_pass(rows(2, np.float32), capsule, 3)
    assert b"phi must be of the dtype" in api.message(code)
    V = rows(1, np.float32)
    assert b"sparsity" in api.message(int(through_c.project(V, M + 1).count[0]))
    assert b"constraint" in api.message(int(through_c.project(V, 2, shore.Simplex(1e30)).count[0]))
    code = through_c.project(V, 2, shore.Simplex(), forbidden=np.ones(M)).count[0]
    assert b"forbidden must leave an output" in api.message(int(code))
    code = api.project_float(V.ctypes.data, 0, through_c.Constraint(), 1, None, None, None, None)
    assert b"n_outputs" in api.message(code)
    phi = through_c.borrow(capsule)
    for n_rows in (-1, 2**48 + 1, 2**63 - 1):
        assert api.full_pass_workspace(phi, 1, n_rows) == 0
        assert api.decode_workspace(phi, through_c.decoding_of(1), n_rows) == 0
        code = api.decode_double(phi, None, n_rows, through_c.decoding_of(1), None, None, None, None, None, None)
        assert b"n_rows" in api.message(code)
    assert api.message(0) == b"no error"
    assert api.message(1234) == b"not a code of shore"


# ---------------------------------------------------------------- the header

MODULE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "shore.h"

static PyObject *shape(PyObject *self, PyObject *capsule) {
    const shore_api *shore = import_shore();
    const shore_phi *phi = shore ? shore_borrow_phi(capsule) : NULL;
    int64_t m, k;
    int is_double;
    if (!phi) return NULL;
    shore->phi_shape(phi, &m, &k, &is_double);
    return Py_BuildValue("LLi", (long long)m, (long long)k, is_double);
}

static PyMethodDef functions[] = {{"shape", shape, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "client", NULL, -1, functions, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_client(void) { return PyModule_Create(&module); }
"""

CALL = "import shore, client; print(client.shape(shore.capi.phi(shore.SparseSignCompression(20, 300))))"


def compile_module(source, include, compiler="CC", *flags):
    command = sysconfig.get_config_var(compiler).split()
    if shutil.which(command[0]) is None:
        pytest.skip(f"no compiler {command[0]}")
    target = source.with_name(f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}")
    subprocess.run(
        [*command, "-shared", "-fPIC", "-Wall", "-Werror", *flags, f"-I{include}",
         f"-I{sysconfig.get_path('include')}", str(source), "-o", str(target)],
        check=True,
    )  # fmt: skip


def compile_client(folder, include, compiler="CC", *flags):
    source = folder / ("client.cc" if compiler == "CXX" else "client.c")
    source.write_text(MODULE)
    compile_module(source, include, compiler, *flags)


def call_client(folder):
    return subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {CALL}"],
                          capture_output=True, text=True)  # fmt: skip


unix = pytest.mark.skipif(sys.platform == "win32", reason="compiles with the flags of Unix compilers")


@unix
@pytest.mark.parametrize(("compiler", "standard"), [("CC", "-std=c11"), ("CXX", "-std=c++17")])
def test_header_in_c_and_cpp(compiler, standard, tmp_path):
    compile_client(tmp_path, shore.get_include(), compiler, standard)
    done = call_client(tmp_path)
    assert (done.stdout, done.stderr) == ("(20, 300, 0)\n", "")


@unix
@pytest.mark.parametrize(
    ("pattern", "replacement", "said"),
    [
        ("SHORE_ABI_VERSION 1", "SHORE_ABI_VERSION 2", r"compiled for ABI version 2 .* installed shore has version 1 "),
        ("} shore_api;", "void (*newer)(void); } shore_api;", r"with 120 bytes of functions, but .* with 112"),
    ],
)
def test_client_of_another_abi_is_refused(pattern, replacement, said, tmp_path):
    header = Path(shore.get_include(), "shore.h").read_text(encoding="utf-8")
    assert pattern in header
    (tmp_path / "shore.h").write_text(header.replace(pattern, replacement), encoding="utf-8")
    compile_client(tmp_path, tmp_path)
    done = call_client(tmp_path)
    assert done.returncode == 1
    assert re.search(f"ImportError: .*{said}", done.stderr), done.stderr


@unix
def test_other_capsules_are_refused(tmp_path):
    compile_client(tmp_path, shore.get_include())
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
         "import shore, client\nclient.shape(shore.capi.API)"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert "ValueError: PyCapsule_GetPointer called with incorrect name" in done.stderr


def blocks_of_the_page(language):
    page = (Path(__file__).parent.parent / "docs" / "embedding.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


@unix
def test_cython_of_the_documentation(tmp_path):
    (code,) = blocks_of_the_page("cython")
    (tmp_path / "documented.pyx").write_text(code, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "cython", "-3", "documented.pyx"], cwd=tmp_path, check=True)
    compile_module(tmp_path / "documented.c", shore.get_include(), "CC", "-Wno-unused-function")
    call = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import numpy as np, shore, documented\n"
        "phi = shore.SparseSignCompression(60, 500)\n"
        "B = np.random.default_rng(0).normal(size=(20, 60)).astype(np.float32)\n"
        "index, value, count = np.empty((20, 4), np.int64), np.empty((20, 4), np.float32), np.empty(20, np.int64)\n"
        "documented.decode(B, shore.capi.phi(phi), index, value, count)\n"
        "expected = shore.decode(B, phi, 4)\n"
        "print((count == 4).all(), (index.ravel() == expected.indices).all(), (value.ravel() == expected.data).all())"
    )
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True True True\n", "")


@unix
def test_c_of_the_documentation(tmp_path):
    (code,) = blocks_of_the_page("c")
    includes, body = code[: code.index("const")], code[code.index("const") :]
    parameters = "const float *row, int64_t n_outputs, int64_t sparsity, void *workspace, int64_t *index, float *value"
    (tmp_path / "documented.c").write_text(f"{includes}\nint64_t first({parameters}) {{\n{body}\nreturn count;\n}}\n")
    compile_module(tmp_path / "documented.c", shore.get_include())
    V = np.random.default_rng(0).normal(size=(1, 90)).astype(np.float32)
    slots = through_c.Slots(1, 5, np.float32)
    workspace = through_c.Workspace(through_c.api.project_workspace(5))
    library = ctypes.PyDLL(str(next(tmp_path.glob("documented*.so"))))  # it imports: with the GIL
    library.first.restype = ctypes.c_int64
    library.first.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64] + 3 * [ctypes.c_void_p]
    slots.count[0] = library.first(
        V.ctypes.data, 90, 5, workspace.address, slots.index.ctypes.data, slots.value.ctypes.data
    )
    reference.assert_same_bits(slots.csr(90), shore.project(V, 5, "nonneg"))


def test_pxd_and_header_have_the_same_functions():
    folder = Path(shore.capi.__file__).parent
    header = (folder / "include" / "shore.h").read_text(encoding="utf-8")
    pxd = (folder / "capi.pxd").read_text(encoding="utf-8")
    named = re.findall(r"\(\*(\w+)\)\(", header[header.index("int64_t abi_version") : header.index("} shore_api;")])
    assert named == re.findall(r"\(\*(\w+)\)\(", pxd)
    assert named == [name for name, _ in through_c.Api._fields_[2:]]
