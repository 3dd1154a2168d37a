import json
import os
from pathlib import Path

import calls
import pytest
from oracle import COUNTS

calls.record()

# Tests of nothing but right inputs, and of nothing but wrong ones; each says itself that all is answered, or refused.
ANSWERS = {
    "test_a_penalty_is_picked_on_any_data",
    "test_a_row_does_not_depend_on_its_neighbours",
    "test_any_command_line_ends_in_a_status",
    "test_batches_in_any_order_are_one_fit",
    "test_column_major_rows_are_fitted_alike",
    "test_merged_models_are_those_of_plain_rows",
    "test_metrics_do_not_know_the_order_of_rows",
    "test_norms_of_any_phi",
    "test_predictor_gives_nothing_for_rows_that_are_not_finite",
    "test_rows_that_are_not_finite_come_out_empty_unchecked",
    "test_saved_models_predict_the_same",
}
REFUSES = {
    "test_b_of_another_width_is_refused",
    "test_damaged_files_are_refused_or_harmless",
    "test_foreign_files_are_refused",
    "test_models_that_cannot_be_merged_change_nothing",
    "test_no_path_is_refused",
    "test_other_arguments_are_checked",
    "test_other_numbers_of_rows_are_refused",
    "test_rows_of_another_width_are_refused",
    "test_sample_sizes_need_moments",
    "test_what_is_no_list_of_blocks_is_refused",
    "test_wrong_parameters_are_named",
}
# Of inputs, what must be answered at the least; of fewer inputs than these nothing is asked.
SHARE, FEW = 0.01, 50


LAST = "test_fuzz_everything.py"
DESELECTED = []


def pytest_deselected(items):
    DESELECTED.extend(items)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name == LAST)
    for item in items:
        if item.path.parent == Path(__file__).parent:  # any may draw rows so small that W has no digits for them
            item.add_marker(pytest.mark.filterwarnings("ignore:W is too small:scipy.linalg.LinAlgWarning"))


@pytest.fixture(scope="session")
def whole_suite(request):
    """Whether all tests of this folder run."""
    here = Path(__file__).parent
    collected = {item.path for item in request.session.items}
    chosen = any("::" in argument for argument in request.config.args)
    return collected.issuperset(here.glob("test_*.py")) and not chosen and not any(
        item.path.parent == here for item in DESELECTED
    )  # fmt: skip


@pytest.fixture(autouse=True)
def both_happen(request):
    """All other tests are of both: one in which everything is refused, or nothing, has tried nothing."""
    failed = request.session.testsfailed
    yield
    counts, name = COUNTS.get(request.node.nodeid), request.node.originalname
    if (
        request.session.testsfailed > failed
        or counts is None
        or name in ANSWERS | REFUSES
        or sum(counts.values()) < FEW
    ):
        return
    assert counts["answered"] >= SHARE * sum(counts.values()), f"too few inputs were answered: {counts}"
    assert counts["refused"] > 0, f"no input was refused: {counts}"


def pytest_terminal_summary(terminalreporter):
    """Say how many inputs were tried, and what became of them; as JSON too, for reports."""
    if not COUNTS:
        return
    terminalreporter.section("inputs tried")
    for test, counts in COUNTS.items():
        name = test.rpartition("/")[2]
        terminalreporter.line(f"{counts['answered']:8,} answered {counts['refused']:8,} refused  {name}")
    answered, refused = (sum(counts[kind] for counts in COUNTS.values()) for kind in ("answered", "refused"))
    terminalreporter.line(f"{answered:8,} answered {refused:8,} refused  in all")
    if path := os.environ.get("SHORE_FUZZ_COUNTS"):
        Path(path).write_text(json.dumps(COUNTS, indent=1, sort_keys=True) + "\n")
