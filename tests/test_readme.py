"""The README's code prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_examples_print_what_they_say():
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert pairs
    for code, expected in pairs:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), {})
        assert printed.getvalue() == expected
