"""What a domain is: a kind of number, and the primitives over it.

Formulas call primitives as methods, `D.mul(a, b)`; they run unchanged in every domain that has the primitives they use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, final

from backproof.errors import DomainError
from backproof.ir.primitive import Primitive, Value
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.tensor import Tensor
from backproof.ir.types import Shape, Type


class Domain(ABC):
    """A kind of number with the primitives over it."""

    name: str

    def __getattr__(self, name: str) -> Callable[..., Value]:
        """A primitive as a method, from when it is first asked for."""
        if name not in PRIMITIVES:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        found = self.bind(PRIMITIVES[name])
        setattr(self, name, found)
        return found

    def bind(self, primitive: Primitive) -> Callable[..., Value]:
        """The primitive as a function of values of this domain."""
        return partial(self.apply, primitive)

    @abstractmethod
    def apply(self, primitive: Primitive, *x: Value, **params: Any) -> Value:
        """The primitive's value at x."""

    @abstractmethod
    def value(self, given: Any, kind: Type) -> Value:
        """What the user gives, as a value of this domain; of the wrong shape, an error."""

    @abstractmethod
    def array(self, value: Value) -> Any:
        """A value of this domain as a NumPy array to look at."""

    def zeros(self, shape: Shape) -> Value:
        """The zero tensor of this shape."""
        return self.constant(value=0.0, shape=shape)


@final
class ArrayDomain(Domain):
    """A domain whose values are arrays, and whose primitives are the table's own forward formulas over some kernels."""

    def __init__(self, name: str, kernels: Any) -> None:
        self.name = name
        self.kernels = kernels

    def bind(self, primitive: Primitive) -> Callable[..., Value]:
        """The forward formula over this domain's kernels."""
        return partial(primitive.forward, self.kernels)

    def apply(self, primitive: Primitive, *x: Value, **params: Any) -> Value:
        return primitive.forward(self.kernels, *x, **params)

    def value(self, given: Any, kind: Type) -> Value:
        found = self.kernels.leaf(given.array if isinstance(given, Tensor) else given, kind.kind)
        if tuple(found.shape) != kind.shape:
            raise DomainError(f"expected {kind}, got an array of shape {list(found.shape)}")
        return found

    def array(self, value: Value) -> Any:
        return self.kernels.array(value)


def float64() -> ArrayDomain:
    """NumPy in float64."""
    from backproof.engine.arrays import NumPyKernels

    return ArrayDomain("float64", NumPyKernels("float64"))


def float32() -> ArrayDomain:
    """NumPy in float32."""
    from backproof.engine.arrays import NumPyKernels

    return ArrayDomain("float32", NumPyKernels("float32"))


def namespace(xp: Any, dtype: str = "float64") -> ArrayDomain:
    """Any Array-API namespace: `namespace(array_api_compat.torch)`."""
    from backproof.engine.arrays import Kernels

    return ArrayDomain(f"{dtype} of {xp.__name__}", Kernels(xp, dtype))


def exact(*, surrogates: bool = False) -> ArrayDomain:
    """Integers and rationals. Functions that leave the rationals are refused, or replaced by integer polynomials."""
    from backproof.engine.exact import ExactKernels

    return ArrayDomain("exact", ExactKernels(surrogates=surrogates))


def prime_field(seed: int = 0) -> ArrayDomain:
    """The integers modulo 2⁶¹ − 1, with every function that is not rational as a keyed random symbol."""
    from backproof.engine.field import FieldKernels

    return ArrayDomain("field", FieldKernels(seed))


def bounded(computing: str = "float32", accumulation: str | None = None) -> Domain:
    """float64 values with two bounds on what rounding does to them in the computing format."""
    from backproof.engine.bounded import Bounded

    return Bounded(computing, accumulation)


DOMAINS: dict[str, Callable[[], Domain]] = {
    "float64": float64,
    "float32": float32,
    "bounded": bounded,
    "exact": exact,
    "field": prime_field,
}


def domain_named(name: str) -> Domain:
    """The domain of this name."""
    if name not in DOMAINS:
        raise DomainError(f"unknown domain {name!r}; there are {', '.join(DOMAINS)}")
    return DOMAINS[name]()
