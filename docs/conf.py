"""The site: `make docs` builds it from the pages of this folder, the docstrings and the READMEs of the examples."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

import shore

ROOT = Path(__file__).parent.parent

project = "shore"
author = copyright = "The shore developers"
version = release = shore.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
html_theme = "furo"
html_title = f"shore {release}"
templates_path = ["_templates"]
autodoc_typehints = "none"  # docstrings say them in words
numpydoc_show_class_members = False  # the templates list them
myst_heading_anchors = 3


def gather_examples(app: Sphinx) -> None:
    """READMEs and pictures of the examples into the site's sources, with links to the repository turned into text."""
    target = Path(app.srcdir, "examples")
    target.mkdir(exist_ok=True)
    for readme in sorted(ROOT.glob("examples/*/README.md")):
        text = readme.read_text(encoding="utf-8").replace("../../docs/", "../")
        for picture in readme.parent.glob("*.png"):
            name = f"{readme.parent.name}-{picture.name}"
            (target / name).write_bytes(picture.read_bytes())
            text = text.replace(f"({picture.name})", f"({name})")
        text = re.sub(r"(?<!!)\[([^\]]*)\]\((?!http|\.\./)[^)]*\.(?:py|pyx|toml|txt)\)", r"\1", text)
        (target / f"{readme.parent.name}.md").write_text(text, encoding="utf-8")


def keep_bars(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """|x| in a docstring is a size, and not the name of something to put in its place."""
    for at, line in enumerate(lines):
        parts = re.split("(``.*?``)", line)  # every second one is code
        parts[::2] = [re.sub(r"\|(\S[^|]*)\|", r"\\|\1\\|", part) for part in parts[::2]]
        lines[at] = "".join(parts)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", gather_examples)
    app.connect("autodoc-process-docstring", keep_bars)
