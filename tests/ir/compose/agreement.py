"""A composition beside PyTorch's function: the same numbers in, values, gradients and second derivatives out."""

import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from backproof.engine.domain import bounded, float64
from backproof.engine.evaluate import evaluate
from backproof.ir.backprop import backprop
from backproof.ir.build import Builder, Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.types import Type

KINDS = {"f": "real", "i": "int", "b": "bool"}
Spec = Callable[[np.random.Generator], np.ndarray]


def normal(*shape: int, scale: float = 1.0, shift: float = 0.0) -> Spec:
    return lambda rng: shift + scale * rng.standard_normal(shape)


def uniform(*shape: int, lo: float, hi: float) -> Spec:
    return lambda rng: rng.uniform(lo, hi, shape)


def whole(*shape: int, below: int) -> Spec:
    return lambda rng: rng.integers(0, below, shape)


def truth(*shape: int, chance: float = 0.6) -> Spec:
    return lambda rng: rng.random(shape) < chance


def fixed(values: Any) -> Spec:
    return lambda rng: np.array(values)


@dataclass(frozen=True)
class Case:
    """One setting of one composition."""

    name: str
    setting: str
    given: tuple[Spec, ...]
    theirs: Callable[..., Any]
    params: dict[str, Any]
    ours: Callable[..., Any] | None = None
    order: int = 2
    """How many times PyTorch can take the derivative: some of its backward functions have none."""
    held: tuple[int, ...] = ()
    """What PyTorch takes as constant, such as the weights of classes."""
    vague: bool = False
    """Whether rounding decides, so that no bound can be given: a norm that may be 0."""
    quiet: bool = False
    """Whether the result is not a number, by 0/0: a mean of nothing."""

    @property
    def id(self) -> str:
        return f"{self.name}-{self.setting}"

    @cached_property
    def arrays(self) -> list[np.ndarray]:
        """The numbers, all of them float32's, so that both formats start from the same."""
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        found = [np.asarray(spec(rng)) for spec in self.given]
        return [x.astype(np.float32).astype(np.float64) if x.dtype.kind == "f" else x for x in found]

    @cached_property
    def moving(self) -> list[int]:
        """Which of what is given has a derivative."""
        return [i for i, x in enumerate(self.arrays) if x.dtype.kind == "f" and i not in self.held]

    def mine(self, *leaves: Ref) -> tuple[Ref, ...]:
        function = self.ours or (lambda *x: COMPOSITIONS[self.name].function(*x, **self.params))
        return tuple(flat(function(*leaves)))


def flat(found: Any) -> list[Any]:
    return [one for part in found for one in flat(part)] if isinstance(found, (tuple, list)) else [found]


@dataclass
class Derivatives:
    """Outputs, and the first and second derivatives of ⟨outputs, cotangents⟩."""

    outputs: list[np.ndarray]
    first: list[np.ndarray]
    second: list[np.ndarray]


def cotangents(shapes: list[tuple[int, ...]], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32).astype(np.float64) for shape in shapes]


# ── PyTorch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def in_torch(case: Case, dtype: torch.dtype, order: int) -> Derivatives:
    leaves = [torch.tensor(x) for x in case.arrays]
    leaves = [x.to(dtype) if x.is_floating_point() else x for x in leaves]
    real = [leaves[i].requires_grad_() for i in case.moving]
    # Only the plain formula of attention has second derivatives.
    with sdpa_kernel(SDPBackend.MATH) if "attention" in case.name else nullcontext():
        outputs = flat(case.theirs(*leaves, **case.params))
    first: list[Any] = []
    second: list[Any] = []
    traced = [y for y in outputs if y.requires_grad]
    if order and traced:
        cots = cotangents([tuple(y.shape) for y in outputs], 1)
        cots = [torch.tensor(c, dtype=dtype, requires_grad=True) for c in cots]
        seeds = [c for c, y in zip(cots, outputs, strict=True) if y.requires_grad]
        first = list(torch.autograd.grad(traced, real, seeds, create_graph=order > 1, materialize_grads=True))
        if order > 1:
            directions = cotangents([tuple(x.shape) for x in real], 2)
            total = sum((g * torch.tensor(v, dtype=dtype)).sum() for g, v in zip(first, directions, strict=True))
            inputs = [*real, *cots]
            found = torch.autograd.grad(total, inputs, materialize_grads=True) if total.requires_grad else None
            second = [torch.zeros_like(x) for x in inputs] if found is None else list(found)
    first = first or [torch.zeros_like(x) for x in real]
    arrays = ([y.detach().double().numpy(force=True) for y in part] for part in (outputs, first, second))
    return Derivatives(*arrays)


# ── ours ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Recorded:
    """A case as a graph, with as many derivatives of it as are wanted, each again in the graph."""

    def __init__(self, case: Case, shapes: list[tuple[int, ...]], order: int) -> None:
        B = self.builder = Builder()
        self.leaves = [B.leaf(Type(KINDS[x.dtype.kind], x.shape)) for x in case.arrays]
        real = [self.leaves[i] for i in case.moving]
        cots = [B.leaf(Type("real", shape)) for shape in shapes]
        directions = [B.leaf(x.type) for x in real]
        self.given = [*case.arrays, *cotangents(shapes, 1), *cotangents([x.shape for x in real], 2)]
        self.outputs = list(case.mine(*self.leaves))
        assert [y.shape for y in self.outputs] == shapes
        self.first: list[Ref] = []
        self.second: list[Ref] = []
        if order:
            self.first = self._gradient(dict(zip((y.id for y in self.outputs), cots, strict=True)), real)
        if order > 1:
            total = B.constant(value=0.0, shape=())
            for g, v in zip(self.first, directions, strict=True):
                total = total + B.sum(g * v, axes=tuple(range(len(g.shape))))
            self.second = self._gradient({total.id: B.constant(value=1.0, shape=())}, [*real, *cots])

    def _gradient(self, seeds: dict[int, Ref], of: list[Ref]) -> list[Ref]:
        B = self.builder
        outputs = [Ref(B, value) for value in seeds]
        values = [Ref(B, value) for value in range(len(B))]
        found = backprop(B.graph(*outputs), B, values, seeds)
        return [x.constant(0.0) if found[x.id] is None else found[x.id] for x in of]

    def run(self, domain: Any) -> tuple[list[Any], ...]:
        wanted = [*self.outputs, *self.first, *self.second]
        values = evaluate(self.builder.graph(*wanted), domain, self.given)
        return tuple([values[ref.id] for ref in part] for part in (self.outputs, self.first, self.second))


def in_float64(case: Case, shapes: list[tuple[int, ...]], order: int) -> Derivatives:
    with np.errstate(all="ignore" if case.quiet else "raise", under="ignore"):
        return Derivatives(*Recorded(case, shapes, order).run(float64()))


def in_bounds(case: Case, shapes: list[tuple[int, ...]]) -> Derivatives:
    return Derivatives(*Recorded(case, shapes, min(case.order, 1)).run(bounded("float32")))


# ── comparison ──────────────────────────────────────────────────────────────────────────────────────────────────────


def off_by(mine: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The largest difference in units of the largest reference, over several arrays.

    An array that is mathematically 0 has only rounding for a reference: it is measured by the largest of the others.
    """
    assert len(mine) == len(theirs)
    worst, top = 0.0, max((np.abs(t).max(initial=0.0, where=np.isfinite(t)) for t in theirs), default=0.0)
    for m, t in zip(mine, theirs, strict=True):
        assert m.shape == t.shape
        assert (np.isfinite(m) == np.isfinite(t)).all()
        assert np.array_equal(m[~np.isfinite(t)], t[~np.isfinite(t)], equal_nan=True)
        finite = np.isfinite(t)
        gap = np.abs(np.where(finite, m, 0) - np.where(finite, t, 0)).max(initial=0.0)
        size = np.abs(np.where(finite, t, 0)).max(initial=0.0)
        scale = size if size > 1e-9 * top else top
        worst = max(worst, gap / scale if scale else (np.inf if gap else 0.0))
    return worst
