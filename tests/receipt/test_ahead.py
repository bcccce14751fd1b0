"""Items made ahead of being asked for are the same items, and so are failures."""

import threading
import time

import pytest

from backproof.receipt.ahead import ahead


def counted(count, made, error=None, done=None):
    try:
        for i in range(count):
            made.append(i)
            yield i
        if error is not None:
            raise error
    finally:
        if done is not None:
            done.set()


@pytest.mark.parametrize("count", [0, 1, 2, 17])
def test_items_come_in_order_and_all_of_them(count):
    assert list(ahead(counted(count, []), 3)) == list(range(count))


def test_a_failure_comes_in_its_place():
    items = ahead(counted(5, [], KeyError("the fifth")), 2)

    assert [next(items) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError, match="the fifth"):
        next(items)


def test_no_more_are_made_than_may_wait():
    made = []
    items = ahead(counted(100, made), 3)

    next(items)
    time.sleep(0.1)

    assert len(made) <= 1 + 3 + 1  # asked for, waiting, and one for which there is no room
    items.close()


def test_nothing_is_made_for_one_who_has_left():
    made, done = [], threading.Event()
    items = ahead(counted(100, made, done=done), 2)
    next(items)

    items.close()

    assert done.wait(10)
    assert len(made) < 10
