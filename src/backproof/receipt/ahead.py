"""Items made in a thread of their own, before they are asked for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")


class _End(NamedTuple):
    """No more items: because there are none, or because making one failed."""

    error: BaseException | None


def ahead(items: Generator[Item, None, None], most: int) -> Generator[Item, None, None]:
    """The same items in order, up to `most` of them waiting; what is raised in making one is raised in its place.

    It pays where items are made by native code, which leaves the interpreter to the caller.
    """
    waiting: Queue[Item | _End] = Queue(most)
    wanted = True

    def make() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                waiting.put(item)
                if not wanted:
                    items.close()
                    return
        except BaseException as raised:  # noqa: BLE001 - it is raised again where it belongs
            error = raised
        waiting.put(_End(error))

    # A source that gives nothing for long must not keep a command alive that was interrupted.
    Thread(target=make, daemon=True).start()
    try:
        while not isinstance(item := waiting.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        wanted = False
        with suppress(Empty):
            while True:
                waiting.get_nowait()
