"""`trace(fun, params, *inputs, out=...)`: one step of a JAX program, computed and recorded: values, gradients, updates."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from backproof.adapters.jax.taps import Tapped
from backproof.adapters.recording import (
    Kept,
    kept,
    place_of,
    scaled,
    tell,
    untold_losses,
    wanted_samples,
    which_samples,
    writer_for,
)
from backproof.errors import InputError, UsageError
from backproof.trace import Manifest, Probe, Sink
from backproof.trace.phases import INPUT, LABEL, LOSS

STATES = {"trace": "momentum_buffer", "mu": "exp_avg", "nu": "exp_avg_sq", "sum_of_squares": "sum"}
"""What optax calls a piece of state → what it is called in a trace, as by PyTorch."""


@dataclass(frozen=True)
class Traced:
    """What a step has computed."""

    loss: Any
    grads: Any
    params: Any
    """After the update; without an optimizer, as they were."""
    opt_state: Any = None
    aux: Any = None


def trace(
    fun: Callable[..., Any],
    params: Any,
    *inputs: Any,
    out: str | os.PathLike[str] | None = None,
    sink: Sink | None = None,
    step: int = 0,
    samples: int | None = None,
    scale: float | str | None = None,
    optimizer: Any = None,
    opt_state: Any = None,
    settings: Mapping[str, Any] | None = None,
    has_aux: bool = False,
    jit: bool = True,
    store: str = "npy",
    notes: Mapping[str, Any] | None = None,
) -> Traced:
    """Run `fun(params, *inputs)`, a scalar loss, with its gradients and, given an optax optimizer, the update; and record it.

    What is between is seen where `fun` says `tap(name, x)`; a tap named `loss` on the loss tells its kind. The first input is the
    probe `input`, the last of several `label`. A loss that is a mean over the batch says so with `scale="mean"`; it is stated in the
    manifest, and no number is changed. `settings` are the optimizer's ({"name": "sgd", "lr": 0.1}), which optax does not tell. Further
    steps go into the same folder with `step=1` and so on.
    """
    if out is None and sink is None:
        raise UsageError("trace: give out=FOLDER or sink=CALLABLE; else nothing would be kept")
    if optimizer is not None and opt_state is None:
        opt_state = optimizer.init(params)
    wanted_samples(samples)
    step_seen = _computed(fun, params, inputs, has_aux=has_aux, jit=jit)
    updated, new_state = params, opt_state
    if optimizer is not None:
        import optax

        updates, new_state = optimizer.update(step_seen.grads, opt_state, params)
        updated = optax.apply_updates(params, updates)
    keeps = [*_parameters("w_before", params), *_states("opt_before", opt_state, params)]
    keeps += _activations(step_seen, inputs, samples)
    keeps += [*_parameters("grad_raw", step_seen.grads), *_parameters("grad_scaled", step_seen.grads)]
    if optimizer is not None:
        keeps += [*_states("opt_after", new_state, params), *_parameters("w_after", updated)]
    batch, probes = _batch(inputs), _probes(step_seen.tapped, params, inputs)
    manifest = Manifest(
        framework=f"jax {jax.__version__}",
        store=store,
        batch=batch,
        samples=which_samples(samples, batch),
        scale=scaled(scale, batch),
        handled=scale is None,
        probes=probes if scale is not None else untold_losses(probes),
        optimizer=dict(settings or {}),
        notes={**({} if scale is not None else {"scale": "not known; say scale='mean' or a number"}), **(notes or {})},
    )
    if sink is not None:
        tell(keeps, manifest.probes, sink)
    if out is not None:
        with writer_for(out, manifest, step).step(step) as write:
            tell(keeps, manifest.probes, write)
    return Traced(step_seen.loss, step_seen.grads, updated, new_state, step_seen.aux)


@dataclass(frozen=True)
class _Seen:
    """A step's numbers."""

    tapped: Tapped
    loss: Any
    aux: Any
    values: dict[str, Any]
    gradients: dict[str, Any]
    grads: Any
    input_gradients: list[Any]


def _computed(fun: Callable[..., Any], params: Any, inputs: tuple[Any, ...], *, has_aux: bool, jit: bool) -> _Seen:
    """The loss, and its gradients with respect to the parameters, the inputs of reals and a zero at each tap, in one pass."""
    closed, shape = jax.make_jaxpr(fun, return_shape=True)(params, *inputs)
    flat_params, tree = jax.tree_util.tree_flatten(params)
    flat_inputs = [jax.tree_util.tree_leaves(value) for value in inputs]
    sources = [frozenset[str]()] * len(flat_params)
    for name, leaves in zip(_input_names(inputs), flat_inputs, strict=True):
        sources += [frozenset([name])] * len(leaves)
    tapped = Tapped(closed, sources)
    if not tapped.probes:
        raise InputError("trace: this function has no tap; mark what is to be seen with tap('name', x)")
    result_tree = jax.tree_util.tree_structure(shape)
    given = [leaf for leaves in flat_inputs for leaf in leaves]
    real = [i for i, leaf in enumerate(given) if jax.numpy.issubdtype(jax.numpy.result_type(leaf), jax.numpy.inexact)]

    def loss_of(parts: tuple[list[Any], list[Any], dict[str, Any]]) -> tuple[Any, tuple[Any, dict[str, Any]]]:
        weights, reals, zeros = parts
        arguments = list(given)
        for i, leaf in zip(real, reals, strict=True):
            arguments[i] = leaf
        results, seen = tapped(zeros, [*weights, *arguments])
        whole = jax.tree_util.tree_unflatten(result_tree, results)
        loss, aux = whole if has_aux else (whole, None)
        return loss, (aux, seen)

    run = jax.value_and_grad(loss_of, has_aux=True)
    (loss, (aux, values)), (weights, reals, zeros) = (jax.jit(run) if jit else run)(
        (flat_params, [jax.numpy.asarray(given[i]) for i in real], tapped.zeros())
    )
    input_gradients: list[Any] = [None] * len(given)
    for i, found in zip(real, reals, strict=True):
        input_gradients[i] = found
    return _Seen(tapped, loss, aux, values, zeros, jax.tree_util.tree_unflatten(tree, weights), input_gradients)


def _input_names(inputs: tuple[Any, ...]) -> list[str]:
    last = len(inputs) - 1
    return [INPUT if i == 0 else LABEL if i == last else f"{INPUT}.{i}" for i in range(len(inputs))]


def _batch(inputs: tuple[Any, ...]) -> int | None:
    leaves: list[Any] = jax.tree_util.tree_leaves(inputs[0]) if inputs else []
    return int(leaves[0].shape[0]) if leaves and jax.numpy.ndim(leaves[0]) else None


def _activations(seen: _Seen, inputs: tuple[Any, ...], samples: int | None) -> list[Kept]:
    """Forward in the order of execution, then what the loss reads, then backward from the last to the first."""
    batch = _batch(inputs)
    found, at = [], 0
    gradients: list[tuple[str, Any]] = []
    for name, value in zip(_input_names(inputs), inputs, strict=True):
        leaves = jax.tree_util.tree_leaves(value)
        for i, leaf in enumerate(leaves):
            place = name if len(leaves) == 1 else f"{name}.{i}"
            found.append(kept(place, "fwd", jax.numpy.asarray(leaf), samples=samples, batch=batch))
            if seen.input_gradients[at] is not None and name != LABEL:
                gradients.append((place, seen.input_gradients[at]))
            at += 1
    gradients += seen.gradients.items()
    found += [
        kept(name, "fwd", seen.values[name], samples=samples, batch=batch)
        for name in seen.tapped.probes
        if name != LOSS
    ]
    found.append(kept(LOSS, "fwd", seen.loss))
    tapped_loss = seen.tapped.probes.get(LOSS)
    read = [name for name in (tapped_loss.parents if tapped_loss else seen.tapped.parents) if name in seen.gradients]
    if len(read) == 1:
        found.append(kept(LOSS, "lossgrad", seen.gradients[read[0]], samples=samples, batch=batch))
    by_place = {name: i for i, name in enumerate(seen.tapped.probes)}
    gradients.sort(key=lambda item: by_place.get(item[0], -1), reverse=True)
    return found + [
        kept(name, "agrad", value, samples=samples, batch=batch) for name, value in gradients if name != LOSS
    ]


def _probes(tapped: Tapped, params: Any, inputs: tuple[Any, ...]) -> tuple[Probe, ...]:
    """The taps, with the parameters that have a tap's name before theirs; and the loss."""
    own: dict[str, list[str]] = {}
    for path, _ in _leaves(params):
        probe, parameter = place_of(path)
        own.setdefault(probe, []).append(parameter)
    extra = [Probe(name) for name in _input_names(inputs) if name not in (INPUT, LABEL)]
    found = [Probe(p.name, p.parents, p.kind, p.hyper, tuple(own.get(p.name, ()))) for p in tapped.probes.values()]
    rest = [Probe(name, parameters=tuple(names)) for name, names in own.items() if name not in tapped.probes]
    if LOSS not in tapped.probes:
        found.append(Probe(LOSS, tapped.parents))
    return (*extra, *rest, *found)


def _parameters(phase: str, params: Any) -> list[Kept]:
    return [kept(*_at(path, phase), leaf, place_of(path)[1]) for path, leaf in _leaves(params)]


def _at(path: str, phase: str) -> tuple[str, str]:
    return place_of(path)[0], phase


def _states(phase: str, state: Any, params: Any) -> list[Kept]:
    """The pieces of optimizer state that belong to a parameter: those whose way ends as the parameter's does."""
    known = {path: leaf.shape for path, leaf in _leaves(params)}
    found = []
    for path, leaf in _leaves(state):
        steps = path.split(".")
        for i in range(1, len(steps)):
            name = ".".join(steps[i:])
            if known.get(name) == getattr(leaf, "shape", None):
                probe, parameter = place_of(name)
                found.append(kept(probe, phase, leaf, f"{parameter}.{STATES.get(steps[i - 1], steps[i - 1])}"))
                break
    return found


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    """Leaves by their way into a tree, with dots."""
    found = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        names = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
        found.append((".".join(names), leaf))
    return found
