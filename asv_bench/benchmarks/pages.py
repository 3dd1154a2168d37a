"""Pages of docs/ that are written by what measures them."""

import re

__all__ = ["write_between"]


def write_between(page, mark, lines):
    """Replace what stands between the markers of a page."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    text = page.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        raise ValueError(f"{page} has no markers {begin} and {end}")
    new = f"{begin}\n\n" + "\n".join(lines) + f"\n\n{end}"
    page.write_text(re.sub(f"{begin}.*?{end}", lambda _: new, text, flags=re.DOTALL), encoding="utf-8")
