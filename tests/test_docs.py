"""The code in the README, in docs/ and in the examples' READMEs runs as it is, and prints what is said below it."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = [
    pytest.param(code, expected, id=f"{path.relative_to(ROOT).as_posix()}-{number}")
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("examples/*/README.md")))
    for number, (code, expected) in enumerate(
        re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    )
]


def test_there_are_examples_in_the_readme():
    assert any(block.id == "README.md-0" and block.values[1] for block in BLOCKS)


@pytest.mark.parametrize(("code", "expected"), BLOCKS)
def test_code_prints_what_is_said(code, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs", "exec"), {})
    if expected:
        assert printed.getvalue() == expected
