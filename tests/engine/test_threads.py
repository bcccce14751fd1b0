"""Products by one thread, as long as that is asked for; what is made ahead of who asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from backproof.engine import threads


class Library:
    """An array library that has some threads."""

    def __init__(self) -> None:
        self.count = 4

    def ask(self) -> int:
        return self.count

    def tell(self, count: int) -> None:
        self.count = count


def test_each_product_has_one_thread_as_long_as_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(threads, "_openblas", lambda: (library.ask, library.tell))

    with threads.one_for_each_product():
        assert library.count == 1
        with pytest.raises(ZeroDivisionError), threads.one_for_each_product():
            raise ZeroDivisionError
        assert library.count == 1
    assert library.count == 4


def test_another_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_openblas", lambda: None)
    with threads.one_for_each_product():
        assert np.eye(3) @ np.ones(3) == pytest.approx(np.ones(3))


def test_openblas_does_as_it_is_told() -> None:
    found = threads._openblas()
    if found is None:
        pytest.skip("NumPy is linked with another library")
    ask, _ = found
    before = ask()
    with threads.one_for_each_product():
        assert ask() == 1
    assert ask() == before


def test_what_is_made_ahead_comes_in_order_and_not_long_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "allowed", lambda: 2)
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(50):
            taken.append(item)
            yield item

    for at, found in enumerate(threads.ahead("test", lambda item: item * item, items())):
        assert found == at * at
        assert len(taken) <= at + 3


def test_what_goes_wrong_ahead_goes_wrong_where_it_is_asked_for() -> None:
    found = threads.ahead("test", lambda item: 1 // item, [2, 1, 0, 1])
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        list(found)
