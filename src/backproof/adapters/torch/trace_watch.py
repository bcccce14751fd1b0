"""One step, seen layer by layer: what every module writes, the gradient of it, and who reads what. Nothing that is computed is changed.

A module without modules inside is a layer. Between layers, functions are (`torch.flatten(x, 1)` in a model's forward is the probe
`flatten`): a `TorchFunctionMode` sees them, and the loss. What is recorded is kept at once, since the next layer may work in place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules.loss import _Loss
from torch.overrides import TorchFunctionMode, resolve_name

from backproof.adapters.recording import Keeper, Kept
from backproof.adapters.torch.encode import dtype_name, tensors_in
from backproof.adapters.torch.trace_kinds import LOSSES, MODULES, UNTOLD, Told, told_of, told_of_call, told_of_loss
from backproof.lowering import canonical
from backproof.trace.manifest import Probe
from backproof.trace.phases import INPUT, LABEL, LOSS

ATOMIC = (nn.MultiheadAttention, nn.RNNBase, nn.RNNCellBase)
"""Modules that are one layer although modules are inside, or whose mathematics is one call."""


class Watch(TorchFunctionMode):
    """Everything of one step, while it happens."""

    def __init__(
        self, model: nn.Module, keepers: Sequence[Keeper], samples: int | None, wanted: Collection[str] = ()
    ) -> None:
        super().__init__()
        self.model = model
        self.keepers = keepers
        self.samples = samples
        self.wanted = frozenset(wanted)
        self.called = False
        """Whether an output was kept: else there is nothing to record."""
        self.handled = False
        """Whether a gradient was changed between the backward pass and the optimizer: clipped, unscaled, or otherwise."""
        self.probes: dict[str, Probe] = {}
        self.batch: int | None = None
        self.losses: list[Callable[[], float | None]] = []
        """For each loss, what a gradient is to be multiplied by to be that of a sample's own loss; None where nobody can tell."""
        self._makers: dict[int, str] = {}
        self._alive: list[torch.Tensor] = []
        self._calls: dict[str, int] = {}
        self._inside: list[str] = []
        self._raw: set[tuple[str, str]] = set()
        self._atomic = 0

    # ── what is seen ────────────────────────────────────────────────────────────────────────────────────────────────

    def keep(self, probe: str, phase: str, tensor: torch.Tensor, parameter: str = "") -> None:
        """Keep a tensor as it is now, or as much of it as is wanted."""
        if self._is_wanted(probe):
            self._keep(self._seen(probe, phase, tensor, parameter))

    def keep_raw(self, probe: str, gradient: torch.Tensor, parameter: str) -> None:
        """A parameter's gradient has been added to: what it is when the backward pass ends is what counts."""
        if self._is_wanted(probe):
            self._raw.add((probe, parameter))
            self._keep(self._seen(probe, "grad_raw", gradient, parameter), again=True)

    def keep_scaled(self, probe: str, gradient: torch.Tensor, parameter: str) -> None:
        """A gradient as the optimizer gets it."""
        if not self._is_wanted(probe):
            return
        found = self._seen(probe, "grad_scaled", gradient, parameter)
        if (probe, parameter) in self._raw and not self.handled:
            raw = replace(found, phase="grad_raw")
            self.handled = not all(keeper.holds(raw) for keeper in self.keepers)
        self._keep(found)

    def _is_wanted(self, probe: str) -> bool:
        return not self.wanted or probe in self.wanted

    def _seen(self, probe: str, phase: str, tensor: torch.Tensor, parameter: str) -> Kept:
        """The numbers of a tensor, where they lie: it is for those who keep them to do so before they change."""
        with torch._C.DisableTorchFunction():  # noqa: SLF001 # torch's own way to leave a mode
            rows = self.samples is not None and not parameter and tensor.dim() > 0 and tensor.shape[0] == self.batch
            numbers, dtype = array_of(tensor.detach()[: self.samples] if rows else tensor)
        return Kept(probe, phase, numbers, parameter, dtype, rows)

    def _keep(self, found: Kept, *, again: bool = False) -> None:
        self.called |= found.phase == "fwd"
        for keeper in self.keepers:
            keeper.keep(found, again=again)

    def made(self, probe: str, tensor: torch.Tensor) -> None:
        """A place has written this tensor: keep it, and its gradient when that comes."""
        self._remember(probe, tensor)
        self.keep(probe, "fwd", tensor)
        if tensor.requires_grad:
            _follow(tensor, partial(self.keep, probe, "agrad"))

    def _remember(self, probe: str, tensor: torch.Tensor) -> None:
        self._makers[id(tensor)] = probe
        self._alive.append(tensor)  # an id is one tensor's only while that lives

    def _reads(self, given: Any) -> tuple[str, ...]:
        return tuple(self._makers[id(t)] for t in tensors_in(given) if id(t) in self._makers)

    def _fresh(self, name: str) -> str:
        """`name`, and `name#2` when it is called again."""
        count = self._calls[name] = self._calls.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def _write(
        self, name: str, reads: tuple[str, ...], told: Told, result: Any, parameters: tuple[str, ...] = ()
    ) -> None:
        """A layer's output: one tensor, or several, each a place of its own (`name.0`, `name.hidden`)."""
        parts = list(_named(result))
        if len(parts) == 1 and not parts[0][0]:
            self.probes[name] = Probe(name, reads, told[0], told[1], parameters)
            self.made(name, parts[0][1])
            return
        if parameters:
            self.probes[name] = Probe(name, reads, parameters=parameters)
        for ending, tensor in parts:
            if id(tensor) not in self._makers:
                self.probes[f"{name}.{ending}"] = Probe(f"{name}.{ending}", reads)
                self.made(f"{name}.{ending}", tensor)

    # ── modules ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Hooks on every module, and this mode, for as long as the step takes."""
        with ExitStack() as stack:
            for name, module in self.model.named_modules():
                if isinstance(module, _Loss):
                    continue
                atomic = _is_layer(name, module)
                enter, leave = partial(self._enter, name, atomic), partial(self._leave, name, atomic)
                stack.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(leave, with_kwargs=True, always_call=True).remove)
            with self:
                yield

    def _enter(self, name: str, atomic: bool, _: nn.Module, args: Any, kwargs: Any) -> None:
        if not self._inside:
            self._inputs(args, kwargs)
        self._inside.append(name)
        self._atomic += atomic

    def _inputs(self, args: Any, kwargs: Any) -> None:
        """What the network reads: the first tensor is `input`, others have the name or the place of their argument."""
        first = True
        for ending, tensor in _named((*args, kwargs) if kwargs else args):
            if id(tensor) not in self._makers:
                if self.batch is None and tensor.dim():
                    self.batch = tensor.shape[0]
                name = self._fresh(INPUT if first else f"{INPUT}.{ending}")
                if name != INPUT:
                    self.probes[name] = Probe(name)
                self.made(name, tensor)
            first = False

    def _leave(self, name: str, atomic: bool, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        self._inside.pop()
        self._atomic -= atomic
        own = tuple(key for key, _ in module.named_parameters(recurse=atomic))
        if self._atomic or result is None or _in_backward() or not (atomic or own):
            return
        told = told_of(module) if atomic else UNTOLD
        if not atomic and any(id(t) in self._makers for t in tensors_in(result)):
            self.probes.setdefault(name or "model", Probe(name or "model", self._reads((args, kwargs)), parameters=own))
            return  # a layer or a function inside has written it already
        place = self._fresh(name or "model")
        self._write(place, self._reads((args, kwargs)), told, result, own if "#" not in place else ())

    # ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._atomic:
            return func(*args, **kwargs)
        op, is_loss = _op(func)
        if is_loss:
            return self._loss(func, op, args, kwargs)
        reads = self._reads((args, kwargs)) if op else ()
        result = func(*args, **kwargs)
        if reads and not _in_backward():
            self._call(op, reads, args, kwargs, result)
        return result

    def _call(self, op: str, reads: tuple[str, ...], args: Any, kwargs: dict[str, Any], result: Any) -> None:
        """A function between layers. What is only another name of what it read is no place of its own."""
        outputs = [t for t in tensors_in(result) if t.is_floating_point() or t.is_complex()]
        if not outputs:
            return
        given = {id(t) for t in tensors_in((args, kwargs))}
        in_place = op.endswith("_") and not op.endswith("__")
        if not in_place and all(id(t) in given for t in outputs):
            return
        if not any(t.requires_grad for t in outputs) and not self._inside:
            return  # a number for a log, not a piece of the step
        tensors = [t for t in args if isinstance(t, torch.Tensor)]
        rest = [a for a in args if not isinstance(a, torch.Tensor)]
        known = len(tensors) + len(rest) == len(args) and len(reads) == len(tensors_in((args, kwargs)))
        if args and isinstance(args[0], (tuple, list)):
            known, rest = len(reads) == len(tensors_in(args)) and not tensors, list(args[1:])
        elif list(args[: len(tensors)]) and any(a is not b for a, b in zip(args, tensors, strict=False)):
            known = False  # a number stands before a tensor: the kinds have tensors first
        base = op.removesuffix("_") if in_place else op
        told = told_of_call(base, rest, kwargs, max(t.dim() for t in outputs)) if known else UNTOLD
        where = self._inside[-1] if self._inside else ""
        place = self._fresh(f"{where}.{op}" if where else op)
        self._write(place, reads, told, result)

    # ── losses ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _loss(self, func: Callable[..., Any], op: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """A loss: what it reads, what it is told, and what its gradients are to be multiplied by."""
        given = inspect.signature(func).bind(*args, **kwargs).arguments
        logits, target = given.pop("input"), given.pop("target")
        name = self._fresh(LOSS)
        reads = self._reads((logits,))
        if isinstance(target, torch.Tensor):
            label = self._makers.get(id(target))
            if label is None:
                label = LABEL if name == LOSS else name.replace(LOSS, LABEL, 1)
                self._remember(label, target)
                if label != LABEL:
                    self.probes[label] = Probe(label)
                self.keep(label, "fwd", target)
            reads = (*reads, label)
        if isinstance(logits, torch.Tensor) and logits.requires_grad:
            _follow(logits, partial(self.keep, name, "lossgrad"))
        result = func(*args, **kwargs)
        told = told_of_loss(op, given)
        self.probes[name] = Probe(name, reads, told[0], told[1])
        self._remember(name, result)
        self.keep(name, "fwd", result)
        seeds: list[torch.Tensor] = []
        if result.requires_grad:
            _follow(result, lambda gradient: seeds.append(gradient.detach()))
        self.losses.append(partial(_factor, op, logits, target, given, seeds))
        return result


@lru_cache(maxsize=4096)
def _op(func: Callable[..., Any]) -> tuple[str, bool]:
    """What a function is called, and whether it is a loss; the empty name where it has none."""
    name = resolve_name(func) or getattr(func, "__name__", "")
    op = canonical(name)
    return op, op in LOSSES and name.startswith("torch.nn.functional.")


def array_of(tensor: torch.Tensor) -> tuple[Any, str]:
    """A tensor as NumPy has it, and its format; bfloat16 as its bits."""
    found = tensor.detach().cpu().contiguous()
    if found.dtype is torch.bfloat16:
        return found.view(torch.int16).numpy().view("uint16"), "bfloat16"
    return found.numpy(), dtype_name(found.dtype)


def _follow(tensor: torch.Tensor, see: Callable[[torch.Tensor], None]) -> None:
    """Be shown the gradient of a tensor, when a backward pass arrives there."""
    with torch._C.DisableTorchFunction():  # noqa: SLF001 # torch's own way to leave a mode
        tensor.register_hook(see)  # type: ignore[no-untyped-call] # torch leaves it so


def _is_layer(name: str, module: nn.Module) -> bool:
    """Whether a module is one layer. A whole model without modules inside is looked into, but for PyTorch's own."""
    if isinstance(module, ATOMIC):
        return True
    return not any(True for _ in module.children()) and (name != "" or type(module) in MODULES)


def _factor(op: str, logits: Any, target: Any, rest: dict[str, Any], seeds: list[torch.Tensor]) -> float | None:
    """What a gradient is to be multiplied by to be that of a sample's own loss: the mean's denominator over the loss's own gradient."""
    if len(seeds) != 1 or not logits.dim():
        return None
    seed = seeds[0].double()
    if not bool((seed == seed.flatten()[0]).all()) or float(seed.flatten()[0]) == 0:
        return None
    count: float = logits.shape[0] if logits.dim() > 1 or op not in ("cross_entropy", "nll_loss") else 1
    reduction = rest.get("reduction", "mean")
    if reduction in ("sum", "none"):
        count = 1
    elif reduction != "mean":
        count = count if reduction == "batchmean" else float("nan")
    elif op in ("cross_entropy", "nll_loss") and not target.is_floating_point():
        real = target[target != rest.get("ignore_index", -100)]
        weight = rest.get("weight")
        total = real.numel() if weight is None else float(weight[real].double().sum())
        count = total * count / max(target.numel(), 1)
    found = float(seeds[0].new_tensor(count) / seeds[0].flatten()[0])  # in the format that the seed was rounded to
    return found if found not in (0.0, float("inf")) and found == found else None  # noqa: PLR0124 # not a number is unequal to itself


def _named(value: Any, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a nested structure, by their way into it."""
    if isinstance(value, torch.Tensor):
        yield prefix, value
    elif isinstance(value, dict) or hasattr(value, "items"):
        for key, item in value.items():
            yield from _named(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            ending = f"{prefix}.{i}" if prefix else str(i)
            yield from _named(item, prefix if isinstance(item, dict) and i == len(value) - 1 and not prefix else ending)


def _in_backward() -> bool:
    """Whether a backward pass is running: a layer that is called there is computed a second time."""
    return bool(torch._C._current_graph_task_id() != -1)  # noqa: SLF001 # there is no other way to ask
