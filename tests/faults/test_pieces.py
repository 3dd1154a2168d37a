"""Long work in pieces: all of it, and the same bits."""

import pytest
from bits import bits
from blockwise import BLOCKWISE

from shore import _pieces
from shore._pieces import pieces


@pytest.mark.parametrize("n", [0, 1, 7, 1000, 12_345])
@pytest.mark.parametrize(("seconds", "least", "most"), [(1e-9, 1, None), (1.0, 1, None), (1e-4, 64, 100), (10.0, 5, 3)])
def test_pieces_are_all_rows_in_order(n, seconds, least, most):
    found = list(pieces(n, seconds, least=least, most=most))
    assert [i for piece in found for i in range(n)[piece]] == list(range(n))
    assert all(0 < piece.stop - piece.start <= (most or n) for piece in found)
    if seconds == 1e-9:
        assert len(found) <= 1


def test_pieces_grow_and_shrink_with_the_time_they_take(monkeypatch):
    now, each = 0.0, 1e-6
    monkeypatch.setattr(_pieces.time, "monotonic", lambda: now)
    sizes = []
    for piece in pieces(10_000_000, 1e-3):
        sizes.append(piece.stop - piece.start)
        now += each * sizes[-1]
        if sum(sizes) > 5_000_000:
            each = 1e-5
    assert sizes[:4] == [250, 2000, 16_000, 128_000]
    assert max(sizes) == 250_000
    assert sizes[-2] == 25_000


@pytest.mark.parametrize("name", BLOCKWISE)
def test_pieces_change_no_bit(name, monkeypatch):
    expected = bits(BLOCKWISE[name]())
    monkeypatch.setattr(_pieces, "_GOAL", 1e-9)  # as many pieces as there may be
    assert bits(BLOCKWISE[name]()) == expected
