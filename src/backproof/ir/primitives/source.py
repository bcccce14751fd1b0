"""Values from nothing, changes of kind, and the end of differentiation."""

from __future__ import annotations

from typing import Any

from backproof.errors import GraphError
from backproof.ir.primitive import Primitive
from backproof.ir.rounding import Moves, Special
from backproof.ir.tensor import Tensor
from backproof.ir.types import KINDS, Kind, Shape, Type
from backproof.numerics import FORMATS


def _constant(*, value: Any, shape: Shape) -> Type:
    if isinstance(value, Tensor):
        if value.shape != tuple(shape):
            raise GraphError(f"the constant's numbers have shape {list(value.shape)}, not {list(shape)}")
        return Type(value.kind, value.shape)  # type: ignore[arg-type] # Tensor admits only kinds
    kind: Kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "real"
    return Type(kind, tuple(shape))


CONSTANT = Primitive(
    "constant",
    "y is given: one number everywhere, or a tensor of them",
    _constant,
    lambda K, value, shape: K.constant(value, shape),
    (),
    (),
    Special(),
    ("value", "shape"),
)


def _counted(*, size: int) -> Type:
    return Type("int", (size,))


IOTA = Primitive(
    "iota",
    "y = 0, 1, 2, ...",
    _counted,
    lambda K, size: K.integers(size),
    (),
    (),
    Moves(),
    ("size",),
)


def _cast(x: Type, *, to: str) -> Type:
    if to in FORMATS:
        if x.kind != "real":
            raise GraphError(f"only reals can be rounded to {to}, not {x}; cast to real first")
        return x
    if to not in KINDS:
        raise GraphError(f"cannot cast to {to!r}; there are {', '.join((*KINDS, *FORMATS))}")
    return Type(to, x.shape)  # type: ignore[arg-type] # checked just above


CAST = Primitive(
    "cast",
    "y = x in another kind, or rounded to a floating format (which is no change to the mathematics)",
    _cast,
    lambda K, x, to: K.cast(x, to),
    (lambda D, x, y, dx, to: dx,),
    (lambda D, x, y, gy, to: gy,),
    Special(),
    ("to",),
)

STOP_GRADIENT = Primitive(
    "stop_gradient",
    "y = x; its derivative is 0 by decree",
    lambda x: x,
    lambda K, x: x,
    (None,),
    (None,),
    Moves(),
)

SOURCE = (CONSTANT, IOTA, CAST, STOP_GRADIENT)
