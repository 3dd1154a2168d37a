"""Tables for the pages of docs/ and the README, which stand between markers so that a command can write them anew."""

import re


def write_between(page, mark, lines):
    """Replace what stands between the markers of a page."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    text = page.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        raise ValueError(f"{page} has no markers {begin} and {end}")
    new = f"{begin}\n\n" + "\n".join(lines).strip("\n") + f"\n\n{end}"
    page.write_text(re.sub(f"{begin}.*?{end}", lambda _: new, text, flags=re.DOTALL), encoding="utf-8")


def table_row(*cells):
    """A row of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def table_head(*cells):
    """The first two rows of a Markdown table."""
    return [table_row(*cells), "|---" * len(cells) + "|"]
