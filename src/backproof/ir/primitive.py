"""What a primitive is: one frozen record with its mathematics, shape rule, forward, jvp, vjp and rounding.

The letters of every formula, fixed once:

    D    the domain the formula runs in: D.add, D.mul, ... are the primitives of the table
    K    the kernels of a domain of arrays: Array-API functions, used by `forward` alone
    x    the tuple of inputs           y   the output
    dx   the tangent of one input      gy  the cotangent of the output
    t    either of the two, where the rule is the same for both

`jvp[i](D, x, y, dx, **params)` is what a tangent of input i adds to the output's tangent;
`vjp[i](D, x, y, gy, **params)` is what the output's cotangent adds to input i's. None says: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from backproof.errors import GraphError
from backproof.ir.rounding import Rounding
from backproof.ir.types import Shape, Type

Value = Any  # whatever the domain carries
Formula = Callable[..., Value]
Rule = Formula | None
ShapeRule = Callable[..., Type]


@dataclass(frozen=True)
class Primitive:
    """One operation of the closed language."""

    name: str
    says: str
    """Its mathematics, in one line."""
    shape: ShapeRule
    """(*types, **params) → the output's type, or a GraphError that says what is wrong."""
    forward: Formula
    """(K, *x, **params) → y over arrays."""
    jvp: tuple[Rule, ...] | Callable[[int], Rule]
    vjp: tuple[Rule, ...] | Callable[[int], Rule]
    rounding: Rounding
    """How far a computed result may be from the exact one."""
    params: tuple[str, ...] = ()
    """The names of its static parameters, in canonical order."""
    variadic: bool = False

    @property
    def arity(self) -> int | None:
        """How many inputs it takes; None when any number will do."""
        return None if self.variadic else len(self.jvp)  # type: ignore[arg-type] # a callable only when variadic

    @property
    def differentiable(self) -> bool:
        """Whether any input has a derivative."""
        return self.variadic or any(rule is not None for rule in self.vjp)  # type: ignore[union-attr]

    def push(self, i: int) -> Rule:
        """The forward-mode rule of input i."""
        return self.jvp(i) if callable(self.jvp) else self.jvp[i]

    def pull(self, i: int) -> Rule:
        """The reverse-mode rule of input i."""
        return self.vjp(i) if callable(self.vjp) else self.vjp[i]


def like(D: Any, value: float, x: Value) -> Value:
    """The constant `value` in the shape of x."""
    return D.constant(value=value, shape=tuple(x.shape))


def elementwise(
    name: str, says: str, forward: Formula, *slopes: Rule, rounding: Rounding, kind: str | None = "real"
) -> Primitive:
    """A function of single elements. Its Jacobian is diagonal, so one rule per input, t ↦ t·∂y/∂xᵢ, is both jvp and vjp."""
    return Primitive(name, says, same_shapes(kind), forward, slopes, slopes, rounding)


def linear(
    name: str,
    says: str,
    shape: ShapeRule,
    forward: Formula,
    transpose: Formula,
    rounding: Rounding,
    params: tuple[str, ...] = (),
) -> Primitive:
    """A linear function of its one input: it is its own jvp, and `transpose(D, x, y, gy)` is its vjp."""

    def push(D: Any, x: tuple[Value, ...], y: Value, dx: Value, **given: Any) -> Value:
        return getattr(D, name)(dx, **given)

    return Primitive(name, says, shape, forward, (push,), (transpose,), rounding, params)


def bilinear(
    name: str,
    says: str,
    shape: ShapeRule,
    forward: Formula,
    transposes: tuple[Formula, Formula],
    rounding: Rounding,
    params: tuple[str, ...] = (),
) -> Primitive:
    """A function linear in each of its two inputs: its jvp is itself, twice."""

    def push_left(D: Any, x: tuple[Value, ...], y: Value, dx: Value, **given: Any) -> Value:
        return getattr(D, name)(dx, x[1], **given)

    def push_right(D: Any, x: tuple[Value, ...], y: Value, dx: Value, **given: Any) -> Value:
        return getattr(D, name)(x[0], dx, **given)

    return Primitive(name, says, shape, forward, (push_left, push_right), transposes, rounding, params)


def same_shapes(kind: str | None) -> ShapeRule:
    """The shape rule of elementwise functions: all inputs of one shape and of this kind (None: of one kind)."""

    def rule(*types: Type) -> Type:
        first = types[0]
        for position, other in enumerate(types):
            require_kind(other, kind or first.kind, position)
            if other.shape != first.shape:
                raise GraphError(
                    f"input {position} has shape {list(other.shape)}, input 0 has {list(first.shape)}; they must be equal "
                    "(broadcast is an operation of its own)"
                )
        return first

    return rule


def require_kind(given: Type, kind: str, position: int) -> None:
    """Refuse an input of another kind."""
    if given.kind != kind:
        raise GraphError(f"input {position} is {given}, and must be of kind {kind}")


def normal_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Distinct axes that exist, counted from the front, in ascending order."""
    found = tuple(sorted(axes))
    if len(set(found)) != len(found) or any(not 0 <= axis < rank for axis in found):
        raise GraphError(f"axes {list(axes)} of a value of rank {rank}: they must be distinct, from 0 to {rank - 1}")
    return found


def without(shape: Shape, axes: Sequence[int]) -> Shape:
    """The shape with these axes taken out."""
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)
