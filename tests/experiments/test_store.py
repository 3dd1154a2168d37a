import pytest

from shore.experiments.store import COLUMNS, Store

ROW = {"dataset": "a", "compression": "gaussian", "snr_db": 10.0, "sparsity": 3, "m": 50, "trial": 0, "method": "pgd"}


def test_rows_are_read_again(tmp_path):
    store = Store(tmp_path / "new" / "folder", {"n": 3})
    store.add([{**ROW, "precision": 0.25, "rows": 7}, {**ROW, "method": "cd", "snr_db": None}])
    again = Store(tmp_path / "new" / "folder", {"n": 3})
    assert again.rows == store.rows
    assert again.rows[0]["precision"] == 0.25
    assert again.rows[1]["snr_db"] is None
    assert again.has(m=50, method="cd")
    assert not again.has(m=50, method="omp")
    assert (tmp_path / "new/folder/results.csv").read_text().splitlines()[0] == ",".join(COLUMNS)


@pytest.mark.parametrize("name", ["one, two", 'a "quoted" name', '"', "ünïcode", "line\u2028break\x0b"])
def test_names_of_data_sets_may_hold_anything(tmp_path, name):
    store = Store(tmp_path, {})
    store.add([{**ROW, "dataset": name}, ROW])
    again = Store(tmp_path, {})
    assert again.rows == store.rows
    assert again.has(dataset=name)


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_what_a_stopped_run_left_of_a_line_is_dropped(tmp_path, cut):
    store = Store(tmp_path, {})
    store.add([ROW, {**ROW, "trial": 1, "precision": 0.123456789}])
    text = store.path.read_text()
    store.path.write_text(text[:-cut])
    again = Store(tmp_path, {})
    assert again.rows == store.rows[:1]
    again.add([{**ROW, "trial": 1, "precision": 0.123456789}])
    assert again.path.read_text() == text


def test_results_of_other_settings_are_refused(tmp_path):
    Store(tmp_path, {"n": -1})  # has no results
    Store(tmp_path, {"n": 3, "tol": 1e-6, "of": (1, 2)}).add([ROW])
    Store(tmp_path, {"n": 3, "tol": 1e-6, "of": (1, 2)})
    with pytest.raises(ValueError, match=r"results of another run: n was 3, not 4; give another output folder"):
        Store(tmp_path, {"n": 4, "tol": 1e-6, "of": (1, 2)})
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ValueError, match=r"settings\.json is not JSON"):
        Store(tmp_path, {})


def test_files_that_are_not_results_are_refused(tmp_path):
    (tmp_path / "results.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"results\.csv is not a results file"):
        Store(tmp_path, {})
    (tmp_path / "results.csv").write_text(",".join(COLUMNS) + "\na,b\n")
    with pytest.raises(ValueError, match=r"results\.csv:2: not a line of results: 'a,b'"):
        Store(tmp_path, {})
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be made a folder"):
        Store(tmp_path / "file", {})
