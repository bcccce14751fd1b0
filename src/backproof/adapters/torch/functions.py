"""Functions with a backward of their own (`torch.autograd.Function`): what happens inside of them, and what their backward gives.

Their forward is a region of the calls that it makes. Their node in the backward pass shows what it gives to each input, which verifying
compares with the derivative of the forward, unless the user has said that it is meant to be another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from backproof.adapters.torch.encode import maker_of, tensors_in
from backproof.trace.step import Region

if TYPE_CHECKING:
    from backproof.adapters.torch.observe import Observer

_Base: Any = torch.autograd.function._SingleLevelFunction  # noqa: SLF001 # where every `apply` passes, also one that was kept in a name
FRAMEWORKS = {"CheckpointFunction": "checkpoint", "BackwardHookFunction": "backward hooks"}
"""What the framework itself makes of such functions: a forward that runs again; and a place where a module's hooks see gradients."""
_intended: set[Any] = set()
_within = threading.local()


class Intended:
    """What `bpt.intended` gives: a function declared, or a context in which all are."""

    def __init__(self, function: Any = None) -> None:
        if function is not None:
            _intended.add(function)
        self.function = function

    def __enter__(self) -> None:
        _within.depth = getattr(_within, "depth", 0) + 1

    def __exit__(self, *_: object) -> None:
        _within.depth -= 1


def intended(function: Any = None) -> Any:
    """Say that the backward of an `autograd.Function` is meant to be another than the derivative of its forward (a surrogate).

    Use it as a decorator of the class, as a call, or, without an argument, as a context: `with bpt.intended(): ...`.
    """
    declared = Intended(function)
    return declared if function is None else function


def is_intended(function: Any) -> bool:
    """Whether a surrogate is declared, by its class or by the context."""
    return function in _intended or getattr(_within, "depth", 0) > 0


@contextmanager
def watching_functions(observer: Observer) -> Iterator[None]:
    """See every `apply` of this thread while a step lasts."""
    before = _Base.__dict__.get("apply")

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        def plain() -> Any:
            if before is not None:
                return before.__get__(None, cls)(*args, **kwargs)
            return super(_Base, cls).apply(*args, **kwargs)

        return plain() if observer.idle else _applied(observer, cls, plain, args)

    _Base.apply = classmethod(apply)
    try:
        yield
    finally:
        if before is None:
            del _Base.apply
        else:
            _Base.apply = before


def _applied(observer: Observer, cls: Any, plain: Callable[[], Any], args: tuple[Any, ...]) -> Any:
    if observer.region is not None:  # it has no node of its own: what is outside of it is differentiated as one
        if is_intended(cls) or not _follows_rules(cls):
            _spoil(observer, observer.region, f"{cls.__name__} inside of it has a backward of its own")
        return plain()
    given = [item for item in args if isinstance(item, torch.Tensor)]
    with observer.quiet():
        inputs = tuple(observer.values.number(item) for item in given)
    region = len(observer.regions)
    kind = FRAMEWORKS.get(cls.__name__, "function")
    name = cls.__name__ if kind == "function" else kind
    observer.regions.append(Region(kind, name, observer.here, inputs, (), is_intended(cls)))
    with observer.within(region):
        result = plain()
    with observer.quiet():
        _outputs(observer, region, given, tensors_in(result))
    return result


def _follows_rules(cls: Any) -> bool:
    """Whether its backward is the framework's own, run again."""
    return cls.__name__ in FRAMEWORKS


def _spoil(observer: Observer, region: int, why: str) -> None:
    if not observer.regions[region].why:
        observer.regions[region] = replace(observer.regions[region], why=why)


def _outputs(observer: Observer, region: int, given: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    """What comes out: made by a call inside, or an input as it was; anything else was made out of sight."""
    values, found = observer.values, []
    inputs = observer.regions[region].inputs
    wanted = [n if item.requires_grad else None for n, item in zip(inputs, given, strict=True)]
    for output in outputs:
        if values.known(output):
            number = values.surfaced(output)
        else:
            same = next((i for i, item in enumerate(given) if _alike(item, output)), None)
            if same is None:
                number = values.made(output, "unseen")
                _spoil(observer, region, "what it gives was made out of sight")
            else:
                number = values.made(output)
                observer.emit("alias", [inputs[same]], number, region=region)
        found.append(number)
    differentiated = tuple(n for n in wanted if n is not None)
    observer.regions[region] = replace(observer.regions[region], inputs=differentiated, outputs=tuple(found))
    node = next((maker for maker in map(maker_of, outputs) if maker is not None), None)
    if node is not None:
        observer.gradients.watch(node, region, wanted)


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
