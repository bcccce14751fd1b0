"""Records PyTorch training steps of a small classifier, factor by factor, as framework-trace sidecars.

Copy this file into your project; it needs nothing but PyTorch. Wrap each step:

    dumper = TraceDumper(model, optimizer, loss_fn, out="trace.jsonl", trace_id=uuid.uuid4().hex)
    for x, y in loader:
        with dumper.step(inputs=x, targets=y):
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
    dumper.close()

and check what was recorded: `bp import pytorch multi trace.jsonl | bp verify multi -`.

What is written was *observed*, each value where PyTorch itself had it:

    inputs, nets, activations    forward hooks on the two Linear layers and on the model
    the loss                     the tensor on which backward was called
    error signals                gradient hooks on the layers' outputs and on the hidden activations
    gradients                    .grad, when the optimizer's step begins
    parameters, state, lr, t     when the optimizer's step begins, and when it has ended

What PyTorch never materialises is a product of two observed numbers or a formula of observed ones, and only
that is computed here: a contribution (signal × weight), an activation's derivative from its output, one
output's share of the loss, the softmax of observed logits, update = after − before. Signs are the descent
direction's (−∂loss). The hooks hold only while a block is open, return nothing, and so change no bit of the
training. When the block raises, nothing is written. This file judges nothing: `bp import` and `bp verify`
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
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from types import TracebackType

HELPER_NAME = "backproof-pytorch-helper"
HELPER_VERSION = "1.0.0"
ELSEWHERE = "backproof.torch.Recorder records any model, loss and optimizer"
Rows = list[list[float]]
Parameters = tuple[Tensor | None, ...]

# What a node of the autograd graph says about an activation; views move values and change none.
NODES = {
    "SigmoidBackward0": "sigmoid",
    "ReluBackward0": "relu",
    "SoftmaxBackward0": "softmax",
    "LogSoftmaxBackward0": "log_softmax",
}
VIEWS = {
    "ViewBackward0",
    "UnsafeViewBackward0",
    "AsStridedBackward0",
    "SqueezeBackward1",
    "UnsqueezeBackward0",
}
IN_PLACE = "torch::autograd::CopySlices"
LINEAR = {"AddmmBackward0", "MmBackward0", "MvBackward0", "AddmvBackward0"}


class TraceDumper:
    """Writes one sidecar line for each `with dumper.step(...)` block."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_fn: Callable[..., Any] | None = None,
        *,
        out: Any = None,
        trace_id: str | None = None,
        topology_loss: str = "half_squared_error",
        learning_rate: float | None = None,
        append: bool = False,
    ) -> None:
        self._subject = _subject(model, optimizer, loss_fn, topology_loss)
        self._trace_id = _checked_trace_id(trace_id)
        self._said_rate = learning_rate
        self._heads: dict[tuple[Any, ...], str] = {}
        self._writer = _Writer(out, append=append)

    def step(self, *, trace_id: str | None = None, inputs: Any = None, targets: Any = None) -> _Block:
        """A block around one training step.

        `inputs` are compared with what the model was fed; `targets` are the loss's own (they may be left out
        when loss_fn is an nn.Module, which shows them). Each is a mapping by unit name, a sequence, or a
        tensor, a row for each sample; targets of a cross-entropy may be class numbers. `trace_id` overrides
        the constructor's.
        """
        if targets is None and not isinstance(self._subject.loss_fn, nn.Module):
            raise HelperError("step() needs targets=...: a loss function that is no nn.Module does not show them")
        trace_id = _checked_trace_id(trace_id) or self._trace_id
        return _Block(self._subject, inputs, targets, partial(self._write, trace_id))

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
        rate = seen.optimizer["learning_rate"]
        if self._said_rate not in {None, rate}:
            raise HelperError(f"learning_rate={self._said_rate} was said, the optimizer used {rate}; leave it out")
        decayed = seen.optimizer["name"] != "adamw" and "weight_decay" in seen.optimizer
        key = (*seen.activations, decayed)
        if key not in self._heads:
            version = str(torch.__version__)
            topology = self._subject.network.topology(*seen.activations)
            self._heads[key] = _head("pytorch", version, _runtime(version), topology, decayed=decayed)
        self._writer.write(self._heads[key], _body(self._subject.network, seen), trace_id)


def _runtime(version: str) -> dict[str, Any]:
    flags = {
        "torch_use_deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
    }
    return {"torch_version": version, "deterministic_mode": flags}


# ---- what is recorded, checked once ----


@dataclass(frozen=True)
class _Subject:
    """The model, its four tables of parameters (two weights, two biases), and its optimizer."""

    model: nn.Module
    layers: tuple[nn.Linear, nn.Linear]
    optimizer: torch.optim.Optimizer
    loss_fn: Any
    network: Network
    parameters: Parameters
    dtype: torch.dtype
    biases_train: bool


def _subject(model: nn.Module, optimizer: torch.optim.Optimizer, loss_fn: Any, loss: str) -> _Subject:
    if loss not in {"half_squared_error", "cross_entropy_softmax"}:
        raise _unsupported(f"topology_loss {loss!r} is neither half_squared_error nor cross_entropy_softmax")
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if len(layers) != 2:
        raise _unsupported(
            f"the model has {len(layers)} nn.Linear layers; a classic receipt has one hidden layer, so two"
        )
    first, second = layers
    if first.out_features != second.in_features:
        raise _unsupported(f"the first Linear gives {first.out_features} values, the second takes {second.in_features}")
    parameters: Parameters = (first.weight, first.bias, second.weight, second.bias)
    dtype = _checked_parameters(parameters, model, optimizer)
    _config(optimizer, optimizer.param_groups[0], fresh=True)  # refuses now what it would refuse at the first step
    trained = {bias.requires_grad for bias in (first.bias, second.bias) if bias is not None}
    if len(trained) > 1 or (trained == {True} and None in parameters):
        raise _unsupported("one layer's biases are trained and the other's are not; classic receipts know all or none")
    network = Network.of_sizes(first.in_features, first.out_features, second.out_features, loss)
    return _Subject(model, (first, second), optimizer, loss_fn, network, parameters, dtype, trained == {True})


def _checked_parameters(parameters: Parameters, model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.dtype:
    present = [p for p in parameters if p is not None]
    if len(optimizer.param_groups) != 1:
        groups = len(optimizer.param_groups)
        raise _unsupported(f"the optimizer has {groups} parameter groups; a classic receipt has one configuration")
    known, trained = {id(p) for p in present}, {id(p) for p in present if p.requires_grad}
    given = {id(p) for p in optimizer.param_groups[0]["params"] if p.requires_grad}
    if extra := [name for name, p in model.named_parameters() if id(p) not in known]:
        raise _unsupported(f"the model has parameters beside its two Linear layers: {', '.join(extra)}")
    if given != trained or not all(p.requires_grad for p in (parameters[0], parameters[2]) if p is not None):
        raise _unsupported(
            "the optimizer must hold exactly the two layers' parameters, and both weights must be trained"
        )
    kinds = {(p.dtype, p.device.type) for p in present}
    if len(kinds) != 1 or not kinds <= {(torch.float64, "cpu"), (torch.float32, "cpu")}:
        said = ", ".join(sorted(f"{dtype} on {where}" for dtype, where in kinds))
        raise _unsupported(f"parameters are {said}; one of float64 or float32 on the CPU is recorded")
    return present[0].dtype


def _config(optimizer: torch.optim.Optimizer, group: dict[str, Any], *, fresh: bool) -> dict[str, Any]:
    """The optimizer's block in the format's names; `fresh`: no momentum buffer exists yet."""
    for flag in ("maximize", "amsgrad", "capturable", "differentiable"):
        if group.get(flag):
            raise _unsupported(f"{type(optimizer).__name__}({flag}=True) is outside the classic receipt")
    rate, decay = float(group["lr"]), float(group.get("weight_decay", 0.0))
    if isinstance(optimizer, torch.optim.SGD):
        return _sgd(rate, decay, group, fresh=fresh)
    decoupled = isinstance(optimizer, torch.optim.AdamW) or bool(group.get("decoupled_weight_decay"))
    if not (decoupled or isinstance(optimizer, torch.optim.Adam)):
        raise _unsupported(f"the optimizer is {type(optimizer).__name__}; SGD, Adam and AdamW are recorded")
    if decay and not decoupled:
        raise _unsupported(
            "Adam with coupled weight_decay is outside the classic receipt",
            f"AdamW decouples it. {ELSEWHERE}",
        )
    beta1, beta2 = (float(beta) for beta in group["betas"])
    config = {
        "name": "adamw" if decoupled else "adam",
        "learning_rate": rate,
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": float(group["eps"]),
    }
    return {**config, "weight_decay": decay} if decoupled else config


def _sgd(rate: float, decay: float, group: dict[str, Any], *, fresh: bool) -> dict[str, Any]:
    config: dict[str, Any] = {"name": "sgd_momentum" if group["momentum"] else "sgd", "learning_rate": rate}
    if group["momentum"]:
        config["momentum"] = float(group["momentum"])
    if decay:
        config["weight_decay"] = decay
    if group["momentum"] and group["nesterov"]:
        config["nesterov"] = True
    if (
        group["momentum"] and group["dampening"] and not fresh
    ):  # PyTorch does not dampen the gradient that starts a buffer
        config["dampening"] = float(group["dampening"])
    return config


# ---- one block ----


@dataclass
class _Pass:
    """One Linear layer's forward pass: its input and output, and where they stand in the autograd graph."""

    layer: nn.Linear
    input: Any
    output: Any
    input_node: Any
    output_node: Any


@dataclass
class _Snapshot:
    """Parameters, gradients, optimizer state and hyper-parameters at one moment."""

    values: list[Any]
    gradients: list[Any]
    states: list[dict[str, Any]]
    group: dict[str, Any]
    backwards: int


@dataclass
class _Block:
    """What the open block has seen. Observing never raises in the user's code; complaints wait."""

    subject: _Subject
    said_inputs: Any
    said_targets: Any
    write: Callable[[Seen], None]
    passes: list[_Pass] = field(default_factory=list)
    outputs: list[tuple[Any, Any]] = field(default_factory=list)
    d: dict[str, Any] = field(default_factory=dict)
    losses: list[Any] = field(default_factory=list)
    loss_targets: list[Tensor] = field(default_factory=list)
    before: list[_Snapshot] = field(default_factory=list)
    after: list[_Snapshot] = field(default_factory=list)
    undo: list[Callable[[], Any]] = field(default_factory=list)
    complaint: Exception | None = None

    def __enter__(self) -> None:
        if not torch.is_grad_enabled():
            raise HelperError("gradients are switched off here (torch.no_grad): there is no step to record")
        subject = self.subject
        for layer in subject.layers:
            self._hook(layer.register_forward_hook, self._saw_linear)
        self._hook(subject.model.register_forward_hook, self._saw_model)
        if isinstance(subject.loss_fn, nn.Module):
            self._hook(subject.loss_fn.register_forward_hook, self._saw_loss)
        self._hook(subject.optimizer.register_step_pre_hook, lambda *_: self.before.append(self._snapshot()))
        self._hook(subject.optimizer.register_step_post_hook, lambda *_: self.after.append(self._snapshot()))
        self._watch_backward()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for undo in reversed(self.undo):
            undo()
        if kind is not None:
            return  # the user's own exception goes on; a step that was not finished is not written
        if self.complaint is not None:
            raise self.complaint
        self.write(self._seen())

    def _hook(self, register: Callable[..., Any], observe: Callable[..., None]) -> None:
        self.undo.append(register(partial(self._quietly, observe)).remove)

    def _quietly(self, observe: Callable[..., None], *arguments: Any) -> None:
        try:
            observe(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach the training
            self.complaint = self.complaint or error

    def _watch_backward(self) -> None:
        """Tensor.backward calls torch.autograd.backward: the one place where the loss itself can be seen."""
        original = torch.autograd.backward

        def watched(tensors: Any, *arguments: Any, **named: Any) -> None:
            self.losses.append(tensors.item() if isinstance(tensors, Tensor) and tensors.numel() == 1 else None)
            original(tensors, *arguments, **named)

        torch.autograd.backward = watched
        self.undo.append(lambda: setattr(torch.autograd, "backward", original))

    def _saw_linear(self, layer: nn.Linear, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        if not output.requires_grad:
            return  # a pass under no_grad is not the one that is trained
        incoming, second = arguments[0], bool(self.passes)
        if output.dtype != self.subject.dtype or output.dim() > 2:
            found = f"{output.dtype} of shape {list(output.shape)}"
            raise _unsupported(f"a Linear layer gave {found}: autocast, or more dimensions than a batch")
        self.passes.append(_Pass(layer, incoming.tolist(), output.tolist(), incoming.grad_fn, output.grad_fn))
        self._gradient_hook(output, "output_net" if second else "hidden_net")
        if second and incoming.requires_grad:
            self._gradient_hook(incoming, "hidden_out")

    def _gradient_hook(self, value: Tensor, name: str) -> None:
        observe = partial(self._quietly, partial(self._saw_gradient, name))
        value.register_hook(observe)  # type: ignore[no-untyped-call]

    def _saw_gradient(self, name: str, gradient: Tensor) -> None:
        self.d[name] = gradient.tolist()

    def _saw_model(self, _: nn.Module, __: Any, output: Any) -> None:
        if not isinstance(output, Tensor):
            raise _unsupported(f"the model returned a {type(output).__name__}, not one tensor of outputs")
        if output.requires_grad:
            self.outputs.append((output.tolist(), output.grad_fn))

    def _saw_loss(self, _: nn.Module, arguments: tuple[Any, ...], __: Any) -> None:
        if len(arguments) == 2 and isinstance(arguments[1], Tensor):
            self.loss_targets.append(arguments[1].detach().clone())

    def _snapshot(self) -> _Snapshot:
        present, optimizer = self.subject.parameters, self.subject.optimizer
        return _Snapshot(
            values=[None if p is None else p.tolist() for p in present],
            gradients=[None if p is None or p.grad is None else p.grad.tolist() for p in present],
            states=[{} if p is None else _plain(optimizer.state.get(p, {})) for p in present],
            group={key: value for key, value in optimizer.param_groups[0].items() if key != "params"},
            backwards=len(self.losses),
        )

    # -- and what it amounts to --

    def _seen(self) -> Seen:
        first, second, (output, output_node) = self._one_pass()
        network = self.subject.network
        inputs, hidden_out = _nested(first.input), _nested(second.input)
        hidden_net, output_net = _nested(first.output), _nested(second.output)
        observed = _nested(output)
        info = torch.finfo(self.subject.dtype)
        hidden_kind = _activation(hidden_net, hidden_out, _nodes_between(second.input_node, first.output_node), info)
        output_kind = _activation(output_net, observed, _nodes_between(output_node, second.output_node), info)
        if hidden_kind in {"softmax", "log_softmax"}:
            raise _unsupported(f"the hidden activation is {hidden_kind}; sigmoid, relu and identity are recorded")
        logs = None
        if network.loss == "cross_entropy_softmax":
            if output_kind not in {"softmax", "log_softmax", "identity"}:
                raise _unsupported(f"the outputs are a {output_kind}; a cross-entropy needs logits or a softmax")
            logs = [_log_softmax(row) for row in output_net]
            observed = observed if output_kind == "softmax" else [[math.exp(log) for log in row] for row in logs]
            output_kind = "softmax"
        elif output_kind in {"softmax", "log_softmax"}:
            raise _unsupported(f"the outputs are a {output_kind}, which needs topology_loss='cross_entropy_softmax'")
        before, after, total = self._one_step()
        config, states = self._optimizer(before, after, len(inputs))
        return Seen(
            inputs=self._checked_inputs(inputs), targets=self._targets(len(inputs)), hidden_net=hidden_net,
            hidden_out=hidden_out, output_net=output_net, output_out=observed, log_out=logs, loss=total,
            d_hidden_net=_nested(self.d["hidden_net"]), d_hidden_out=_nested(self.d["hidden_out"]),
            d_output_net=_nested(self.d["output_net"]), before=self._flat(before.values),
            after=self._flat(after.values), gradient=self._flat(before.gradients),
            state_before=states[0], state_after=states[1], optimizer=config,
            activations=(hidden_kind, output_kind), biases_train=self.subject.biases_train,
        )  # fmt: skip

    def _one_pass(self) -> tuple[_Pass, _Pass, tuple[Any, Any]]:
        order = [
            layer for seen in self.passes for layer, known in enumerate(self.subject.layers) if seen.layer is known
        ]
        if order != [0, 1] or len(self.outputs) != 1:
            found = f"the model ran {len(self.outputs)} times in this block, its Linear layers {len(order)} times"
            raise _unsupported(f"{found}; one pass through both is recorded, those under torch.no_grad set aside")
        return self.passes[0], self.passes[1], self.outputs[0]

    def _one_step(self) -> tuple[_Snapshot, _Snapshot, float]:
        if (len(self.before), len(self.after)) != (1, 1):
            raise HelperError(f"optimizer.step() ran {len(self.after)} times in this block; a receipt is of one step")
        before, after = self.before[0], self.after[0]
        if before.backwards != 1 or len(self.losses) != 1 or self.losses[0] is None:
            found = f"backward ran {before.backwards} times before the step and {len(self.losses)} times in all"
            wanted = "one .backward() of a scalar loss is recorded: no accumulation, closure or autograd.grad"
            raise _unsupported(f"{found}; {wanted}")
        missing = [
            k
            for k, p in enumerate(self.subject.parameters)
            if p is not None and p.requires_grad and before.gradients[k] is None
        ]
        if missing or len(self.d) != 3:
            raise _unsupported(
                "a parameter or a layer got no gradient: the loss does not depend on the model's two layers"
            )
        return before, after, self.losses[0]

    def _optimizer(self, before: _Snapshot, after: _Snapshot, size: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        trained = [k for k, p in enumerate(self.subject.parameters) if p is not None and p.requires_grad]
        fresh = {before.states[k].get("momentum_buffer") is None for k in trained}
        config = _config(self.subject.optimizer, before.group, fresh=True in fresh)
        if config["name"] == "sgd":
            return config, [{}, {}]
        if size > 1:
            raise _unsupported(
                f"a batch of {size} samples with {config['name']}: batches are recorded with plain SGD",
                f"Record one sample a step. {ELSEWHERE}",
            )
        if config["name"] == "sgd_momentum":
            if len(fresh) > 1 and before.group["dampening"]:
                raise _unsupported("some momentum buffers exist already and others start here, with dampening")
            names = {"buffer": "momentum_buffer"}
        else:
            names = {"m": "exp_avg", "v": "exp_avg_sq"}
            config["t"] = self._one_t(after, trained)
        return config, [self._states(snapshot, names) for snapshot in (before, after)]

    def _one_t(self, after: _Snapshot, trained: list[int]) -> int:
        steps = {float(after.states[k]["step"]) for k in trained}
        if len(steps) != 1:
            raise _unsupported(f"parameters count their steps differently: {sorted(steps)}")
        return int(steps.pop())

    def _states(self, snapshot: _Snapshot, names: dict[str, str]) -> dict[str, dict[str, float]]:
        """By parameter: buffers and first moments in descent direction, second moments as they are."""
        columns = {}
        for ours, theirs in names.items():
            flat = self._flat([state.get(theirs) for state in snapshot.states])
            columns[ours] = flat if ours == "v" else {key: _down(value) for key, value in flat.items()}
        return {
            edge.id: {name: column[edge.id] for name, column in columns.items()} for edge in self.subject.network.edges
        }

    def _flat(self, tables: list[Any]) -> dict[str, float]:
        """The four tables by parameter name; what does not exist is zero."""
        full = [self._zeros[k] if table is None else table for k, table in enumerate(tables)]
        return self.subject.network.flat(full[0], full[1], full[2], full[3])

    @property
    def _zeros(self) -> list[Any]:
        layers = self.subject.layers
        return [z for a in layers for z in ([[0.0] * a.in_features] * a.out_features, [0.0] * a.out_features)]

    def _rounded(self, rows: Rows) -> Rows:
        """What a tensor of the model's own dtype makes of numbers said in Python's float64."""
        return rows if self.subject.dtype == torch.float64 else torch.tensor(rows, dtype=self.subject.dtype).tolist()

    def _checked_inputs(self, observed: Rows) -> Rows:
        if self.said_inputs is not None:
            said = self._rounded(_rows(self.said_inputs, self.subject.network.inputs, "inputs"))
            if said != observed:
                raise HelperError(f"step() was told the inputs {said}, the model was fed {observed}")
        return observed

    def _targets(self, size: int) -> Rows:
        found = [
            self._target_rows(value, size) for value in (self.said_targets, *self.loss_targets) if value is not None
        ]
        if not found:
            raise HelperError(
                "no targets: give step() targets=..., the loss module was not called with a tensor of them"
            )
        if found[0] != found[-1]:
            raise HelperError(f"step() was told the targets {found[0]}, the loss was given {found[-1]}")
        if len(found[0]) != size:
            raise HelperError(f"{len(found[0])} rows of targets for {size} samples")
        return found[0]

    def _target_rows(self, value: Any, size: int) -> Rows:
        network = self.subject.network
        classes = isinstance(value, int)
        if isinstance(value, Tensor) and not value.is_floating_point():
            classes = value.dim() < 2 and value.numel() == size and not (size == 1 and len(network.outputs) == 1)
        if classes and network.loss != "cross_entropy_softmax":
            raise HelperError("targets are class numbers, but the declared loss is half_squared_error")
        return self._rounded(_rows(value, network.outputs, "targets", classes=classes))


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if isinstance(value, Tensor) else value for key, value in state.items()}


def _nested(values: Any) -> Rows:
    """One sample without its batch dimension is a batch of one."""
    return values if isinstance(values[0], list) else [values]


# ---- which activation stands between two layers ----


def _nodes_between(end: Any, start: Any) -> list[str]:
    """The autograd nodes from a layer's output to the value that was used, latest first, views left out."""
    names: list[str] = []
    while end is not None and end is not start and end.name() not in LINEAR and len(names) < 20:
        if end.name() not in VIEWS:
            names.append(end.name())
        end = next((node for node, _ in end.next_functions if node is not None), None)
    return names


def _activation(nets: Rows, outs: Rows, nodes: list[str], info: torch.finfo) -> str:
    """The activation that explains every observed output *and* is what the graph shows."""
    named = NODES.get(nodes[0]) if len(nodes) == 1 else None if nodes else "identity"
    if named is not None and _explains(named, nets, outs, info):
        return named
    fits = [] if named else [name for name in ACTIVATIONS if _explains(name, nets, outs, info)]
    # A node of the user's own autograd.Function has no number at its end.
    custom = not any(name[-1].isdigit() or "::" in name for name in nodes)
    # A sigmoid coincides with nothing else; relu and identity do, wherever a net is positive.
    if len(fits) == 1 and (custom or fits == ["sigmoid"]):
        return fits[0]
    shown = " · ".join(reversed(nodes)) or "nothing"
    if IN_PLACE in nodes:
        raise _unsupported(
            "an activation in place hides itself when a sample has no batch dimension", "Drop inplace=True"
        )
    what = f"between a Linear layer and the next value the graph shows {shown}"
    raise _unsupported(f"{what}; sigmoid, relu, identity and a final softmax are recorded")


def _explains(name: str, nets: Rows, outs: Rows, info: torch.finfo) -> bool:
    """|out − f(net)| ≤ 8·ε·(1 + range of nets)·|f(net)|: what exp, a sum and a division may round.

    A log_softmax is compared after exp, where its own cancellation near 0 costs nothing.
    """
    for net, out in zip(nets, outs, strict=True):
        if len(net) != len(out) or not all(map(math.isfinite, net)):
            return False
        derived = ACTIVATIONS[name](net)
        observed = [math.exp(value) for value in out] if name == "log_softmax" else out
        band = 8.0 * info.eps * (1.0 + max(net) - min(net))
        if not all(abs(o - f) <= band * abs(f) + info.tiny for o, f in zip(observed, derived, strict=True)):
            return False
    return True


def _sigmoid(row: list[float]) -> list[float]:
    return [1.0 / (1.0 + math.exp(-x)) if x >= 0.0 else math.exp(x) / (1.0 + math.exp(x)) for x in row]


def _log_softmax(row: list[float]) -> list[float]:
    top = max(row)
    log_sum = math.log(math.fsum(math.exp(x - top) for x in row))
    return [x - top - log_sum for x in row]


ACTIVATIONS: dict[str, Callable[[list[float]], list[float]]] = {
    "sigmoid": _sigmoid,
    "relu": lambda row: [max(0.0, x) for x in row],
    "identity": lambda row: row,
    "softmax": lambda row: [math.exp(x) for x in _log_softmax(row)],
    "log_softmax": lambda row: [math.exp(x) for x in _log_softmax(row)],
}


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
