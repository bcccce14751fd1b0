"""Records JAX training steps of a small classifier, factor by factor, as framework-trace sidecars.

Copy this file into your project; it needs nothing but JAX, on the CPU, with 64-bit numbers switched on
(`jax.config.update("jax_enable_x64", True)`). JAX hides what happens inside a transformed function, so here
the file owns the step: parameters go in, parameters come out, and the step is recorded:

    params = {"W_ih": ..., "b_h": ..., "W_ho": ..., "b_o": ...}      # weights as [to][from]
    dumper = TraceDumper(params, optimizer="adam", learning_rate=1e-3, out="trace.jsonl")
    for x, y in data:
        with dumper.step(inputs=x, targets=y) as ctx:
            params = ctx.run(params)
    dumper.close()

and check what was recorded: `bp import jax multi trace.jsonl | bp verify multi -`.

The network is sigmoid in the hidden layer, and sigmoid (half_squared_error) or softmax
(cross_entropy_softmax) in the outputs. Forward values, loss and gradients come from one call of
`jax.value_and_grad`; the error signals are JAX's too, as the gradient in zeros that are added to the nets and
the hidden outputs, which changes no value. The update is one formula below. Signs are the descent direction's
(−∂loss). When the block raises, nothing is written. This file judges nothing: `bp import` and `bp verify`
derive every number again.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from types import TracebackType

HELPER_NAME = "backproof-jax-helper"
HELPER_VERSION = "1.0.0"
ELSEWHERE = "backproof's tensor traces record any JAX model ('bp compare --help')"
Rows = list[list[float]]
Params = dict[str, Any]

KEYS = ("W_ih", "b_h", "W_ho", "b_o")


class TraceDumper:
    """Runs training steps and writes one sidecar line for each `with dumper.step(...)` block."""

    def __init__(
        self,
        params: Params,
        *,
        optimizer: str = "sgd",
        learning_rate: float,
        out: Any = None,
        trace_id: str | None = None,
        topology_loss: str = "half_squared_error",
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        momentum: float = 0.0,
        nesterov: bool = False,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        append: bool = False,
    ) -> None:
        sizes = _sizes(params)
        if topology_loss not in {"half_squared_error", "cross_entropy_softmax"}:
            raise _unsupported(f"topology_loss {topology_loss!r} is not half_squared_error or cross_entropy_softmax")
        self._network = Network.of_sizes(*sizes, topology_loss)
        self._rule = _Rule(
            optimizer,
            learning_rate,
            beta1,
            beta2,
            epsilon,
            momentum,
            weight_decay,
            dampening,
            nesterov=nesterov,
        ).checked()
        self._trace_id = _checked_trace_id(trace_id)
        self._t = 0
        self._state: dict[str, Params] = {name: jax.tree.map(jnp.zeros_like, params) for name in self._rule.states}
        self._advance = jax.jit(self._one_step)
        self._activations = ("sigmoid", "sigmoid" if topology_loss == "half_squared_error" else "softmax")
        decayed = self._rule.family == "sgd" and bool(weight_decay)
        topology, digest = self._network.topology(*self._activations), self._jaxpr_digest(params)
        self._head = _head("jax", jax.__version__, {}, topology, decayed=decayed, source_uri=digest)
        self._writer = _Writer(out, append=append)

    def step(self, *, inputs: Any, targets: Any, trace_id: str | None = None) -> _Context:
        """A block around one step: `ctx.run(params)` gives the new parameters, leaving it writes the line.

        Inputs and targets are mappings by unit name, sequences or arrays, with a row for each sample;
        `trace_id` overrides that of the constructor.
        """
        network = self._network
        x, y = _rows(inputs, network.inputs, "inputs"), _rows(targets, network.outputs, "targets")
        if len(x) != len(y):
            raise HelperError(f"{len(y)} rows of targets for {len(x)} samples")
        if len(x) > 1 and self._rule.states:
            what = f"a batch of {len(x)} samples with {self._rule.name}: batches are recorded with plain SGD"
            raise _unsupported(what, f"Record one sample a step. {ELSEWHERE}")
        trace_id = _checked_trace_id(trace_id) or self._trace_id
        return _Context(partial(self._run, x, y), partial(self._write, trace_id))

    def close(self) -> None:
        """Close the file, if this dumper opened it."""
        self._writer.close()

    def __enter__(self) -> TraceDumper:  # noqa: PYI034 - Self would ask for Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, trace_id: str | None, seen: Seen) -> None:
        self._writer.write(self._head, _body(self._network, seen), trace_id)

    def _run(self, inputs: Rows, targets: Rows, params: Params) -> tuple[Params, Seen]:
        if _sizes(params) != tuple(map(len, (self._network.inputs, self._network.hidden, self._network.outputs))):
            raise HelperError("run() was given parameters of other sizes than the dumper")
        dtype = params["W_ih"].dtype
        x, y = jnp.asarray(inputs, dtype), jnp.asarray(targets, dtype)
        found = self._advance(params, self._state, float(self._t + 1), x, y)
        seen = self._seen(params, jax.device_get(found), x, y)
        self._state, self._t = found["state"], self._t + 1
        return found["params"], seen

    # -- the step, as JAX runs it --

    def _loss(self, params: Params, added: dict[str, Any], x: Any, y: Any) -> tuple[Any, dict[str, Any]]:
        """The samples' mean loss, and what was seen; `added` are zeros whose gradients are the signals."""
        hidden_net = x @ params["W_ih"].T + params["b_h"] + added["hidden_net"]
        hidden_out = jax.nn.sigmoid(hidden_net) + added["hidden_out"]
        output_net = hidden_out @ params["W_ho"].T + params["b_o"] + added["output_net"]
        log_out = jax.nn.log_softmax(output_net)
        if self._network.loss == "half_squared_error":
            output_out = jax.nn.sigmoid(output_net)
            samples = 0.5 * (y - output_out) ** 2
        else:
            output_out = jax.nn.softmax(output_net)
            samples = jnp.where(y == 0.0, 0.0, -y * log_out)
        values = {"hidden_net": hidden_net, "hidden_out": hidden_out, "output_net": output_net}
        return samples.sum(axis=1).mean(), {**values, "output_out": output_out, "log_out": log_out}

    def _one_step(self, params: Params, state: dict[str, Params], t: Any, x: Any, y: Any) -> dict[str, Any]:
        derive = jax.value_and_grad(self._loss, argnums=(0, 1), has_aux=True)
        (loss, values), (gradient, signals) = derive(params, self._added(params, x), x, y)
        moved = {
            key: self._rule.moved(params[key], gradient[key], {n: s[key] for n, s in state.items()}, t) for key in KEYS
        }
        return {
            "loss": loss, "values": values, "gradient": gradient, "signals": signals,
            "params": {key: after for key, (after, _) in moved.items()},
            "state": {name: {key: states[name] for key, (_, states) in moved.items()} for name in state},
        }  # fmt: skip

    @staticmethod
    def _added(params: Params, x: Any) -> dict[str, Any]:
        hidden = jnp.zeros((x.shape[0], params["b_h"].shape[0]), x.dtype)
        output = jnp.zeros((x.shape[0], params["b_o"].shape[0]), x.dtype)
        return {"hidden_net": hidden, "hidden_out": hidden, "output_net": output}

    def _jaxpr_digest(self, params: Params) -> str:
        """Which program ran: the sha256 of the gradient's jaxpr, on one sample of zeros."""
        dtype = params["W_ih"].dtype
        x, y = (jnp.zeros((1, len(units)), dtype) for units in (self._network.inputs, self._network.outputs))
        program = jax.make_jaxpr(jax.grad(self._loss, has_aux=True))(params, self._added(params, x), x, y)
        return "urn:backproof:jax_helper#jaxpr_sha256=" + hashlib.sha256(str(program).encode()).hexdigest()

    def _seen(self, params: Params, found: dict[str, Any], x: Any, y: Any) -> Seen:
        values = {name: value.tolist() for name, value in found["values"].items()}
        signals = {f"d_{name}": value.tolist() for name, value in found["signals"].items()}
        states = [self._states(state) for state in (jax.device_get(self._state), found["state"])]
        if self._network.loss == "half_squared_error":
            values["log_out"] = None
        return Seen(
            inputs=x.tolist(), targets=y.tolist(), loss=found["loss"].item(), **values, **signals,
            before=self._flat(params), after=self._flat(found["params"]),
            gradient=self._flat(found["gradient"]),
            state_before=states[0], state_after=states[1], optimizer=self._rule.config(self._t + 1),
            activations=self._activations, biases_train=True,
        )  # fmt: skip

    def _states(self, state: dict[str, Params]) -> dict[str, dict[str, float]]:
        columns = {name: self._flat(tables) for name, tables in state.items()}
        return {e.id: {name: column[e.id] for name, column in columns.items()} for e in self._network.edges if columns}

    def _flat(self, params: Params) -> dict[str, float]:
        tables = [params[key].tolist() for key in KEYS]
        return self._network.flat(tables[0], tables[1], tables[2], tables[3])


def _sizes(params: Params) -> tuple[int, int, int]:
    """Inputs, hidden units, outputs; whatever is not four matching float tables on the CPU is refused."""
    if jnp.zeros(()).dtype != jnp.float64:
        raise _unsupported(
            "jax_enable_x64 is off", 'Say jax.config.update("jax_enable_x64", True) before any array is made'
        )
    if not isinstance(params, Mapping) or set(params) != set(KEYS):
        raise _unsupported(f"parameters are a dict of exactly {', '.join(KEYS)}")
    if not all(isinstance(value, jax.Array) for value in params.values()):
        raise _unsupported("a parameter is no jax array", "Wrap it in jnp.asarray(...)")
    if any(device.platform != "cpu" for value in params.values() for device in value.devices()):
        raise _unsupported("a parameter is not on the CPU", "jax.device_put(params, jax.devices('cpu')[0]) moves it")
    if len(kinds := {str(value.dtype) for value in params.values()}) != 1 or not kinds <= {
        "float64",
        "float32",
    }:
        raise _unsupported(f"parameters are {', '.join(sorted(kinds))}; one of float64 or float32 is recorded")
    shapes = [tuple(params[key].shape) for key in KEYS]
    hidden, outputs = shapes[1][:1], shapes[3][:1]
    inputs = shapes[0][1:]
    if shapes != [hidden + inputs, hidden, outputs + hidden, outputs] or not (inputs and hidden and outputs):
        raise _unsupported(f"shapes {shapes} are not [hidden, in], [hidden], [out, hidden], [out]")
    return inputs[0], hidden[0], outputs[0]


@dataclass(frozen=True)
class _Rule:
    """One optimizer with its hyper-parameters, in the descent direction: g = −∂loss/∂w."""

    family: str
    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    momentum: float
    weight_decay: float
    dampening: float
    nesterov: bool

    def checked(self) -> _Rule:
        """The rule itself, or a refusal that names what does not fit."""
        if self.family not in {"sgd", "adam", "adamw"}:
            raise _unsupported(f"optimizer {self.family!r}; sgd (with momentum=...), adam and adamw are recorded")
        if self.family == "adam" and self.weight_decay:
            raise _unsupported("adam with coupled weight_decay", f"adamw decouples it. {ELSEWHERE}")
        if (self.nesterov and self.dampening) or ((self.nesterov or self.dampening) and not self.momentum):
            raise _unsupported("nesterov and dampening exclude each other, and each needs momentum", "Drop one")
        if not (self.learning_rate > 0.0 and 0.0 <= self.momentum < 1.0 and 0.0 <= self.dampening < 1.0):
            raise _unsupported("learning_rate > 0, 0 ≤ momentum < 1 and 0 ≤ dampening < 1 are recorded", "Change them")
        if self.weight_decay < 0.0:
            raise _unsupported(f"weight_decay {self.weight_decay} is negative", "Change its sign")
        return self

    @property
    def name(self) -> str:
        """The optimizer's name in the format."""
        return "sgd_momentum" if self.family == "sgd" and self.momentum else self.family

    @property
    def states(self) -> tuple[str, ...]:
        """What the optimizer keeps for each parameter between steps."""
        return {"sgd": (), "sgd_momentum": ("buffer",)}.get(self.name, ("m", "v"))

    def config(self, t: int) -> dict[str, Any]:
        """The sidecar's optimizer block."""
        block: dict[str, Any] = {"name": self.name, "learning_rate": self.learning_rate}
        if self.family != "sgd":
            block |= {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon, "t": t}
        if self.momentum and self.family == "sgd":
            block["momentum"] = self.momentum
        if self.weight_decay or self.family == "adamw":
            block["weight_decay"] = self.weight_decay
        if self.nesterov:
            block["nesterov"] = True
        if self.dampening:
            block["dampening"] = self.dampening
        return block

    def moved(self, w: Any, gradient: Any, state: dict[str, Any], t: Any) -> tuple[Any, dict[str, Any]]:
        """One table of parameters after the step, and the optimizer's state after it."""
        g = 0.0 - gradient
        if self.family == "sgd":
            return self._descended(w, g - self.weight_decay * w, state)
        m = self.beta1 * state["m"] + (1.0 - self.beta1) * g
        v = self.beta2 * state["v"] + (1.0 - self.beta2) * (g * g)
        m_hat, v_hat = m / (1.0 - self.beta1**t), v / (1.0 - self.beta2**t)
        update = self.learning_rate * m_hat / (jnp.sqrt(v_hat) + self.epsilon)
        kept = (1.0 - self.learning_rate * self.weight_decay) * w if self.family == "adamw" else w
        return kept + update, {"m": m, "v": v}

    def _descended(self, w: Any, g: Any, state: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """SGD; dampening holds from the first step on, as receipts have it (PyTorch skips it there)."""
        if not self.momentum:
            return w + self.learning_rate * g, {}
        buffer = self.momentum * state["buffer"] + (1.0 - self.dampening) * g
        step = g + self.momentum * buffer if self.nesterov else buffer
        return w + self.learning_rate * step, {"buffer": buffer}


class _Context:
    """The open block: one run, then its line."""

    def __init__(self, run: Callable[[Params], tuple[Params, Seen]], write: Callable[[Seen], None]) -> None:
        self._run, self._write = run, write
        self._seen: Seen | None = None

    def run(self, params: Params) -> Params:
        """Take one training step from `params` and give the new parameters."""
        if self._seen is not None:
            raise HelperError("run() was called twice in one block; a receipt is of one step")
        moved, self._seen = self._run(params)
        return moved

    def __enter__(self) -> _Context:  # noqa: PYI034 - Self would ask for Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return  # the user's own exception goes on; a step that was not finished is not written
        if self._seen is None:
            raise HelperError("the block ended without ctx.run(params): there is no step to record")
        self._write(self._seen)


# ---- the sidecar: from here on the same text in the PyTorch and in the JAX file ----


class HelperError(Exception):
    """The step cannot be recorded as the block was used; nothing was written."""


class HelperUnsupportedError(HelperError):
    """The model, loss or optimizer is outside the classic receipt; the message says what to use instead."""


def _unsupported(what: str, instead: str = "") -> HelperUnsupportedError:
    return HelperUnsupportedError(f"{what}. {instead or ELSEWHERE}")


@dataclass(frozen=True)
class Edge:
    """One parameter: its name, where it stands, and the paths of the two factors of its gradient."""

    id: str
    kind: str
    from_unit: str
    to_unit: str
    role: str
    layer_edge: str
    signal: str
    factors: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Network:
    """Inputs, one hidden layer, outputs; every unit and every parameter has a name."""

    inputs: tuple[str, ...]
    hidden: tuple[str, ...]
    outputs: tuple[str, ...]
    loss: str

    @classmethod
    def of_sizes(cls, inputs: int, hidden: int, outputs: int, loss: str) -> Network:
        """Units i1…, h1…, o1…"""
        name = [tuple(f"{c}{k + 1}" for k in range(n)) for c, n in zip("iho", (inputs, hidden, outputs), strict=True)]
        return cls(name[0], name[1], name[2], loss)

    @cached_property
    def edges(self) -> list[Edge]:
        """In order: weights by input, hidden biases, weights by hidden unit, output biases."""
        rows = [self._weight(i, h, "input_to_hidden", f"inputs.{i}") for i in self.inputs for h in self.hidden]
        rows += [self._bias(h, "hidden") for h in self.hidden]
        rows += [self._weight(h, o, "hidden_to_output", f"forward.{h}.out") for h in self.hidden for o in self.outputs]
        return rows + [self._bias(o, "output") for o in self.outputs]

    @staticmethod
    def _weight(source: str, target: str, layer_edge: str, upstream: str) -> Edge:
        side = "hidden" if layer_edge == "input_to_hidden" else "output"
        path = f"backward.{side}_error_signals.{target}.signal_value"
        factors = (
            {"name": f"{side}_error_signal", "from": path},
            {"name": "upstream_activation", "from": upstream},
        )
        return Edge(
            f"w_{source}_{target}",
            "weight",
            source,
            target,
            f"{source}_to_{target}",
            layer_edge,
            target,
            factors,
        )

    @staticmethod
    def _bias(unit: str, side: str) -> Edge:
        path = f"backward.{side}_error_signals.{unit}.signal_value"
        factors = ({"name": f"{side}_error_signal", "from": path},)
        return Edge(f"b_{unit}", "bias", unit, unit, f"{side}_bias", "bias_to_layer", unit, factors)

    def flat(self, W1: Rows, b1: list[float], W2: Rows, b2: list[float]) -> dict[str, float]:
        """Four tables, weights as [to][from], as one number for each parameter name."""
        first = [W1[h][i] for i in range(len(self.inputs)) for h in range(len(self.hidden))]
        second = [W2[o][h] for h in range(len(self.hidden)) for o in range(len(self.outputs))]
        return dict(zip((edge.id for edge in self.edges), (*first, *b1, *second, *b2), strict=True))

    def topology(self, activation_hidden: str, activation_output: str) -> dict[str, Any]:
        """The sidecar's block that says what is connected to what."""
        return {
            "layers": ["input", "hidden", "output"],
            "input_size": len(self.inputs),
            "hidden_size": len(self.hidden),
            "output_size": len(self.outputs),
            "unit_order": {"input": self.inputs, "hidden": self.hidden, "output": self.outputs},
            "parameter_order": [edge.id for edge in self.edges],
            "parameters": [_declared(edge) for edge in self.edges],
            "activation_hidden": activation_hidden,
            "activation_output": activation_output,
            "loss": self.loss,
            "bias_sharing": "per_neuron",
        }


def _declared(edge: Edge) -> dict[str, Any]:
    if edge.kind == "bias":
        return {"id": edge.id, "role": edge.role, "applies_to_units": [edge.to_unit]}
    ends = {"from_unit": edge.from_unit, "to_unit": edge.to_unit}
    return {"id": edge.id, "role": f"{edge.layer_edge}_weight", **ends}


@dataclass
class Seen:
    """What the framework showed of one step: a row for each sample; derivatives are ∂loss/∂value."""

    inputs: Rows
    targets: Rows
    hidden_net: Rows
    hidden_out: Rows
    output_net: Rows
    output_out: Rows
    log_out: Rows | None  # log-probabilities, when the loss is a cross-entropy
    loss: float
    d_hidden_net: Rows
    d_hidden_out: Rows
    d_output_net: Rows
    before: dict[str, float]
    after: dict[str, float]
    gradient: dict[str, float]
    state_before: dict[str, dict[str, float]]
    state_after: dict[str, dict[str, float]]
    optimizer: dict[str, Any]
    activations: tuple[str, str]
    biases_train: bool


def _down(value: float) -> float:
    """The descent direction, −value; a zero stays without sign."""
    return 0.0 - value


def _slope(activation: str, out: float) -> float:
    """act′ from the activation's own output: o·(1−o), 1, or [o > 0]."""
    if activation == "sigmoid":
        return out * (1.0 - out)
    return 1.0 if activation == "identity" or out > 0.0 else 0.0


def _losses(network: Network, seen: Seen) -> Rows:
    """Each sample's loss, output by output: ½·(t−o)² or −t·log p, from the observed outputs."""
    if network.loss == "half_squared_error":
        pairs = zip(seen.targets, seen.output_out, strict=True)
        return [[0.5 * (t - o) * (t - o) for t, o in zip(*row, strict=True)] for row in pairs]
    pairs = zip(seen.targets, seen.log_out or [], strict=True)
    return [[0.0 if t == 0.0 else -t * log for t, log in zip(*row, strict=True)] for row in pairs]


def _reduction(total: float, samples: list[float]) -> str:
    """Whether the loss that was differentiated is the mean or the sum of its samples."""
    summed = math.fsum(samples)
    readings = {"mean": summed / len(samples), "sum": summed}
    name = min(readings, key=lambda reading: abs(readings[reading] - total))
    # What an importer rejects at its default tolerance is refused here, where the reason can still be said.
    if not abs(readings[name] - total) <= max(1e-6, 1e-4 * abs(total)):
        said = f"mean {readings['mean']:.9g}, sum {readings['sum']:.9g}" if len(samples) > 1 else f"{summed:.9g}"
        found = f"the loss that was differentiated is {total:.9g}, the declared one would be {said}"
        instead = "Set topology_loss to the loss in use, divided as it is, and check the targets given to step()."
        raise _unsupported(found, f"{instead} {ELSEWHERE}")
    return name


def _contributions(
    network: Network, hidden: str, signals: list[float], before: dict[str, float]
) -> list[dict[str, Any]]:
    rows = []
    for o, signal in zip(network.outputs, signals, strict=True):
        via = f"w_{hidden}_{o}"
        weight = before[via]
        rows.append(
            {
                "from": o,
                "downstream_signal": signal,
                "via_weight": via,
                "weight_value": weight,
                "value": signal * weight,
            }
        )
    return rows


def _output_signal(network: Network, activation: str, target: float, out: float, signal: float) -> dict[str, Any]:
    if network.loss == "half_squared_error":
        named = [{"name": "target_minus_output", "value": target - out}]
        named.append({"name": "activation_derivative", "value": _slope(activation, out)})
    else:
        named = [{"name": "target_minus_probability", "value": target - out}]
    return {"factors": named, "product_order": "left_to_right", "signal_value": signal}


def _backward(network: Network, seen: Seen, weight: float) -> dict[str, Any]:
    """The error signals of the first sample; `weight` undoes the mean over a batch."""
    outputs = [_down(d) * weight for d in seen.d_output_net[0]]
    hidden = {}
    for h, unit in enumerate(network.hidden):
        hidden[unit] = {
            "downstream_contributions": _contributions(network, unit, outputs, seen.before),
            "summation_order": network.outputs,
            "backpropagated_sum": _down(seen.d_hidden_out[0][h]) * weight,
            "activation_derivative": _slope(seen.activations[0], seen.hidden_out[0][h]),
            "product_order": "left_to_right",
            "signal_value": _down(seen.d_hidden_net[0][h]) * weight,
        }
    rows = zip(network.outputs, seen.targets[0], seen.output_out[0], outputs, strict=True)
    return {
        "output_error_signals": {u: _output_signal(network, seen.activations[1], t, o, s) for u, t, o, s in rows},
        "hidden_error_signals": hidden,
    }


def _forward(network: Network, seen: Seen, row: int) -> dict[str, Any]:
    hidden = zip(network.hidden, seen.hidden_net[row], seen.hidden_out[row], strict=True)
    output = zip(network.outputs, seen.output_net[row], seen.output_out[row], strict=True)
    return {unit: {"net": net, "out": out} for unit, net, out in (*hidden, *output)}


def _updates(network: Network, seen: Seen, backward: dict[str, Any], batched: bool) -> list[dict[str, Any]]:
    """One entry for each trained parameter; update = after − before, less AdamW's own decay."""
    signals = {unit: s["signal_value"] for side in backward.values() for unit, s in side.items()}
    upstream = dict(zip((*network.inputs, *network.hidden), (*seen.inputs[0], *seen.hidden_out[0]), strict=True))
    config = seen.optimizer
    keep = 1.0 - config["learning_rate"] * config["weight_decay"] if config["name"] == "adamw" else 1.0
    rows = []
    for edge in network.edges:
        if edge.kind == "bias" and not seen.biases_train:
            continue
        gradient = _down(seen.gradient[edge.id])
        values = (signals[edge.signal], upstream.get(edge.from_unit))
        factors = [{**factor, "value": value} for factor, value in zip(edge.factors, values, strict=False)]
        optimizer = {
            "name": config["name"],
            "learning_rate": config["learning_rate"],
            "factors": [{"name": "batch_reduced_gradient", "value": gradient}] if batched else factors,
            "product_order": "left_to_right",
        }
        if seen.state_after:
            optimizer["state_before"] = seen.state_before[edge.id]
            optimizer["state_after"] = seen.state_after[edge.id]
        before, after = seen.before[edge.id], seen.after[edge.id]
        rows.append({
            "parameter_id": edge.id, "kind": edge.kind, "weight_before": before, "optimizer": optimizer,
            "gradient": gradient, "update": after - keep * before, "weight_after": after,
            "parameter_role": edge.role, "from_unit": edge.from_unit, "to_unit": edge.to_unit,
            "layer_edge": edge.layer_edge,
        })  # fmt: skip
    return rows


def _bias_policy(trained: bool) -> dict[str, Any]:
    if trained:
        return {
            "mode": "sgd",
            "updated_in_step": True,
            "reason": "each bias is trained and has an update entry of its own",
        }
    return {
        "mode": "constant",
        "updated_in_step": False,
        "reason": "no bias is trained: they are absent (zero) or frozen",
    }


def _samples(network: Network, seen: Seen, losses: Rows, ids: list[str]) -> dict[str, Any]:
    return {
        name: {
            "inputs": dict(zip(network.inputs, seen.inputs[row], strict=True)),
            "targets": dict(zip(network.outputs, seen.targets[row], strict=True)),
            "forward": _forward(network, seen, row),
            "loss": {
                "per_output": dict(zip(network.outputs, losses[row], strict=True)),
                "total": sum(losses[row]),
            },
        }
        for row, name in enumerate(ids)
    }


def _body(network: Network, seen: Seen) -> dict[str, Any]:
    """The sidecar from `learning_rate` on, in the format's own key order."""
    losses = _losses(network, seen)
    totals = [sum(row) for row in losses]
    reduction = _reduction(seen.loss, totals)
    size = len(totals)
    share = size if reduction == "mean" else 1
    ids = [f"s{row}" for row in range(size)]
    backward = _backward(network, seen, float(share))
    columns = zip(network.outputs, zip(*losses, strict=True), strict=True)
    loss: dict[str, Any] = {"per_output": {unit: sum(column) / share for unit, column in columns}}
    body: dict[str, Any] = {
        "learning_rate": seen.optimizer["learning_rate"],
        "bias_policy": _bias_policy(seen.biases_train),
    }
    if size > 1:
        body["batch"] = {"size": size, "sample_order": ids, "reduction": reduction}
        loss |= {"per_sample": dict(zip(ids, totals, strict=True)), "reduction": reduction}
    loss["total"] = seen.loss
    body |= {
        "inputs": dict(zip(network.inputs, seen.inputs[0], strict=True)),
        "targets": dict(zip(network.outputs, seen.targets[0], strict=True)),
        "parameters_before": seen.before,
    }
    if size > 1:
        body["per_sample"] = _samples(network, seen, losses, ids)
    body |= {"forward": _forward(network, seen, 0), "loss": loss, "backward": backward}
    body |= {"updates": _updates(network, seen, backward, size > 1), "parameters_after": seen.after}
    if len(seen.optimizer) > 2:  # plain SGD is the format's default and has no block
        body["optimizer"] = seen.optimizer
    return body


def _rows(value: Any, units: tuple[str, ...], what: str, *, classes: bool = False) -> Rows:
    """What the user said, a row for each sample, from a mapping by unit name, a sequence, or an array."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if classes and isinstance(value, int):
        value = [value]
    if isinstance(value, Mapping) or (value and not isinstance(value[0], Mapping | list | tuple) and not classes):
        value = [value]
    rows = [_row(row, units, what, classes=classes) for row in value]
    if not rows:
        raise HelperError(f"{what}: no sample at all")
    return rows


def _row(row: Any, units: tuple[str, ...], what: str, *, classes: bool) -> list[float]:
    row = row.tolist() if hasattr(row, "tolist") else row
    if classes:
        if not 0 <= row < len(units):
            raise HelperError(f"{what}: class {row} of {len(units)} classes does not exist")
        return [1.0 if k == row else 0.0 for k in range(len(units))]
    if isinstance(row, Mapping):
        if set(row) != set(units):
            raise HelperError(f"{what}: said {', '.join(map(str, row))}; the units are {', '.join(units)}")
        row = [row[unit] for unit in units]
    if len(row) != len(units):
        raise HelperError(f"{what}: {len(row)} values for the {len(units)} units {', '.join(units)}")
    return [float(value) for value in row]


class _Writer:
    """One whole line for each step, flushed; numbers the format cannot carry are refused by name."""

    def __init__(self, out: Any, *, append: bool) -> None:
        self._owned = isinstance(out, str | os.PathLike)
        if self._owned:
            path = Path(out)
            if append and path.exists() and path.stat().st_size:
                print(f"{path}: appending to a file that has steps already", file=sys.stderr)  # noqa: T201
            self._stream: Any = path.open("a" if append else "w", encoding="utf-8")
        else:
            self._stream = sys.stdout if out is None else out
        self._steps: dict[str | None, int] = {}

    def write(self, head: str, body: dict[str, Any], trace_id: str | None) -> None:
        index = self._steps.get(trace_id, 0)
        if trace_id is not None:
            body |= {"trace_id": trace_id, "step_index": index}
        try:
            text = json.dumps(body, separators=(",", ":"), allow_nan=False)
        except ValueError:
            raise HelperError(
                f"{_not_finite(body, '')} is not a finite number: the step has diverged; nothing was written"
            ) from None
        head = head.replace('"timestamp":""', f'"timestamp":"{_timestamp()}"', 1)
        self._stream.write(f"{head},{text[1:]}\n")
        self._stream.flush()
        self._steps[trace_id] = index + 1

    def close(self) -> None:
        if self._owned:
            self._stream.close()


def _not_finite(value: Any, path: str) -> str:
    if isinstance(value, dict):
        return next(filter(None, (_not_finite(part, f"{path}.{key}".lstrip(".")) for key, part in value.items())), "")
    if isinstance(value, list | tuple):
        return next(filter(None, (_not_finite(part, f"{path}[{key}]") for key, part in enumerate(value))), "")
    return path if isinstance(value, float) and not math.isfinite(value) else ""


def _checked_trace_id(trace_id: str | None) -> str | None:
    if trace_id is not None and not re.fullmatch("[0-9a-f]{32}", trace_id):
        raise HelperError(f"trace_id {trace_id!r} is not 32 lower-case hexadecimal digits; uuid.uuid4().hex makes one")
    return trace_id


def _source_hash() -> str:
    try:
        return "sha256:" + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    except OSError:
        return "sha256:" + "0" * 64


def _timestamp() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = time.gmtime(int(epoch)) if epoch else time.gmtime()
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", moment)


def _head(
    framework: str,
    version: str,
    runtime: dict[str, Any],
    topology: dict[str, Any],
    *,
    decayed: bool,
    source_uri: str = "",
) -> str:
    """Everything before the numbers: the format, who wrote it with what, and the topology; not closed yet."""
    extractor = {"name": HELPER_NAME, "version": HELPER_VERSION}
    helper: dict[str, Any] = {
        **extractor,
        "distribution": "pypi" if __package__ else "repo-script",
        "source_hash": _source_hash(),
    }
    if source_uri:
        helper["source_uri"] = source_uri
    helper |= {
        "framework": {"name": framework, "version": version},
        "runtime": {"python_version": platform.python_version(), **runtime},
        "extraction": {"timestamp": "", "device": "cpu"},
    }
    head = {
        "format": "framework-trace.v0.8.0" if decayed else "framework-trace.v0.7.0",
        "source_framework": {"name": framework, "version": version, "extractor": extractor},
        "helper": helper,
        "topology": topology,
    }
    return json.dumps(head, separators=(",", ":"))[:-1]


def _script() -> None:
    """`python THIS_FILE --version` and `--print-hash`: which file a sidecar names."""
    asked = sys.argv[1:]
    answers = {"--version": HELPER_VERSION, "--print-hash": _source_hash()}
    if len(asked) != 1 or asked[0] not in answers:
        print(f"usage: python {sys.argv[0]} --version | --print-hash", file=sys.stderr)  # noqa: T201
        sys.exit(3)
    print(answers[asked[0]])  # noqa: T201


if __name__ == "__main__":
    _script()
