"""The table in docs/theory.md."""

from pathlib import Path

from shore.theory import components_for

PAGE = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")


def test_table_of_components():
    table = PAGE.partition("<!-- components: begin -->")[2].partition("<!-- components: end -->")[0]
    rows = [
        [int(cell.replace(",", "")) for cell in line.strip("| ").split("|")] for line in table.splitlines()[4:] if line
    ]
    assert len(rows) == 6
    for s, K, rule, *proven in rows:
        assert components_for(s, K) == rule
        assert proven == [
            components_for(s, K, delta=delta, form=form) for form in ("jl", "rip") for delta in (0.5, 0.25)
        ]
