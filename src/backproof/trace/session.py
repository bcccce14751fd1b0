"""A session's step as events: what each layer writes as it is computed, and the gradient of it as the reverse loop arrives there.

    layers = {"input": x, "fc1": h, "act": a, "fc2": z}             # names for references, in the network's order
    trace_weights(s, sink, "w_before")
    gradients = traced_grads(s, loss, sink, layers)                 # the numbers of s.backward_scalar_dense_all(loss), every bit of them
    trace_grads(s, gradients, sink, "grad_raw")

Without a sink nothing but the gradients is computed, by the very call that a program without traces makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from backproof.engine.domain import Domain, domain_named
from backproof.engine.evaluate import evaluate
from backproof.errors import SessionError
from backproof.ir.build import Ref
from backproof.ir.graph import Graph
from backproof.session import Nat, Session
from backproof.session.tape import Gradients, Tape, compile_tape, run_backward
from backproof.trace.event import Event
from backproof.trace.manifest import Probe
from backproof.trace.phases import INPUT, LABEL, LOSS
from backproof.trace.sink import Sink

Layers = Mapping[str, Ref | Nat | int]
"""Names of values, in the network's order. `input` and `label` are what the network reads."""


def traced_grads(
    subject: Session | Graph,
    loss: Ref | int,
    sink: Sink | None = None,
    layers: Layers | None = None,
    *,
    leaves: Sequence[Any] = (),
    domain: str | Domain = "float64",
) -> Gradients:
    """The gradients of all values from a scalar loss; the sink is told of each layer, or, where none are named, of each node.

    `fwd` comes in the order of the graph; then `lossgrad`, the gradient of what the loss reads; then `agrad`, from the last layer to
    the first, each before the layer itself is gone through. A graph needs the values of its `leaves`, and a domain.
    """
    out = loss.id if isinstance(loss, Ref) else loss
    if isinstance(subject, Session):
        if sink is None and isinstance(loss, Ref):
            return subject.backward_scalar_dense_all(loss)
        tape = subject.compile_tape()
    else:
        D = domain_named(domain) if isinstance(domain, str) else domain
        tape = compile_tape(subject, D, evaluate(subject, D, leaves))
    if not 0 <= out < len(tape) or tape.graph.types[out].shape != () or tape.graph.types[out].kind != "real":
        raise SessionError(f"the loss must be a real scalar of the graph, and %{out} is not")
    gradients: Gradients = [None] * len(tape)
    gradients[out] = tape.domain.value(1.0, tape.graph.types[out])
    if sink is None:
        return run_backward(tape, gradients)
    places = _places(tape.graph, layers, out)
    _tell_forward(tape, places, out, sink)
    return _told_backward(tape, gradients, places, sink)


def _places(graph: Graph, layers: Layers | None, out: int) -> dict[str, int]:
    """name → value."""
    if layers is not None:
        found = {name: _value(ref) for name, ref in layers.items()}
        for name, value in found.items():
            if not 0 <= value < len(graph):
                raise SessionError(f"layer {name!r}: there is no %{value} in a graph of {len(graph)} values")
        return {name: value for name, value in found.items() if value != out}
    names: dict[str, int] = {}
    for value in range(len(graph.leaves), len(graph)):
        node = graph.node(value)
        assert node is not None
        name = node.name or f"{node.op}.{value}"
        if value != out:
            names[name if name not in names else f"{name}.{value}"] = value
    return names


def _value(ref: Ref | Nat | int) -> int:
    if isinstance(ref, Nat):
        return ref.ref.id
    return ref.id if isinstance(ref, Ref) else ref


def _tell_forward(tape: Tape, places: Mapping[str, int], out: int, sink: Sink) -> None:
    for index, (name, value) in enumerate(sorted(places.items(), key=lambda item: item[1])):
        sink(Event(name, "fwd", index, tensor=tape.domain.array(tape.values[value])))
    sink(Event(LOSS, "fwd", len(places), tensor=tape.domain.array(tape.values[out])))


def _told_backward(tape: Tape, gradients: Gradients, places: Mapping[str, int], sink: Sink) -> Gradients:
    """The reverse loop, stopped at each layer: what has arrived there by then is its gradient, for all that reads it is done."""
    steps = list(tape.steps)
    first = True
    for index, (name, value) in reversed(list(enumerate(sorted(places.items(), key=lambda item: item[1])))):
        later = [step for step in steps if step.value > value]
        run_backward(replace(tape, steps=tuple(later)), gradients)
        steps = steps[: len(steps) - len(later)]
        if not tape.wanted[value]:
            continue
        found = gradients[value]
        numbers = tape.domain.array(tape.domain.zeros(tape.graph.types[value].shape) if found is None else found)
        if first:
            sink(Event(LOSS, "lossgrad", len(places), tensor=numbers))
            first = False
        sink(Event(name, "agrad", index, tensor=numbers))
    return run_backward(replace(tape, steps=tuple(steps)), gradients)


# ── parameters ──────────────────────────────────────────────────────────────────────────────────────────────────────


def trace_weights(session: Session, sink: Sink | None, tag: str = "w_before") -> None:
    """Tell a sink of the present value of every trainable parameter in use; `conv1.weight` is the parameter `weight` of `conv1`."""
    if sink is None:
        return
    for leaf, parameter in session.parameters.items():
        if parameter.requires_grad:
            probe, name = _parameter_place(parameter.name, leaf)
            sink(Event(probe, tag, leaf, parameter=name, tensor=session.domain.array(parameter.value)))


def trace_grads(session: Session, gradients: Gradients, sink: Sink | None, tag: str = "grad_raw") -> None:
    """Tell a sink of the gradient of every trainable parameter in use."""
    if sink is None:
        return
    for leaf, parameter in session.parameters.items():
        if parameter.requires_grad:
            probe, name = _parameter_place(parameter.name, leaf)
            found = gradients[leaf]
            value = session.domain.zeros(tuple(parameter.value.shape)) if found is None else found
            sink(Event(probe, tag, leaf, parameter=name, tensor=session.domain.array(value)))


def _parameter_place(name: str, leaf: int) -> tuple[str, str]:
    probe, _, parameter = (name or f"leaf.{leaf}").rpartition(".")
    return probe or parameter, parameter if probe else "value"


def probes_of(
    graph: Graph, layers: Layers, loss: Ref | int, parameters: Mapping[int, str] | None = None
) -> tuple[Probe, ...]:
    """The layers as a manifest has them: which of the others each reads. `parameters` are leaves by name, as `session.parameters`."""
    out = loss.id if isinstance(loss, Ref) else loss
    names = {value: name for name, value in _places(graph, layers, out).items()} | {out: LOSS}
    own = parameters or {}
    found = []
    for value, name in sorted(names.items()):
        parents, leaves = _reads(graph, value, names)
        if name not in (INPUT, LABEL):
            known = tuple(own[leaf].rpartition(".")[2] for leaf in leaves if own.get(leaf, "").startswith(f"{name}."))
            found.append(Probe(name, tuple(names[parent] for parent in parents), parameters=known))
    return tuple(found)


def _reads(graph: Graph, value: int, names: Mapping[int, str]) -> tuple[list[int], list[int]]:
    """The nearest named values that lead to this one, what a loss is told last; and the unnamed leaves on the way, in order."""
    near: set[int] = set()
    leaves: set[int] = set()
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        node = graph.node(waiting.pop())
        for parent in node.arguments if node is not None else ():
            if parent in seen:
                continue
            seen.add(parent)
            if parent in names:
                near.add(parent)
            elif graph.node(parent) is None:
                leaves.add(parent)
            else:
                waiting.append(parent)
    return sorted(near, key=lambda value: (names[value] == LABEL, value)), sorted(leaves)
