"""The observer's place on the stack of modes: off it, where a compiler must not see it; on it, while a meaning is followed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch

if TYPE_CHECKING:
    from backproof.adapters.torch.observe import Observer

# A step may end where no `with` does; torch has no public name for this.
_pop: Callable[[], Any] = torch.overrides._pop_mode  # noqa: SLF001
_push: Callable[[Any], None] = torch.overrides._push_mode  # noqa: SLF001
_here: WeakSet[Observer] = WeakSet()


def leave_mode(observer: Observer) -> int:
    """Take the observer off the stack of modes, also from under what has been put on top of it; how much that was."""
    above = []
    while (mode := _pop()) is not observer:
        above.append(mode)
    for mode in reversed(above):
        _push(mode)
    return len(above)


def _enter_mode(observer: Observer, below: int) -> None:
    above = [_pop() for _ in range(below)]
    _push(observer)
    for mode in reversed(above):
        _push(mode)


def only_here(observer: Observer) -> None:
    """Have an observer do nothing in processes that are begun from this one, such as those that load data."""
    _here.add(observer)


def _in_a_child() -> None:
    for observer in _here:
        observer.pause()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_child)


@contextmanager
def out_of_sight(observer: Observer) -> Iterator[None]:
    """What happens in here is not seen, and does not see that it is watched."""
    below = leave_mode(observer)
    looked = observer.modules.off()
    try:
        with observer.quiet():
            yield
    finally:
        if looked:
            observer.modules.on()
        _enter_mode(observer, below)


@contextmanager
def observing(observer: Observer, region: int) -> Iterator[None]:
    """What happens in here is recorded as part of a region."""
    before, observer.region = observer.region, region
    try:
        yield
    finally:
        observer.region = before


Begun = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Is told that a compiled function begins; gives what to do once it has ended, and what with its result, or nothing."""


@contextmanager
def compiled_functions(begun: Begun) -> Iterator[None]:
    """See every call of a compiled function: the framework passes one place before and after, and that is watched."""
    if "torch._dynamo.eval_frame" not in sys.modules:  # nothing has been compiled
        yield
        return
    place: Any = sys.modules["torch._dynamo.eval_frame"]
    before = place._maybe_set_eval_frame  # noqa: SLF001
    running: dict[int, Any] = {}

    def watched(callback: Any) -> Any:
        frame = sys._getframe(1)  # noqa: SLF001 # the call that is compiled is known to its caller alone
        if frame.f_code.co_name == "compile_wrapper":
            known = running.pop(id(frame), None)
            if known is not None:
                result = before(callback)
                known[0]()
                _once_returned(frame, known[1])
                return result
            local = frame.f_locals
            found = begun(local["fn"], local["args"], local["kwargs"]) if callable(callback) else None
            if found is not None:
                running[id(frame)] = found
        return before(callback)

    place._maybe_set_eval_frame = watched  # noqa: SLF001
    try:
        yield
    finally:
        place._maybe_set_eval_frame = before  # noqa: SLF001


def _once_returned(frame: Any, then: Callable[[Any], None]) -> None:
    """Do something with what a call is about to return."""
    earlier = sys.getprofile()

    def returned(seen: Any, event: str, result: Any) -> None:
        if seen is frame and event == "return":
            sys.setprofile(earlier)
            if result is not None:
                then(result)

    sys.setprofile(returned)
