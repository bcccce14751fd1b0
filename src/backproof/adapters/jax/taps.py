"""Taps: names for intermediate values of a function, found again in its jaxpr, and zeros added there.

`tap("fc1", x)` is the identity. It leaves a named equation in the jaxpr, also inside of `jit`, `vmap` and `checkpoint`, and
costs nothing once compiled. `Tapped` runs a jaxpr with a zero added at each of them: the gradient with respect to the zeros is
every intermediate's gradient, in one pass.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var

from backproof.errors import InputError
from backproof.trace.manifest import Probe
from backproof.trace.phases import LABEL

MARK = "backproof.tap:"
INLINED = {"jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint"}
"""Equations whose jaxpr is run in their place, where a tap is inside; none that has a derivative of its own."""

Array = Any


def tap(name: str, x: Array, kind: str = "", **hyper: Any) -> Array:
    """`x` itself, known to `trace` under this name. `kind` and its hyper-parameters tell what made it (docs/traces.md has the kinds)."""
    return checkpoint_name(x, MARK + json.dumps([name, kind, hyper], sort_keys=True))  # type: ignore[no-untyped-call] # jax leaves it so


class Tapped:
    """A jaxpr with taps: which there are, and what it computes with zeros added at them."""

    def __init__(self, closed: ClosedJaxpr, sources: Sequence[frozenset[str]]) -> None:
        self.closed = closed
        self.probes: dict[str, Probe] = {}
        self.shapes: dict[str, Any] = {}
        self.parents: tuple[str, ...] = ()
        """What the result reads."""
        outs = self._survey(closed.jaxpr, list(sources))
        self.parents = _ordered(outs[0], self.probes) if outs else ()

    # ── which taps there are ────────────────────────────────────────────────────────────────────────────────────────

    def _survey(self, jaxpr: Jaxpr, sources: list[frozenset[str]]) -> list[frozenset[str]]:
        """The nearest names upstream of each result; and every tap on the way, in the order of execution."""
        near: dict[Any, frozenset[str]] = dict(zip(jaxpr.invars, sources, strict=True))

        def of(atom: Any) -> frozenset[str]:
            return frozenset() if isinstance(atom, Literal) else near.get(atom, frozenset())

        for equation in jaxpr.eqns:
            reads = [of(atom) for atom in equation.invars]
            together = frozenset().union(*reads)
            said = _tap_of(equation)
            inner = _inner(equation)
            if said is not None:
                name = self._add(said, together, equation.outvars[0].aval)
                near[equation.outvars[0]] = frozenset([name])
            elif inner is not None and _has_taps(inner.jaxpr):
                if equation.primitive.name not in INLINED:
                    raise InputError(
                        f"tap: {_first(inner.jaxpr)!r} is inside of a {equation.primitive.name}, where a value has no single gradient: "
                        "tap what comes out of it"
                    )
                found = self._survey(inner.jaxpr, reads)
                near.update(zip(equation.outvars, found, strict=True))
            else:
                for outvar in equation.outvars:
                    near[outvar] = together
        return [of(atom) for atom in jaxpr.outvars]

    def _add(self, said: tuple[str, str, dict[str, Any]], reads: frozenset[str], aval: Any) -> str:
        name, kind, hyper = said
        count = 1
        while name in self.probes:
            count += 1
            name = f"{said[0]}#{count}"
        self.probes[name] = Probe(name, _ordered(reads, self.probes), kind, hyper)
        self.shapes[name] = aval
        return name

    # ── running it ──────────────────────────────────────────────────────────────────────────────────────────────────

    def __call__(self, zeros: dict[str, Array], arguments: Sequence[Array]) -> tuple[list[Array], dict[str, Array]]:
        """The results, and the value at each tap; differentiable with respect to the zeros."""
        seen: dict[str, Array] = {}
        waiting = iter(self.probes)

        def run(jaxpr: Jaxpr, consts: Sequence[Array], given: Sequence[Array]) -> list[Array]:
            values: dict[Any, Array] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *given), strict=True))

            def read(atom: Any) -> Array:
                return atom.val if isinstance(atom, Literal) else values[atom]

            for equation in jaxpr.eqns:
                inputs = [read(atom) for atom in equation.invars]
                inner = _inner(equation)
                if _tap_of(equation) is not None:
                    name = next(waiting)
                    seen[name] = inputs[0]
                    results = [inputs[0] + zeros[name] if name in zeros else inputs[0]]
                elif inner is not None and equation.primitive.name in INLINED and _has_taps(inner.jaxpr):
                    results = run(inner.jaxpr, inner.consts, inputs)
                else:
                    results = jax.core.eval_jaxpr(_alone(jaxpr, equation), (), *inputs)
                values.update(zip(equation.outvars, results, strict=True))
            return [read(atom) for atom in jaxpr.outvars]

        return run(self.closed.jaxpr, self.closed.consts, arguments), seen

    def zeros(self) -> dict[str, Array]:
        """A zero for each tap of reals."""
        return {
            name: jnp.zeros(s.shape, s.dtype) for name, s in self.shapes.items() if jnp.issubdtype(s.dtype, jnp.inexact)
        }


def _tap_of(equation: Any) -> tuple[str, str, dict[str, Any]] | None:
    """What a tap says, if the equation is one."""
    if equation.primitive.name != "name" or not str(equation.params["name"]).startswith(MARK):
        return None
    name, kind, hyper = json.loads(equation.params["name"][len(MARK) :])
    return name, kind, hyper


def _alone(jaxpr: Jaxpr, equation: Any) -> Jaxpr:
    """A jaxpr of one equation of another, whose inputs are its own, literals too."""
    variables = [Var(atom.aval) for atom in equation.invars]
    alone = {"eqns": [equation.replace(invars=variables)], "invars": variables, "outvars": list(equation.outvars)}
    return jaxpr.replace(constvars=[], **alone)  # type: ignore[no-untyped-call]


def _inner(equation: Any) -> ClosedJaxpr | None:
    """The jaxpr inside of an equation."""
    for value in equation.params.values():
        if isinstance(value, ClosedJaxpr):
            return value
        if isinstance(value, Jaxpr):
            return ClosedJaxpr(value, [])
        if isinstance(value, (tuple, list)) and value and isinstance(value[0], ClosedJaxpr):
            return next((branch for branch in value if _has_taps(branch.jaxpr)), value[0])
    return None


def _has_taps(jaxpr: Jaxpr) -> bool:
    return _first(jaxpr) is not None


def _first(jaxpr: Jaxpr) -> str | None:
    """The name of the first tap inside."""
    for equation in jaxpr.eqns:
        said = _tap_of(equation)
        inner = _inner(equation)
        found = said[0] if said is not None else _first(inner.jaxpr) if inner is not None else None
        if found is not None:
            return found
    return None


def _ordered(names: frozenset[str], probes: dict[str, Probe]) -> tuple[str, ...]:
    """Names in the order in which they came: the network's inputs first, and last what its loss is told."""
    place = {name: i for i, name in enumerate(probes)} | {LABEL: len(probes)}
    return tuple(sorted(names, key=lambda name: (place.get(name, -1), name)))
