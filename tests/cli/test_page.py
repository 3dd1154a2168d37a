"""The session in docs/command-line.md runs as it is."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "command-line.md"


@pytest.mark.skipif(not all(map(shutil.which, ("bash", "head", "zcat"))), reason="no shell here")
def test_session_prints_what_is_said(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    script = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0]
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    shore = f"shore() {{ '{sys.executable}' -m shore \"$@\"; }}\n"
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", "\n".join(
        re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)), flags=re.MULTILINE)  # fmt: skip
    assert len(commands) == 7
    both = "".join(f"{command} 2>&1\necho '=== {i}'\n" for i, (command, _) in enumerate(commands))
    done = subprocess.run(
        ["bash", "-c", shore + both], cwd=tmp_path, capture_output=True, encoding="utf-8", check=True, env=os.environ
    )
    printed = re.split(r"=== \d+\n", done.stdout)[:-1]
    for found, (command, expected) in zip(printed, commands, strict=True):
        # times differ, and last digits with the BLAS
        shown, said = (
            re.sub(r"[\d.]+ s$|(?<=\.\d)\d+", "", part, flags=re.MULTILINE).strip() for part in (found, expected)
        )
        assert shown == said, command
