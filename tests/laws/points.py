"""For every primitive, random valid uses of it: types, parameters, and numbers to run it on.

The parameters are drawn by Hypothesis, so that they shrink; the numbers come from a drawn seed. `BACKPROOF_DEEP=20` runs twenty times
as many examples, newly drawn; without it every run is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st

from backproof.errors import GraphError
from backproof.ir.primitive import Primitive
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.tensor import Tensor
from backproof.ir.types import Type, boolean, integer, real

DEEP = int(os.environ.get("BACKPROOF_DEEP", "1"))


def law(examples: int) -> Callable[..., Any]:
    """How a law is tried: this many examples, always the same ones but in a deep run."""
    return settings(
        max_examples=examples * DEEP,
        derandomize=DEEP == 1,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# A domain says which numbers an input may hold; a style says how they are spread over it:
#     plain   any floats            tied    few different floats, so that many are equal
#     apart   no two nearer than 1/64, none within 1/128 of 0      whole   small integers

Domain = str | tuple[str, int]
_RANGES = {"any": (-3.0, 3.0), "positive": (0.125, 4.0), "above": (-0.75, 3.0), "exponent": (-2.0, 2.0)}
_WHOLE = {"any": (-3, 4), "positive": (1, 5), "above": (0, 4), "exponent": (0, 4)}


def sample(rng: np.random.Generator, kind: Type, domain: Domain, style: str) -> np.ndarray[Any, Any]:
    """Numbers of this type, from this domain, in this style."""
    if isinstance(domain, tuple):
        return rng.integers(-1, domain[1] + 1, kind.shape)
    if kind.kind == "bool":
        return rng.random(kind.shape) < 0.5
    if kind.kind == "int":
        return rng.integers(-3, 4, kind.shape)
    return np.asarray(_reals(rng, kind.shape, domain, style), dtype=np.float64)


def _reals(rng: np.random.Generator, shape: tuple[int, ...], domain: str, style: str) -> Any:
    name = "any" if domain == "nonzero" else domain
    if style == "whole":
        found = rng.integers(*_WHOLE[name], shape)
        return np.where(found == 0, 2, found) if domain == "nonzero" else found
    low, high = _RANGES[name]
    if style == "plain":
        found = rng.uniform(low, high, shape)
    elif style == "tied":
        found = low + (high - low) * (rng.integers(0, 4, shape) + 1) / 8
    else:
        size = int(np.prod(shape))
        found = (rng.permutation(size).reshape(shape) - size // 2 + 0.5) / 16 + rng.uniform(-1, 1, shape) / 512
        if name != "any":
            found = low + 1 / 32 + abs(found)
    return np.where(abs(found) < 1 / 8, 0.5, found) if domain == "nonzero" else found


@dataclass(frozen=True)
class Point:
    """One use of a primitive."""

    op: str
    types: tuple[Type, ...]
    params: dict[str, Any]
    domains: tuple[Domain, ...]
    seed: int

    @property
    def primitive(self) -> Primitive:
        return PRIMITIVES[self.op]

    @cached_property
    def type(self) -> Type:
        """The type that the shape rule gives the output."""
        return self.primitive.shape(*self.types, **self.params)

    def rng(self, salt: int = 0) -> np.random.Generator:
        return np.random.default_rng([self.seed, salt])

    def x(self, style: str = "plain") -> tuple[np.ndarray[Any, Any], ...]:
        rng = self.rng(1)
        found = tuple(sample(rng, kind, domain, style) for kind, domain in zip(self.types, self.domains, strict=True))
        if style != "apart":
            return found
        # Apart from the other inputs' numbers too, and with bits to spare for a small step to be exact.
        return tuple(
            np.rint((v + k / 48) * 2.0**20) / 2.0**20 if v.dtype.kind == "f" else v for k, v in enumerate(found)
        )

    def like(self, kind: Type, salt: int, style: str = "plain") -> np.ndarray[Any, Any]:
        """Numbers for a tangent or a cotangent of this type."""
        return sample(self.rng(salt), kind, "any", style)

    @cached_property
    def differentiable(self) -> tuple[int, ...]:
        """The inputs along which there is a derivative."""
        if self.type.kind != "real":
            return ()
        return tuple(
            i for i, kind in enumerate(self.types) if kind.kind == "real" and self.primitive.pull(i) is not None
        )


# ── what the generators draw from ───────────────────────────────────────────────────────────────────────────────────


class Draw:
    """Hypothesis's draw, with the few questions that the generators ask."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self._draw = draw

    def size(self, low: int = 0, high: int = 4) -> int:
        return self._draw(st.integers(low, high))

    def pick(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def shape(self, low: int = 0, high: int = 3, least: int = 0, most: int = 4) -> tuple[int, ...]:
        return tuple(self.size(least, most) for _ in range(self.size(low, high)))

    def order(self, count: int) -> tuple[int, ...]:
        return tuple(self._draw(st.permutations(range(count))))

    def some(self, count: int) -> tuple[int, ...]:
        """Some of 0 … count−1, in any order."""
        return self.order(count)[: self.size(0, count)]

    def kind(self, shape: tuple[int, ...]) -> Type:
        return self.pick(real, real, real, integer, boolean)(*shape)


Drawn = tuple[tuple[Type, ...], dict[str, Any], tuple[Domain, ...]]
Generator = Callable[[Draw], Drawn]
GENERATORS: dict[str, Generator] = {}


def generates(*ops: str) -> Callable[[Generator], Generator]:
    """Registers a generator for these primitives."""

    def register(generator: Generator) -> Generator:
        GENERATORS.update(dict.fromkeys(ops, generator))
        return generator

    return register


@st.composite
def points(draw: Callable[..., Any], op: str) -> Point:
    """Valid uses of one primitive."""
    types, params, domains = GENERATORS[op](Draw(draw))
    found = Point(op, types, params, domains, draw(st.integers(0, 2**32 - 1)))
    try:
        assume(found.type.size <= 4096)
    except GraphError:
        assume(False)
    return found


def _anywhere(*types: Type) -> tuple[Domain, ...]:
    return ("any",) * len(types)


# ── elementwise ─────────────────────────────────────────────────────────────────────────────────────────────────────

_DOMAINS: dict[str, tuple[Domain, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum"), ("any", "any")),
    **dict.fromkeys(("neg", "exp", "expm1", "tanh", "sigmoid", "erf", "sin", "cos"), ("any",)),
    **dict.fromkeys(("relu", "abs", "sign"), ("any",)),
    **dict.fromkeys(("log", "sqrt", "rsqrt"), ("positive",)),
    "div": ("any", "nonzero"),
    "pow": ("positive", "exponent"),
    "log1p": ("above",),
}


def _elementwise(domains: tuple[Domain, ...]) -> Generator:
    return lambda d: ((real(*d.shape()),) * len(domains), {}, domains)


for _op, _given in _DOMAINS.items():
    GENERATORS[_op] = _elementwise(_given)


@generates("eq", "ne", "lt", "le", "gt", "ge")
def _comparison(d: Draw) -> Drawn:
    kind = d.pick(real, real, integer)(*d.shape())
    return (kind, kind), {}, ("any", "any")


@generates("logical_and", "logical_or")
def _logical(d: Draw) -> Drawn:
    kind = boolean(*d.shape())
    return (kind, kind), {}, ("any", "any")


@generates("logical_not")
def _not(d: Draw) -> Drawn:
    return (boolean(*d.shape()),), {}, ("any",)


@generates("where")
def _where(d: Draw) -> Drawn:
    shape = d.shape()
    kind = d.kind(shape)
    return (boolean(*shape), kind, kind), {}, ("any", "any", "any")


# ── reduce ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@generates("sum", "prod")
def _reduction(d: Draw) -> Drawn:
    shape = d.shape(0, 4)
    return (real(*shape),), {"axes": d.some(len(shape))}, ("any",)


@generates("max", "min", "logsumexp")
def _extreme(d: Draw) -> Drawn:
    shape = list(d.shape(0, 4))
    axes = d.some(len(shape))
    for axis in axes:
        shape[axis] = max(shape[axis], 1)
    return (real(*shape),), {"axes": axes}, ("any",)


@generates("cumsum")
def _cumsum(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    return (real(*shape),), {"axis": d.pick(*range(len(shape))), "reverse": d.pick(False, True)}, ("any",)


@generates("argmax")
def _argmax(d: Draw) -> Drawn:
    shape = list(d.shape(1, 3))
    axis = d.pick(*range(len(shape)))
    shape[axis] = max(shape[axis], 1)
    return (real(*shape),), {"axis": axis}, ("any",)


# ── linear ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@generates("dot_general")
def _dot_general(d: Draw) -> Drawn:
    batch, contract = d.shape(0, 2, 0, 3), d.shape(0, 3, 0, 3)
    both = (*batch, *contract)
    sides, places = [], []
    for _ in range(2):
        free = d.shape(0, 2, 0, 3)
        order = d.order(len(both) + len(free))  # where each axis lies in the operand
        shape = [0] * len(order)
        for size, place in zip((*both, *free), order, strict=True):
            shape[place] = size
        sides.append(real(*shape))
        places.append(order)
    n, m = len(batch), len(both)
    listed = d.order(m - n), d.order(n)  # in which order the pairs are named
    params = {
        "contract": tuple(tuple(places[side][n + i] for i in listed[0]) for side in (0, 1)),
        "batch": tuple(tuple(places[side][i] for i in listed[1]) for side in (0, 1)),
    }
    return tuple(sides), params, ("any", "any")


@generates("conv")
def _conv(d: Draw) -> Drawn:
    rank = d.pick(0, 1, 1, 2, 2, 3)
    most = 4 if rank == 3 else 6
    groups, channels, out = d.size(1, 3), d.size(0, 2), d.size(0, 2)
    space, window = (tuple(d.size(least, high) for _ in range(rank)) for least, high in ((0, most), (1, 3)))
    params = {
        "stride": tuple(d.size(1, 3) for _ in range(rank)),
        "padding": tuple((d.size(-5, 3), d.size(-5, 3)) for _ in range(rank)),
        "input_dilation": tuple(d.size(1, 3) for _ in range(rank)),
        "window_dilation": tuple(d.size(1, 2) for _ in range(rank)),
        "groups": groups,
    }
    x = real(d.size(0, 2), groups * channels, *space)
    return (x, real(groups * out, channels, *window)), params, ("any", "any")


# ── shape ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@generates("reshape")
def _reshape(d: Draw) -> Drawn:
    shape = d.shape(0, 3)
    merged = list(shape)
    if len(merged) >= 2 and d.pick(True, False):
        merged[:2] = [merged[0] * merged[1]]
    merged.insert(d.size(0, len(merged)), 1)
    return (d.kind(shape),), {"shape": tuple(merged[i] for i in d.order(len(merged)))}, ("any",)


@generates("transpose")
def _transpose(d: Draw) -> Drawn:
    shape = d.shape(0, 4)
    return (d.kind(shape),), {"axes": d.order(len(shape))}, ("any",)


@generates("broadcast")
def _broadcast(d: Draw) -> Drawn:
    shape = d.shape(0, 4)
    axes = tuple(sorted(d.some(len(shape))))
    return (d.kind(tuple(shape[axis] for axis in axes)),), {"shape": shape, "axes": axes}, ("any",)


@generates("slice")
def _slice(d: Draw) -> Drawn:
    shape = d.shape(0, 3, 0, 6)
    ends = [sorted((d.size(0, n), d.size(0, n))) for n in shape]
    params = {
        "start": tuple(a for a, _ in ends),
        "stop": tuple(b for _, b in ends),
        "step": tuple(d.size(1, 4) for _ in shape),
    }
    return (d.kind(shape),), params, ("any",)


@generates("pad")
def _pad(d: Draw) -> Drawn:
    shape = d.shape(0, 3)
    params = {name: tuple(d.size(0, 3) for _ in shape) for name in ("low", "high", "interior")}
    return (d.kind(shape),), params, ("any",)


@generates("concat")
def _concat(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    axis = d.pick(*range(len(shape)))
    make = d.pick(real, real, integer, boolean)
    types = tuple(make(*shape[:axis], d.size(), *shape[axis + 1 :]) for _ in range(d.size(1, 3)))
    return types, {"axis": axis}, _anywhere(*types)


@generates("flip")
def _flip(d: Draw) -> Drawn:
    shape = d.shape(0, 3)
    return (d.kind(shape),), {"axes": d.some(len(shape))}, ("any",)


# ── index ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@generates("gather")
def _gather(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    axis = d.pick(*range(len(shape)))
    return (d.kind(shape), integer(*d.shape(0, 2))), {"axis": axis}, ("any", ("index", shape[axis]))


@generates("scatter_add")
def _scatter_add(d: Draw) -> Drawn:
    index, lead, trail, size = d.shape(0, 2), d.shape(0, 1), d.shape(0, 1), d.size()
    updates = real(*lead, *index, *trail)
    return (integer(*index), updates), {"axis": len(lead), "size": size}, (("index", size), "any")


@generates("gather_along")
def _gather_along(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    axis = d.pick(*range(len(shape)))
    index = integer(*shape[:axis], d.size(), *shape[axis + 1 :])
    return (d.kind(shape), index), {"axis": axis}, ("any", ("index", shape[axis]))


@generates("scatter_along")
def _scatter_along(d: Draw) -> Drawn:
    shape, size = d.shape(1, 3), d.size()
    axis = d.pick(*range(len(shape)))
    return (integer(*shape), real(*shape)), {"axis": axis, "size": size}, (("index", size), "any")


@generates("argsort")
def _argsort(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    return (real(*shape),), {"axis": d.pick(*range(len(shape))), "descending": d.pick(False, True)}, ("any",)


@generates("topk")
def _topk(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    axis = d.pick(*range(len(shape)))
    return (real(*shape),), {"k": d.size(0, shape[axis]), "axis": axis}, ("any",)


# ── window ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@generates("max_pool", "pool_argmax", "sum_pool")
def _pool(d: Draw) -> Drawn:
    rank = d.pick(0, 1, 1, 2, 2, 3)
    params = {
        "window": tuple(d.size(1, 3) for _ in range(rank)),
        "stride": tuple(d.size(1, 3) for _ in range(rank)),
        "padding": tuple((d.size(0, 2), d.size(0, 2)) for _ in range(rank)),
        "dilation": tuple(d.size(1, 2) for _ in range(rank)),
    }
    return (real(d.size(0, 2), d.size(0, 2), *d.shape(rank, rank, 0, 5)),), params, ("any",)


# ── from nothing, and changes of kind ───────────────────────────────────────────────────────────────────────────────


@generates("constant")
def _constant(d: Draw) -> Drawn:
    shape = d.shape()
    value = d.pick(0.0, 1.5, 0.1, -2.0, 3, -7, True, False, "tensor")
    if value == "tensor":
        kind = d.kind(shape)
        value = Tensor.of(sample(np.random.default_rng(d.size(0, 99)), kind, "any", "plain"))
    return (), {"value": value, "shape": shape}, ()


@generates("iota")
def _iota(d: Draw) -> Drawn:
    return (), {"size": d.size(0, 9)}, ()


@generates("cast")
def _cast(d: Draw) -> Drawn:
    kind = d.kind(d.shape())
    formats = ("float32", "bfloat16") if kind.kind == "real" else ()
    return (kind,), {"to": d.pick("real", "int", "bool", *formats)}, ("any",)


@generates("stop_gradient")
def _stop_gradient(d: Draw) -> Drawn:
    return (d.kind(d.shape()),), {}, ("any",)
