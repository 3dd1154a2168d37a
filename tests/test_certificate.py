"""A few thousand of the million random rows that tools/deep/certificate.py checks."""

import sys
from pathlib import Path

import numpy as np
import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@pytest.fixture(scope="module")
def certificate():
    sys.path.insert(0, str(TOOLS))
    try:
        from deep import certificate
    finally:
        sys.path.remove(str(TOOLS))
    return certificate


def test_no_decision_differs_from_the_unscreened_loop(certificate, tmp_path):
    result = certificate.run(quick=True, seed=1, keep=str(tmp_path))
    assert certificate.passed(result), result
    assert result["rows"] >= result["screened"] >= certificate.QUICK[0]
    assert set(result["rows_by_level"]) == set(certificate._levels())
    assert result["compared"] > 10
    assert result["decided"] > 0.2


def test_differences_are_found_and_kept(certificate, tmp_path, monkeypatch):
    """A result that differs in its last bit, in one row."""
    original, calls = certificate.decode_with, []

    def tampered(*given, **options):
        found, info = original(*given, **options)
        if not options.get("screening", True):
            found.data[-1] = np.nextafter(found.data[-1], 0)
        calls.append(options)
        return found, info

    monkeypatch.setattr(certificate, "decode_with", tampered)
    monkeypatch.setattr(certificate, "against_reference", lambda *_: (0, []))
    certificate.work(1, 1, 1, 1, 40, str(tmp_path))
    assert len(calls) == 2
    (said,) = tmp_path.glob("*.json")
    assert '"different"' in said.read_text(encoding="utf-8")
    with np.load(next(iter(tmp_path.glob("*.npz")))) as kept:
        assert len(kept["B"]) == 1
