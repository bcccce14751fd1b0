"""Functions of [batch, channels, space...], and of one sample without its batch axis when the rank is known."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.record import Composition


def in_ranks(name: str, says: str, function: Callable[..., Ref]) -> tuple[Composition, ...]:
    """The composition for any rank of space, and those for ranks 1, 2 and 3, which also take a sample without a batch axis."""
    return (
        Composition(name, says, function),
        *(Composition(f"{name}{rank}d", says, _of_rank(f"{name}{rank}d", function, rank)) for rank in (1, 2, 3)),
    )


def _of_rank(name: str, function: Callable[..., Ref], rank: int) -> Callable[..., Ref]:
    @wraps(function)
    def on_space(x: Ref, *args: object, **params: object) -> Ref:
        if len(x.shape) == rank + 2:
            return function(x, *args, **params)
        if len(x.shape) != rank + 1:
            raise GraphError(f"{name} takes x[batch, channels, {rank} of space] or one sample of it, not {x.type}")
        y = function(x.builder.reshape(x, shape=(1, *x.shape)), *args, **params)
        return y.builder.reshape(y, shape=y.shape[1:])

    return on_space


def space_of(name: str, x: Ref) -> int:
    """How many axes of space x has."""
    if len(x.shape) < 3:
        raise GraphError(f"{name} takes x[batch, channels, space...], not {x.type}")
    return len(x.shape) - 2
