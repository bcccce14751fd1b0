"""`trace(model, x, y, loss, optimizer, out=...)`: one training step of a Keras model, made and recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from backproof.adapters.keras.kinds import parameter_of, told_of_loss
from backproof.adapters.keras.optimizers import STEP, count_of, rule_of, settings_of, state_name
from backproof.adapters.keras.passes import Pass, run_pass, to_numpy
from backproof.adapters.keras.watch import layers_of
from backproof.adapters.recording import (
    Kept,
    kept,
    scaled,
    tell,
    untold_losses,
    wanted_samples,
    which_samples,
    writer_for,
)
from backproof.errors import UsageError
from backproof.trace import Manifest, Probe, Sink
from backproof.trace.phases import INPUT, LABEL, LOSS


@dataclass(frozen=True)
class Owned:
    """A variable of a layer, as the layer's kind has it."""

    variable: Any
    probe: str
    parameter: str
    axes: tuple[int, ...] | None

    def kept(self, phase: str, value: Any, state: str = "") -> Kept:
        """Its value, its gradient, or a state that lies as it does."""
        numbers = to_numpy(value)
        if self.axes is not None and numbers.ndim == len(self.axes):
            numbers = np.ascontiguousarray(numbers.transpose(self.axes))
        return kept(self.probe, phase, numbers, self.parameter + (f".{state}" if state else ""))


def trace(
    model: Any,
    x: Any,
    y: Any,
    loss: Any,
    optimizer: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    sink: Sink | None = None,
    step: int = 0,
    samples: int | None = None,
    scale: float | str | None = None,
    store: str = "npy",
    notes: Mapping[str, Any] | None = None,
) -> float:
    """Make one training step (forward, backward, update) on JAX or PyTorch, record it, and give the loss.

    Layers go by their names, those of a model inside by dotted ones. Parameters are written as a layer's kind has them: the kernel of a
    Dense as the `weight` [out, in] of `linear`; activations as they are. Further steps go into the same folder with `step=1` and so on.
    """
    if out is None and sink is None:
        raise UsageError("trace: give out=FOLDER or sink=CALLABLE; else nothing would be kept")
    wanted_samples(samples)
    criterion, stepper = keras.losses.get(loss), keras.optimizers.get(optimizer)
    if not model.built:
        model.build(np.shape(x))
    layers = layers_of(model)
    owned = _owned(model, layers)
    if stepper is not None and not stepper.built:
        stepper.build(model.trainable_variables)
    keeps = [own.kept("w_before", own.variable) for own in owned] + _states("opt_before", stepper, owned)
    seen = run_pass(model, layers, x, y, criterion)
    batch = int(np.shape(x)[0])
    keeps += _activations(seen, x, y, samples, batch)
    trainable = {id(own.variable): own for own in owned}
    for phase in ("grad_raw", "grad_scaled"):
        for variable, gradient in zip(model.trainable_variables, seen.grads, strict=True):
            if gradient is not None:
                keeps.append(trainable[id(variable)].kept(phase, gradient))
    if stepper is not None:
        stepper.apply(seen.grads, model.trainable_variables)
        keeps += _states("opt_after", stepper, owned)
    keeps += [own.kept("w_after", own.variable) for own in owned]
    told, known_scale = told_of_loss(criterion)
    factor = known_scale if scale is None else scale
    probes = _probes(seen, owned, told)
    manifest = Manifest(
        framework=f"keras {keras.__version__} on {keras.config.backend()}",
        store=store,
        batch=batch,
        samples=which_samples(samples, batch),
        scale=scaled(factor, batch),
        handled=factor is None,
        probes=probes if factor is not None else untold_losses(probes),
        optimizer={} if stepper is None else settings_of(stepper),
        notes={"parameters": "in the names and layouts of torch.nn.functional", **(notes or {})},
    )
    if sink is not None:
        tell(keeps, manifest.probes, sink)
    if out is not None:
        with writer_for(out, manifest, step).step(step) as write:
            tell(keeps, manifest.probes, write)
    return float(to_numpy(seen.loss))


def _owned(model: Any, layers: dict[str, Any]) -> list[Owned]:
    """The trainable variables, each with the layer that has it."""
    found = []
    for variable in model.trainable_variables:
        for name, layer in layers.items():
            if any(own is variable for own in getattr(layer, "trainable_variables", ())):
                found.append(Owned(variable, name, *parameter_of(layer, variable.name, len(variable.shape))))
                break
        else:
            found.append(Owned(variable, "model", variable.name, None))
    return found


def _activations(seen: Pass, x: Any, y: Any, samples: int | None, batch: int) -> list[Kept]:
    """Forward in the order of execution, then what the loss reads, then backward from the last to the first."""

    def one(name: str, phase: str, value: Any) -> Kept:
        return kept(name, phase, to_numpy(value), samples=samples, batch=batch)

    found = [one(INPUT, "fwd", x), one(LABEL, "fwd", y)]
    found += [one(name, "fwd", value) for name, value in seen.watch.values.items()]
    found.append(kept(LOSS, "fwd", to_numpy(seen.loss)))
    if len(seen.output) == 1 and seen.output[0] in seen.gradients:
        found.append(one(LOSS, "lossgrad", seen.gradients[seen.output[0]]))
    backward = [*reversed(seen.watch.values), INPUT]
    return found + [one(name, "agrad", seen.gradients[name]) for name in backward if name in seen.gradients]


def _states(phase: str, optimizer: Any, owned: list[Owned]) -> list[Kept]:
    """The optimizer's variables that belong to a parameter: Keras names them after it, and what they are comes last."""
    found: list[Kept] = []
    if optimizer is None:
        return found
    rule = rule_of(optimizer)
    if rule is not None:
        found += [kept(own.probe, phase, count_of(optimizer), f"{own.parameter}.{STEP}") for own in owned]
    for state in optimizer.variables:
        for own in owned:
            start = own.variable.path.replace("/", "_") + "_"
            if state.name.startswith(start) and tuple(state.shape) == tuple(own.variable.shape):
                found.append(own.kept(phase, state, state_name(rule, state.name[len(start) :])))
                break
    return found


def _probes(seen: Pass, owned: list[Owned], told: tuple[str, dict[str, Any]]) -> tuple[Probe, ...]:
    own: dict[str, list[str]] = {}
    for item in owned:
        own.setdefault(item.probe, []).append(item.parameter)
    found = [Probe(p.name, p.parents, p.kind, p.hyper, tuple(own.get(p.name, ()))) for p in seen.watch.probes.values()]
    rest = [Probe(name, parameters=tuple(names)) for name, names in own.items() if name not in seen.watch.probes]
    return (*rest, *found, Probe(LOSS, (*seen.output, LABEL), *told))
