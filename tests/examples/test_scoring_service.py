"""The scoring service: it answers as the Python API does, refuses what is wrong, and holds under load."""

import contextlib
import hashlib
import http.client
import importlib.util
import json
import re
import socket
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import shore

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
with warnings.catch_warnings():  # newer ones would rather have another client library
    warnings.filterwarnings("ignore", message="Using `httpx` with `starlette.testclient`")
    from fastapi.testclient import TestClient

FOLDER = Path(__file__).parents[2] / "examples" / "scoring_service"
D, K, S = 60, 90, 4
LIMITS = {"max_body_bytes": 20_000, "max_features": 30, "max_rows": 20, "max_top_features": 8}


@pytest.fixture(autouse=True)
def _scripts_find_each_other(monkeypatch):
    # Their folder is on the path of a script, and that of the source tree is not.
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)


def load_module(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def modules():
    """The scripts, which import each other by name as they do when they are run."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("app", "serve", "make_model", "load_test"):
            patch.delitem(sys.modules, name, raising=False)
        loaded = {name: load_module(name) for name in ("app", "serve", "make_model", "load_test")}
        yield loaded
        for name in loaded:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def app(modules):
    return modules["app"]


@pytest.fixture(scope="module")
def rows(modules):
    return modules["make_model"].tagged_texts(400, D, K, seed=1)


@pytest.fixture(scope="module")
def path(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("service") / "model.shore"
    shore.ShoreRegressor(S, n_components=48, fit_intercept=True, random_state=3).fit(*rows).save(path)
    sparse.save_npz(path.with_suffix(".rows.npz"), rows[0])
    return path


@pytest.fixture(scope="module")
def model(path):
    return shore.load(path)


@contextlib.contextmanager
def serving(app, path, **options):
    with TestClient(app.create_app(path, **options)) as client:
        yield client


@pytest.fixture(scope="module")
def client(app, path):
    with serving(app, path, limits=app.Limits(**LIMITS), n_threads=1) as client:
        yield client


def as_json(X, i):
    here = slice(X.indptr[i], X.indptr[i + 1])
    return {"indices": X.indices[here].tolist(), "values": [float(v) for v in X.data[here]]}


def entries(answer):
    """Sorted by output, in the model's dtype: as `predict` has them."""
    pairs = sorted((entry["output"], entry["value"]) for entry in answer["outputs"])
    return [j for j, _ in pairs], np.array([v for _, v in pairs], dtype=np.float32)


def assert_same(answer, found, i=0):
    outputs, values = entries(answer)
    here = slice(found.indptr[i], found.indptr[i + 1])
    assert outputs == found.indices[here].tolist()
    assert values.tobytes() == found.data[here].tobytes()


# ---------------------------------------------------------------- answers


def test_single_rows_are_those_of_predict(client, model, rows):
    X = rows[0]
    found, from_dense = model.predict(X[:40]), model.predict(X[:40].toarray())
    assert found.nnz > 40
    for i in range(40):
        answer = client.post("/predict", json=as_json(X, i))
        assert answer.status_code == 200
        assert_same(answer.json(), found, i)
        assert_same(client.post("/predict", json={"dense": X[[i]].toarray()[0].tolist()}).json(), from_dense, i)


def test_outputs_come_by_value_and_without_names_that_nobody_gave(client, rows):
    outputs = client.post("/predict", json=as_json(rows[0], 0)).json()["outputs"]
    values = [entry["value"] for entry in outputs]
    assert len(values) > 1
    assert values == sorted(values, reverse=True)
    assert all(set(entry) == {"output", "value"} for entry in outputs)


def test_the_order_of_features_changes_no_bit(client, model, rows):
    row = as_json(rows[0], 5)
    turned = {name: entries[::-1] for name, entries in row.items()}
    assert_same(client.post("/predict", json=turned).json(), model.predict(rows[0][[5]]))
    many = client.post("/predict_many", json={"rows": [turned]}).json()["rows"]
    assert_same(many[0], model.predict(rows[0][[5]]))


@pytest.mark.parametrize("lists", [
    {"allowed": [3, 5, 7, 9, 11, 80]}, {"denied": list(range(0, K, 2))}, {"allowed": [1, 2, 3], "denied": [2]},
    {"allowed": []}, {"denied": []}, {"denied": [4, 4]},
])  # fmt: skip
def test_lists_are_those_of_predict(client, model, rows, lists):
    X = rows[0][:15]
    found = model.predict(X, **{name: np.array(which, dtype=np.int64) for name, which in lists.items()})
    many = client.post("/predict_many", json={"rows": [as_json(X, i) for i in range(15)], **lists}).json()["rows"]
    assert len(many) == 15
    for i in range(15):
        assert_same(many[i], found, i)
        assert_same(client.post("/predict", json={**as_json(X, i), **lists}).json(), found, i)


def test_many_dense_rows_are_those_of_predict(client, model, rows):
    dense = rows[0][:9].toarray()
    many = client.post("/predict_many", json={"rows": [{"dense": row.tolist()} for row in dense]}).json()["rows"]
    for i, answer in enumerate(many):
        assert_same(answer, model.predict(dense), i)


def test_rows_without_features_are_rows_of_zeros(client, model):
    nothing = {"indices": [], "values": []}
    found = model.predict(sparse.csr_array((1, D), dtype=np.float32))
    assert_same(client.post("/predict", json=nothing).json(), found)
    assert_same(client.post("/predict_many", json={"rows": [nothing]}).json()["rows"][0], found)


@pytest.mark.parametrize("extra", [{}, {"top_features": 2}, {"denied": list(range(0, K, 2)), "top_features": 3}])
def test_explanations_are_those_of_the_model(client, model, rows, extra):
    lists = {name: np.array(which) for name, which in extra.items() if name == "denied"}
    why = model.explain(rows[0][[2]], extra.get("top_features", 8), **lists)
    outputs = client.post("/explain", json={**as_json(rows[0], 2), **extra}).json()["outputs"]
    assert len(outputs) > 1
    lines = [
        (entry["output"], entry["value"], entry["score"], told["feature"], told["contribution"])
        for entry in sorted(outputs, key=lambda entry: entry["output"])
        for told in entry["features"]
    ]
    expected = zip(why.output, why.value, why.score, why.feature, why.contribution, strict=True)
    assert len(lines) == len(why)
    for line, (output, value, score, feature, contribution) in zip(lines, expected, strict=True):
        assert line == (output, pytest.approx(value, rel=1e-7), score, feature, contribution)
    assert -1 in why.feature or extra  # the intercept is told too


def test_labels_name_the_outputs(app, path, rows, modules, tmp_path):
    names = [f"tag {j} “quoted”" for j in range(K)]
    (tmp_path / "labels.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    labels = app.read_labels(tmp_path / "labels.txt")
    assert labels == names
    with serving(app, path, labels=labels) as client:
        for where in ("/predict", "/explain"):
            outputs = client.post(where, json=as_json(rows[0], 0)).json()["outputs"]
            assert outputs
            assert all(entry["name"] == names[entry["output"]] for entry in outputs)
        assert client.get("/model").json()["labels"] is True
    with pytest.raises(ValueError, match="must name 90 outputs, got 2"):
        app.create_app(path, labels=["a", "b"])


def test_health_and_model(client, path, model):
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    assert client.get("/health").json() == {"status": "ok", "model": checksum[:12]}
    about = client.get("/model").json()
    assert about["file"] == {
        "bytes": path.stat().st_size, "sha256": checksum, "format_version": 1, "written_by_shore": shore.__version__,
    }  # fmt: skip
    assert (about["n_features"], about["n_outputs"], about["n_components"], about["sparsity"]) == (D, K, 48, S)
    assert about["parameters"]["random_state"] == 3
    assert set(about["parameters"]) == set(model.get_params())
    assert about["shore_version"] == shore.__version__
    assert about["limits"] == LIMITS


@pytest.mark.parametrize("options", [
    {"dtype": np.float64}, {"compression": None}, {"compression": "gaussian"}, {"constraint": "binary"},
    {"constraint": "real"}, {"constraint": shore.Simplex(1.0), "step": 0.7}, {"constraint": shore.Box(-1.0, np.inf)},
    {"decoder": "omp"}, {"weights": "float16"},
])  # fmt: skip
def test_models_of_every_kind(app, rows, options, tmp_path):
    weights = options.get("weights")
    options = {name: value for name, value in options.items() if name != "weights"}
    model = shore.ShoreRegressor(S, n_components=48, **options).fit(*rows)
    model.save(tmp_path / "m.shore", weights=weights)
    found = shore.load(tmp_path / "m.shore").predict(rows[0][:5])
    with serving(app, tmp_path / "m.shore") as client:
        assert client.get("/model").json()["parameters"]["sparsity"] == S
        many = client.post("/predict_many", json={"rows": [as_json(rows[0], i) for i in range(5)]}).json()["rows"]
        for i in range(5):
            one = client.post("/predict", json=as_json(rows[0], i)).json()
            assert one == many[i]
            pairs = sorted((entry["output"], entry["value"]) for entry in one["outputs"])
            here = slice(found.indptr[i], found.indptr[i + 1])
            assert [j for j, _ in pairs] == found.indices[here].tolist()
            assert np.array([v for _, v in pairs], dtype=found.dtype).tobytes() == found.data[here].tobytes()
        assert client.post("/explain", json=as_json(rows[0], 0)).status_code == 200


# ---------------------------------------------------------------- refusals


def refused(client, where, field, message, status=422, **request):
    answer = client.post(where, **request)
    assert answer.status_code == status, answer.text
    assert len(answer.content) < 5000
    detail = answer.json()["detail"]
    assert any(error["field"] == field and re.search(message, error["message"]) for error in detail), detail


GOOD = {"indices": [1, 2], "values": [0.5, 1.0]}


@pytest.mark.parametrize(("change", "field", "message"), [
    ({"indices": [1, D]}, "indices[1]", f"less than {D}"),
    ({"indices": [-1, 2]}, "indices[0]", "greater than or equal to 0"),
    ({"indices": [1, 10**30]}, "indices[1]", f"less than {D}"),
    ({"indices": [1, 1.0]}, "indices[1]", "integer"),
    ({"indices": [1, True]}, "indices[1]", "integer"),
    ({"indices": [1, "2"]}, "indices[1]", "integer"),
    ({"indices": [1, None]}, "indices[1]", "integer"),
    ({"indices": "12"}, "indices", "list"),
    ({"indices": {"1": 2}}, "indices", "list"),
    ({"indices": [[1], 2]}, "indices[0]", "integer"),
    ({"indices": [2, 2]}, "body", "indices: 2 is given twice"),
    ({"indices": [1, 2, 3]}, "body", "indices and values must be of the same length, got 3 and 2"),
    ({"indices": None}, "body", "give indices and values, or dense alone"),
    ({"values": None}, "body", "give indices and values, or dense alone"),
    ({"values": [1.0, "2.0"]}, "values[1]", "number"),
    ({"values": [1.0, False]}, "values[1]", "number"),
    ({"values": [1e39, 1.0]}, "values[0]", "less than or equal"),
    ({"values": [1.0, -1e300]}, "values[1]", "greater than or equal"),
    ({"values": [10**400, 1.0]}, "values[0]", "."),
    ({"indices": list(range(31)), "values": [1.0] * 31}, "indices", "at most 30 items"),
    ({"dense": [0.0] * D}, "body", "give indices and values, or dense alone"),
    ({"indices": None, "values": None, "dense": [0.0] * (D - 1)}, "dense", f"at least {D} items"),
    ({"indices": None, "values": None, "dense": [0.0] * (D + 1)}, "dense", f"at most {D} items"),
    ({"indices": None, "values": None, "dense": [None] * D}, "dense[0]", "number"),
    ({"indices": None, "values": None}, "body", "give indices and values, or dense alone"),
    ({"allowed": [K]}, "allowed[0]", f"less than {K}"),
    ({"denied": [-1]}, "denied[0]", "greater than or equal to 0"),
    ({"denied": ["x"]}, "denied[0]", "integer"),
    ({"allowed": 3}, "allowed", "list"),
    ({"sparsity": 3}, "body", "unknown field 'sparsity'"),
    ({"x" * 500: 3}, "body", "unknown field 'xxx"),
])  # fmt: skip
def test_a_wrong_row_is_refused_with_its_field(client, change, field, message):
    row = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    body = json.dumps(row).encode()
    for where in ("/predict", "/explain"):
        refused(client, where, field, message, content=body, headers={"content-type": "application/json"})
    if not set(change) & {"allowed", "denied"}:
        inside = "rows[1]" if field == "body" else f"rows[1].{field}"
        body = json.dumps({"rows": [GOOD, row]}).encode()
        refused(client, "/predict_many", inside, message, content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize(("request_", "field", "message"), [
    ({}, "rows", "required"),
    ({"rows": []}, "rows", "at least 1 item"),
    ({"rows": GOOD}, "rows", "list"),
    ({"rows": [GOOD] * 21}, "rows", "at most 20 items"),
    ({"rows": [GOOD, 3]}, "rows[1]", "dictionary|object"),
    ({"rows": [GOOD, {"dense": [0.0] * D}]}, "body", "rows: give all with indices and values, or all dense"),
    ({"rows": [GOOD], "denied": [K]}, "denied[0]", f"less than {K}"),
    ({"rows": [GOOD], "row": GOOD}, "body", "unknown field 'row'"),
    ({"rows": [{**GOOD, "denied": [1]}]}, "rows[0]", "unknown field 'denied'"),
])  # fmt: skip
def test_wrong_lists_of_rows_are_refused(client, request_, field, message):
    refused(client, "/predict_many", field, message, json=request_)


@pytest.mark.parametrize("top", [0, -1, 9, 2.0, "3", None, True])
def test_wrong_top_features_are_refused(client, top):
    refused(client, "/explain", "top_features", ".", json={**GOOD, "top_features": top})


UNREADABLE = [
    b"", b"{", b"[]", b"null", b"3", b'"indices"', b'{"indices": [1], "values": [0.5]', b"{'indices': [1]}",
    b"\xff\xfe", b'{"indices": ["\xff"]}', b"\x00" * 100, b'{"\\ud800": 1}', b'{"rows": [{"\\udfff": 1}]}',
    b"[" * 19_000, b'{"a":' * 3_000, b"1" * 19_000, b'{"indices": [' + b"1" * 10_000 + b'], "values": [1]}',
    *(b'{"indices": [1], "values": [%s]}' % number for number in (b"NaN", b"Infinity", b"-Infinity", b"1e999")),
    b'{"indices": [NaN], "values": [1.0]}',
    b'{"indices": [' + b'"",' * 6_000 + b'""], "values": []}', b'{"rows": [' + b"{}," * 6_000 + b"{}]}",
    b"{" + b",".join(b'"f%d": 0' % i for i in range(1500)) + b"}",
]  # fmt: skip


@pytest.mark.parametrize("body", UNREADABLE, ids=range(len(UNREADABLE)))
@pytest.mark.parametrize("where", ["/predict", "/predict_many", "/explain"])
@pytest.mark.parametrize("kind", ["application/json", "text/plain", None])
def test_what_cannot_be_read_is_refused(client, where, body, kind):
    answer = client.post(where, content=body, headers=_type(kind))
    assert answer.status_code == 422, answer.text
    assert len(answer.content) < 5000
    for error in answer.json()["detail"]:
        assert re.fullmatch(r"body|rows|(rows\[0\]\.?)?(indices|values)?(\[\d+\])?", error["field"]), error
        assert error["message"]


def _type(kind):
    return {} if kind is None else {"content-type": kind}


@pytest.mark.parametrize("where", ["/predict", "/predict_many", "/explain"])
def test_scores_that_overflow_are_refused(app, rows, where, tmp_path):
    for dtype, large in ((np.float32, 3e38), (np.float64, 1.7e308)):
        model = shore.ShoreRegressor(S, n_components=48, dtype=dtype).fit(rows[0] * 0.01, rows[1])
        model.save(tmp_path / "m.shore")
        row = {"indices": list(range(40)), "values": [large] * 40}
        with serving(app, tmp_path / "m.shore") as client:
            for given in (row, {"dense": [large] * 40 + [0.0] * (D - 40)}):
                request = {"rows": [given]} if where == "/predict_many" else given
                refused(client, where, "values", "so large", json=request)
                if where == "/predict":
                    refused(client, where, "values", "so large", json={**given, "denied": [1]})


def test_large_rows_get_an_answer_or_a_refusal(client):
    for size in (1e5, 1e10, 1e18, 1e20, 1e30, 1e37, 3.4e38):
        for sign in (1, -1):
            row = {"indices": list(range(30)), "values": [sign * size] * 30}
            for where, request in (("/predict", row), ("/predict_many", {"rows": [row]}), ("/explain", row)):
                assert client.post(where, json=request).status_code in (200, 422), (where, size)


def test_bodies_past_the_limit_are_refused(client):
    fits = json.dumps(GOOD).encode()
    padded = fits + b" " * (LIMITS["max_body_bytes"] - len(fits))
    json_type = _type("application/json")
    assert client.post("/predict", content=padded, headers=json_type).status_code == 200

    def in_pieces():  # without a Content-Length
        for _ in range(30):
            yield b" " * 1000

    for body in (padded + b" ", in_pieces()):
        answer = client.post("/predict", content=body, headers=json_type)
        assert answer.status_code == 413
        assert answer.json() == {"detail": "the body must have at most 20000 bytes"}


def test_other_paths_and_methods_are_refused(client):
    assert client.get("/nothing").status_code == 404
    assert client.get("/predict").status_code == 405
    assert client.post("/health").status_code == 405
    assert client.get("/openapi.json").status_code == 200


def test_wrong_limits_and_files_are_refused(app, path, tmp_path):
    with pytest.raises(ValueError, match="max_rows must be a positive integer, got 0"):
        app.Limits(max_rows=0)
    (tmp_path / "m.shore").write_bytes(path.read_bytes()[:-1])
    with pytest.raises(shore.ModelFileError):
        app.create_app(tmp_path / "m.shore")
    with pytest.raises(FileNotFoundError):
        app.create_app(tmp_path / "none.shore")


def test_the_environment_describes_the_service(app, path, monkeypatch, tmp_path):
    (tmp_path / "labels.txt").write_text("\n".join(f"tag {j}" for j in range(K)), encoding="utf-8")
    monkeypatch.delenv("SHORE_SERVICE_MODEL", raising=False)
    with pytest.raises(ValueError, match="SHORE_SERVICE_MODEL"):
        app.from_environment()
    settings = {"MODEL": path, "LABELS": tmp_path / "labels.txt", "THREADS": 1, "MAX_ROWS": 7}
    for name, value in settings.items():
        monkeypatch.setenv(f"SHORE_SERVICE_{name}", str(value))
    service = app.from_environment()
    assert service.state.scorer.about["labels"] is True
    assert service.state.scorer.n_threads == 1
    assert TestClient(service).get("/model").json()["limits"]["max_rows"] == 7


# ---------------------------------------------------------------- many at once


def test_concurrent_requests_do_not_mix(client, model, rows):
    X = rows[0]
    found, lists = model.predict(X), {"denied": list(range(0, K, 3))}
    with_lists = model.predict(X, denied=np.array(lists["denied"]))

    def ask(i):
        if i % 4 == 0:
            some = [(i + k) % X.shape[0] for k in range(5)]
            many = client.post("/predict_many", json={"rows": [as_json(X, j) for j in some]}).json()["rows"]
            for answer, j in zip(many, some, strict=True):
                assert_same(answer, found, j)
        elif i % 4 == 1:
            assert_same(client.post("/predict", json={**as_json(X, i), **lists}).json(), with_lists, i)
        elif i % 4 == 2:
            assert client.post("/predict", content=b'{"indices": [1,').status_code == 422
        else:
            assert_same(client.post("/predict", json=as_json(X, i)).json(), found, i)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(200)))


needs_linux = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads /proc")


@needs_linux
@pytest.mark.parametrize("workers", [1, 2])
def test_a_real_server_under_load(modules, path, workers, capsys):
    arguments = [path, "--workers", workers, "--seconds", 1.5, "--connections", 6, "--malformed", 0.2]
    assert modules["load_test"].main([str(argument) for argument in arguments]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"failed or answered wrongly +0\n", printed)
    assert int(re.search(r"answered +([\d,]+) in", printed)[1].replace(",", "")) > 100
    assert int(re.search(r"refused +([\d,]+) of", printed)[1].replace(",", "")) > 10


@needs_linux
def test_many_rows_under_load(modules, path, capsys):
    assert modules["load_test"].main([str(path), "--seconds", "1", "--rows-per-request", "50"]) == 0
    assert "rows a second" in capsys.readouterr().out


@needs_linux
def test_wrong_answers_are_seen(modules, path, rows, capsys, tmp_path):
    """The load test does compare: with the answers of another model it fails."""
    other = tmp_path / "other.shore"
    shore.ShoreRegressor(S, n_components=48, random_state=4).fit(*rows).save(other)
    load_test = modules["load_test"]
    valid = load_test.valid_exchanges(modules["app"].Scorer(other, None, 1), rows[0], 1)
    with load_test.Server(path, 1) as server:
        result = load_test.asyncio.run(load_test.Load(server.port, valid, [], 0.0).run(1, 2, 50))
    assert sum(result.wrong.values()) > 40
    assert "row: 200" in result.wrong


@needs_linux
def test_the_server_answers_before_it_goes(modules, path, rows):
    load_test = modules["load_test"]
    body = json.dumps(as_json(rows[0], 0)).encode()
    with load_test.Server(path, 1) as server, socket.create_connection(("127.0.0.1", server.port), 30) as client:
        # A request is under way when the signal comes, and its body follows later.
        client.sendall(load_test.http_request("/predict", body)[: -len(body) // 2])
        time.sleep(0.3)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        time.sleep(0.5)
        client.sendall(body[len(body) - len(body) // 2 - len(body) % 2 :])
        answer = client.recv(100_000)
        stopping.join(30)
        assert answer.startswith(b"HTTP/1.1 200")
        assert server.process.returncode is not None
        with pytest.raises(OSError, match="refused"):
            server.get("/health")


@needs_linux
def test_a_body_that_is_too_large_gets_its_answer_from_a_real_server(modules, path):
    with modules["load_test"].Server(path, 1, ["--max-body-bytes", "1000"]) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("POST", "/predict", body=b" " * 1001)
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("connection")) == (413, "close")
        connection.close()
        chunked = {"Transfer-Encoding": "chunked"}
        connection.request("POST", "/predict", body=iter([b" " * 900] * 3), encode_chunked=True, headers=chunked)
        assert connection.getresponse().status == 413
        connection.close()
        assert server.get("/health")[0] == 200


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, str(FOLDER / script), *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip


def test_serve_says_what_is_wrong(path, tmp_path):
    (tmp_path / "foreign.shore").write_bytes(b"not a model")
    (tmp_path / "labels.txt").write_text("one\n")
    for arguments, message in (
        ([tmp_path / "foreign.shore"], "model file"),
        ([tmp_path / "none.shore"], "No such file"),
        ([path, "--labels", tmp_path / "labels.txt"], "must name 90 outputs, got 1"),
        ([path, "--max-rows", 0], "max_rows must be a positive integer"),
        ([path, "--workers", 0], "--workers must be at least 1"),
    ):
        result = run("serve.py", *arguments, "--port", 1)
        assert result.returncode == 2
        assert message in result.stderr
        assert "Traceback" not in result.stderr


def test_make_model_makes_what_the_service_needs(app, tmp_path):
    size = ["--features", 200, "--outputs", 150, "--components", 64, "--rows", 500, "--weights", "float16"]
    result = run("make_model.py", tmp_path / "m.shore", *size)
    assert result.returncode == 0, result.stderr
    assert "K=150" in result.stdout
    rows = sparse.load_npz(tmp_path / "m.rows.npz")
    assert rows.shape == (2000, 200)
    assert app.create_app(tmp_path / "m.shore").state.scorer.n_outputs == 150


def test_the_load_test_is_bounded(modules, path):
    for option in (["--seconds", "1e9"], ["--connections", "100000"], ["--malformed", "2"], ["--seconds", "nan"]):
        with pytest.raises(SystemExit):
            modules["load_test"].main([str(path), *option])


def test_the_page_shows_what_the_service_answers(app, tmp_path):
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    options = re.search(r"make_model\.py model\.shore (--.*)", page)[1].split()
    assert run("make_model.py", tmp_path / "model.shore", *options).returncode == 0
    examples = re.findall(r"\$ curl --json '(.*?)' localhost:8000(/\w+)\n(.*?)```", page, re.DOTALL)
    assert {where for _, where, _ in examples} == {"/predict", "/predict_many", "/explain"}
    with serving(app, tmp_path / "model.shore") as client:
        for body, where, expected in examples:
            answer = client.post(where, content=body, headers=_type("application/json")).json()
            assert_close(answer, json.loads(expected))


def assert_close(found, expected):
    """The same but for the rounding of another machine."""
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        for name in expected:
            assert_close(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    else:
        assert found == (pytest.approx(expected, rel=1e-2, abs=1e-3) if isinstance(expected, float) else expected)


def test_the_page_has_the_limits_as_they_are(app, modules):
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name, shown in (("max_features", "4,096"), ("max_rows", "1,000"), ("max_top_features", "100")):
        assert f"| `--{name.replace('_', '-')}` | {shown} |" in page
        assert f"{getattr(app.Limits(), name):,}" == shown
    assert app.Limits().max_body_bytes == 1 << 20


def test_what_is_required_is_listed():
    names = re.findall(r"^([a-z0-9]+)>=", (FOLDER / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"fastapi", "uvicorn", "httpx"} <= set(names)
