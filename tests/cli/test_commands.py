"""Every command end to end, against the Python interface."""

import csv
import gzip
import io
import json
import sys

import numpy as np
import pytest
from scipy import sparse

import shore
from shore import metrics
from shore.datasets import load_dataset, load_xmc, save_xmc

K = 80


def same(found, expected):
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


def from_csv(text, n):
    lines = list(csv.DictReader(io.StringIO(text)))
    found = np.zeros((n, K), dtype=np.float32)
    for line in lines:
        found[int(line["row"]), int(line["output"])] = np.float32(line["value"])
    return lines, found


def from_jsonl(text):
    rows = [json.loads(line) for line in text.splitlines()]
    found = np.zeros((len(rows), K), dtype=np.float32)
    for i, row in enumerate(rows):
        assert row["row"] == i
        for entry in row["outputs"]:
            found[i, entry["output"]] = np.float32(entry["value"])
    return rows, found


# ---- fit ----


def test_fit_is_fit(files, run, tmp_path):
    printed = run("fit", files.train, "--sparsity", 3, "--components", 40, "--output", tmp_path / "m.shore")
    assert "120 rows, 12 features, 80 outputs in 40 numbers (head_tail), alpha 1" in printed
    model = shore.load(tmp_path / "m.shore")
    np.testing.assert_array_equal(model.coef_, files.model.coef_)
    assert repr(model) == repr(files.model)
    assert run("fit", files.train, "--quiet", "--threads", 1, "--output", tmp_path / "m.shore") == ""
    assert shore.load(tmp_path / "m.shore").n_threads is None  # of the machine, not of the model


def test_every_option_reaches_the_model(files, run, tmp_path):
    run(
        "fit", files.train, "--output", tmp_path / "m", "--sparsity", 4, "--components", 30,
        "--compression", "gaussian", "--constraint", "box:-1:2.5", "--alpha", 0.5, "--intercept",
        "--solver", "dual", "--solver-tol", 0.01,
        "--decoder", "omp", "--step", 0.8, "--max-iter", 50, "--tol", 0.01, "--l1", 0.2, "--dtype", "float64",
        "--seed", 7,
    )  # fmt: skip
    expected = shore.ShoreRegressor(
        4, n_components=30, compression="gaussian", constraint=shore.Box(-1, 2.5), alpha=0.5, fit_intercept=True,
        solver="dual", solver_tol=0.01, decoder="omp", step=0.8, max_iter=50, tol=0.01, l1=0.2, dtype=np.float64,
        random_state=7,
    )  # fmt: skip
    found = shore.load(tmp_path / "m")
    assert found.get_params() == expected.get_params()
    X, Y = load_xmc(files.train, dtype=np.float64)
    np.testing.assert_array_equal(found.coef_, expected.fit(X, Y).coef_)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("real", "real"), ("binary", "binary"), ("simplex", shore.Simplex()), ("simplex:2", shore.Simplex(2.0)),
     ("box:-inf:1", shore.Box(-np.inf, 1))],
)  # fmt: skip
def test_constraints(text, expected, files, run, tmp_path):
    run("fit", files.train, "--constraint", text, "--compression", "none", "--output", tmp_path / "m")
    model = shore.load(tmp_path / "m")
    assert model.constraint == expected
    assert model.compression_ is None
    run("evaluate", tmp_path / "m", files.test)


def test_fit_reads_folders_matrices_and_standard_input(files, run, tmp_path, monkeypatch):
    common = ("--sparsity", 3, "--components", 40, "--output", tmp_path / "m")
    matrices = ("--x", files.folder / "X_train.npz", "--y", files.folder / "Y_train.npz")
    for words in ((files.folder,), matrices):
        run("fit", *words, *common)
        np.testing.assert_array_equal(shore.load(tmp_path / "m").coef_, files.model.coef_)
    with open(files.train) as file:
        monkeypatch.setattr(sys, "stdin", file)
        run("fit", "-", "--stream", *common)
    np.testing.assert_allclose(shore.load(tmp_path / "m").coef_, files.model.coef_, rtol=1e-4, atol=1e-5)

    texts, whole = tmp_path / "texts", tmp_path / "whole"
    for folder in (texts, whole):
        folder.mkdir()
    for name in ("train.txt", "test.txt"):
        (texts / name).write_bytes((files.folder / name).read_bytes())
    run("fit", texts, *common)
    np.testing.assert_array_equal(shore.load(tmp_path / "m").coef_, files.model.coef_)
    same_score = json.loads(run("evaluate", tmp_path / "m", texts, "--json"))
    assert same_score == json.loads(run("evaluate", tmp_path / "m", files.test, "--json"))

    (whole / "all.txt").write_bytes((files.folder / "train.txt").read_bytes())
    run("fit", whole, *common)  # the random part that load_dataset trains on
    data = load_dataset(whole)
    expected = shore.ShoreRegressor(3, n_components=40).fit(data.X_train, data.Y_train)
    np.testing.assert_array_equal(shore.load(tmp_path / "m").coef_, expected.coef_)
    found = json.loads(run("evaluate", tmp_path / "m", whole, "--json", "--k", 2))
    assert found["precision@2"] == metrics.precision_at_k(data.Y_test, expected.predict(data.X_test), 2)


@pytest.mark.parametrize("block", [35, 1000])
def test_streaming_is_the_same_fit(block, files, run, tmp_path):
    words = ("--stream", "--block-rows", block, "--sparsity", 3, "--components", 40, "--intercept")
    printed = run("fit", files.train, *words, "--output", tmp_path / "m")
    assert "120 rows in blocks" in printed
    X, Y = load_xmc(files.train)
    expected = shore.ShoreRegressor(3, n_components=40, fit_intercept=True).fit(X, Y)
    found = shore.load(tmp_path / "m")
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-3, atol=1e-4)


def test_large_files_are_streamed(files, run, tmp_path, monkeypatch):
    fit = sys.modules["shore.cli.fit"]
    monkeypatch.setattr(fit, "_memory", lambda: 5e4)
    monkeypatch.setattr(fit, "_sums_bytes", lambda *_: 1e4)
    for words, streams in (
        ((files.train,), True), ((files.train, "--no-stream"), False), ((files.train, "--alpha", "auto"), False),
        ((files.train, "--solver", "dual"), False), ((files.folder,), False),
    ):  # fmt: skip
        assert ("in blocks" in run("fit", *words, "--output", tmp_path / "m")) == streams
    monkeypatch.undo()
    assert fit._memory() > 1e6
    assert "in blocks" not in run("fit", files.train, "--output", tmp_path / "m")


def test_half_precision_weights(files, run, tmp_path):
    run("fit", files.train, "--weights", "float16", "--output", tmp_path / "m")
    assert json.loads(run("info", "--json", tmp_path / "m"))["tensors"]["W"]["dtype"] == "float16"
    run("predict", tmp_path / "m", files.test)


# ---- predict ----


@pytest.mark.parametrize("block", [(), ("--block-rows", 1), ("--block-rows", 7)])
@pytest.mark.parametrize("source", ["test", "gz", "X_test.npz", "folder", "-"])
def test_predict_is_predict(source, block, files, run, tmp_path, monkeypatch):
    expected = files.model.predict(files.X)
    path = str(files.folder / source) if source.endswith("npz") else getattr(files, source, source)
    with open(files.gz, encoding="latin-1") as file:
        monkeypatch.setattr(sys, "stdin", file)
        text = run("predict", files.saved, path, *block)
    assert text.startswith("30 0 80 values\n")
    X, found = load_xmc(io.BytesIO(text.encode()))
    assert X.shape == (30, 0)
    same(found, expected)


def test_formats(files, run, tmp_path):
    expected = files.model.predict(files.X)
    for suffix in ("", ".gz"):
        for name in ("p.csv", "p.jsonl", "p.txt"):
            assert run("predict", files.saved, files.test, "--output", tmp_path / (name + suffix)) == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "p.csv", "p.csv.gz", "p.jsonl", "p.jsonl.gz", "p.txt", "p.txt.gz",
    ]  # fmt: skip
    for path in tmp_path.glob("*.gz"):
        assert gzip.decompress(path.read_bytes()) == path.with_suffix("").read_bytes()
    lines, found = from_csv((tmp_path / "p.csv").read_text(), 30)
    np.testing.assert_array_equal(found, expected.toarray())
    assert list(lines[0]) == ["row", "output", "value"]
    values = [float(line["value"]) for line in lines if line["row"] == "0"]
    assert values == sorted(values, reverse=True)
    rows, found = from_jsonl((tmp_path / "p.jsonl").read_text())
    np.testing.assert_array_equal(found, expected.toarray())
    assert len(rows) == 30
    same(load_xmc(tmp_path / "p.txt")[1], expected)
    assert run("predict", files.saved, files.test, "--format", "csv") == (tmp_path / "p.csv").read_text()


def test_plain_text_is_what_other_tools_read(files, run, tmp_path):
    text = run("predict", files.saved, files.test, "--plain")
    assert text.startswith("30 0 80\n")
    same(load_xmc(io.BytesIO(text.encode()))[1], files.model.predict(files.X) > 0)
    run("fit", files.train, "--constraint", "binary", "--output", tmp_path / "m")
    assert run("predict", tmp_path / "m", files.test).startswith("30 0 80\n")


def test_rows_without_outputs(files, run, tmp_path):
    save_xmc(tmp_path / "x.txt", sparse.csr_array((3, 12)), sparse.csr_array((3, 80)))
    save_xmc(tmp_path / "none.txt", sparse.csr_array((0, 12)), sparse.csr_array((0, 80)))
    assert run("predict", files.saved, tmp_path / "x.txt") == "3 0 80 values\n\n\n\n"
    assert run("predict", files.saved, tmp_path / "x.txt", "--format", "csv") == "row,output,value\n"
    assert from_jsonl(run("predict", files.saved, tmp_path / "x.txt", "--format", "jsonl"))[1].shape == (3, 80)
    assert run("explain", files.saved, tmp_path / "x.txt", "--rows", 1) == "row 1: no outputs\n"
    assert run("predict", files.saved, tmp_path / "none.txt") == "0 0 80 values\n"
    assert run("predict", files.saved, tmp_path / "none.txt", "--format", "jsonl") == ""


def test_names(files, run):
    common = ("predict", files.saved, files.test, "--labels", files.labels_file)
    lines, found = from_csv(run(*common, "--format", "csv"), 30)
    assert list(lines[0]) == ["row", "output", "name", "value"]
    assert all(line["name"] == files.labels[int(line["output"])] for line in lines)
    np.testing.assert_array_equal(found, files.model.predict(files.X).toarray())
    rows, _ = from_jsonl(run(*common, "--format", "jsonl"))
    assert all(entry["name"] == files.labels[entry["output"]] for row in rows for entry in row["outputs"])


def test_limits(files, run, tmp_path):
    def predicted(*words):
        return load_xmc(io.BytesIO(run("predict", files.saved, files.test, "--block-rows", 7, *words).encode()))[1]

    few, names = tmp_path / "few.txt", tmp_path / "names.txt"
    few.write_text("3\n\n 17 \n40\n41")
    names.write_text(f"{files.labels[3]}\n{files.labels[17]}\n40\n41\n", encoding="utf-8")
    expected = files.model.predict(files.X, sparsity=2, allowed=[3, 17, 40, 41])
    same(predicted("--sparsity", 2, "--allowed", few), expected)
    same(predicted("--sparsity", 2, "--allowed", names, "--labels", files.labels_file), expected)
    same(predicted("--denied", few), files.model.predict(files.X, denied=[3, 17, 40, 41]))
    pattern = sparse.csr_array(np.random.default_rng(0).random((30, 80)) < 0.3)
    sparse.save_npz(tmp_path / "pattern.npz", pattern.astype(np.float32))
    same(predicted("--allowed", tmp_path / "pattern.npz"), files.model.predict(files.X, allowed=pattern))
    both = predicted("--denied", tmp_path / "pattern.npz", "--allowed", few)
    same(both, files.model.predict(files.X, denied=pattern, allowed=[3, 17, 40, 41]))


def test_many_small_pieces_of_text(files, run, monkeypatch):
    expected = run("predict", files.saved, files.test, "--format", "jsonl")
    monkeypatch.setattr("shore.datasets.xmc.text._CHUNK_BYTES", 100)
    assert run("predict", files.saved, files.test, "--format", "jsonl") == expected


def test_devices_stay_what_they_are(files, run, tmp_path):
    run("predict", files.saved, files.test, "--output", "/dev/null")
    assert not (tmp_path / "/dev/null").is_file()
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    run("predict", files.saved, files.test, "--output", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text().startswith("30 0 80")


# ---- evaluate ----


@pytest.mark.parametrize("block", [(), ("--block-rows", 1), ("--block-rows", 7)])
def test_evaluate_is_the_metrics(block, files, run, monkeypatch):
    if block:
        monkeypatch.setattr(sys.modules["shore.cli.predict"], "_SCORE_BYTES", 700)  # four rows of scores
    words = ("evaluate", files.saved, files.test, "--k", 1, 3, 5, "--propensities", files.train, *block)
    results = json.loads(run(*words, "--json"))
    found, model, X, Y = files.model.predict(files.X), files.model, files.X, files.Y
    propensity = metrics.propensities(load_xmc(files.train)[1])
    expected = {
        "rows": 30, "sparsity": 3, "output_difference": metrics.output_difference(Y, found),
        "prediction_loss": metrics.prediction_loss(found, model.predict_compressed(X), model.compression_),
    }  # fmt: skip
    for k in (1, 3, 5):
        expected |= {
            f"precision@{k}": metrics.precision_at_k(Y, found, k), f"recall@{k}": metrics.recall_at_k(Y, found, k),
            f"ndcg@{k}": metrics.ndcg_at_k(Y, found, k),
            f"propensity-scored_precision@{k}": metrics.propensity_scored_precision_at_k(Y, found, k, propensity),
        }  # fmt: skip
    assert results == pytest.approx(expected, rel=1e-12)
    table = run(*words)
    assert ["precision@3", f"{expected['precision@3']:.4f}"] in [line.split() for line in table.splitlines()]
    matrices = ("--x", files.folder / "X_test.npz", "--y", files.folder / "Y_test.npz")
    assert "precision@3" in run("evaluate", files.saved, *matrices)


def test_ranks_are_as_long_as_predictions(files, run):
    names = set(json.loads(run("evaluate", files.saved, files.test, "--json", "--sparsity", 4)))
    assert {name for name in names if name.startswith("precision")} == {"precision@1", "precision@3", "precision@4"}


def test_nothing_true_is_null(files, run, tmp_path):
    save_xmc(tmp_path / "x.txt", files.X, sparse.csr_array((30, 80)))
    words = ("--propensities", files.train, "--json", "--k", 1)
    results = json.loads(run("evaluate", files.saved, tmp_path / "x.txt", *words))
    assert results["propensity-scored_precision@1"] is None
    assert results["precision@1"] == 0


# ---- explain ----


@pytest.mark.parametrize("block", [(), ("--block-rows", 1), ("--block-rows", 4)])
def test_explain_is_explain(block, files, run):
    words = ("explain", files.saved, files.test, "--rows", "3:9", "--top-features", 4, *block)
    why = files.model.explain(files.X[3:9], 4)
    rows = [json.loads(line) for line in run(*words, "--format", "jsonl").splitlines()]
    found = [
        (row["row"], output["output"], feature["feature"], feature["contribution"], output["value"], output["score"])
        for row in rows for output in row["outputs"] for feature in output["features"]
    ]  # fmt: skip
    expected = zip(why.row + 3, why.output, why.feature, why.contribution, why.value, why.score, strict=True)
    assert len(found) == len(why)
    np.testing.assert_allclose(sorted(found), sorted(expected), rtol=1e-5)
    text = run(*words, "--labels", files.labels_file, "--features", files.features_file)
    first = rows[0]["outputs"][0]
    lines = text.splitlines()
    assert lines[0] == "row 3"
    assert lines[1].startswith(
        f"  output {first['output']}  {files.labels[first['output']]}: value {first['value']:.4g}"
    )
    number = first["features"][0]["feature"]
    assert lines[2].split() == [
        f"{first['features'][0]['contribution']:+.4g}", "feature", str(number), "word", str(number)
    ]  # fmt: skip


def test_rows_to_explain(files, run, tmp_path):
    def rows(*words):
        text = run("explain", files.saved, files.test, "--top-features", 1, *words)
        return [int(line.split()[1].rstrip(":")) for line in text.splitlines() if line.startswith("row")]

    assert rows() == [0, 1, 2, 3, 4]
    assert rows("--rows", "7") == [7]
    assert rows("--rows", ":2") == [0, 1]
    assert rows("--rows", "28:") == rows("--rows", "28:100") == [28, 29]
    run("explain", files.saved, files.test, "--output", tmp_path / "why.jsonl", "--sparsity", 1)
    assert [len(json.loads(line)["outputs"]) for line in (tmp_path / "why.jsonl").read_text().splitlines()] == [1] * 5


def test_intercepts_and_names_of_the_model(files, run, tmp_path):
    model = shore.ShoreRegressor(2, fit_intercept=True).fit(*load_xmc(files.train))
    model.feature_names_in_ = np.array([f"column {j}" for j in range(12)], dtype=object)
    model.save(tmp_path / "m")
    text = run("explain", tmp_path / "m", files.test, "--top-features", 13)
    assert "  intercept\n" in text
    assert "  feature 3  column 3\n" in text


# ---- info ----


def test_info(files, run):
    text = run("info", files.saved)
    for words in (
        "features     12",
        "outputs      80 in 40 numbers (head_tail)",
        "n_components     40",
        "12x40",
        "not compared",
    ):
        assert words in text
    found = json.loads(run("info", files.saved, "--verify", "--json"))
    assert found["shore_version"] == shore.__version__
    assert found["tensors"]["W"] | {"sha256": ""} == {
        "dtype": "float32", "shape": [12, 40], "bytes": 1920, "sha256": "", "ok": True,
    }  # fmt: skip
    assert found["bytes"] == (files.folder / "m.shore").stat().st_size


def test_info_says_which_tensor_is_damaged(files, refused, tmp_path, capfd):
    data = bytearray((files.folder / "m.shore").read_bytes())
    data[-100] ^= 1
    path = tmp_path / "m.shore"
    path.write_bytes(data)
    assert refused("info", path, "--verify").startswith(f"{path}: the checksum of ")
    assert "is damaged" in refused("predict", path, files.test)


def test_info_of_a_chosen_penalty(files, run, tmp_path):
    run("fit", files.train, "--alpha", "auto", "--output", tmp_path / "m")
    assert len(json.loads(run("info", "--json", tmp_path / "m"))["fitted"]["alpha_path"]["alpha"]) > 1


# ---- the others ----


def test_demo_prints_a_table(run):
    printed = run("demo", "--samples", "50", "--features", "20", "--outputs", "300")
    assert "precision@3" in printed
    assert "output difference" in printed


def test_versions(run):
    assert run("versions").startswith("shore")
