"""`with trace(model, out=..., optimizer=...):` around a training step writes a trace of it, for `bp compare`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import torch

from backproof.adapters.recording import (
    Copies,
    Keeper,
    Stored,
    place_of,
    scaled,
    tell,
    untold_losses,
    wanted_samples,
    which_samples,
)
from backproof.adapters.torch.trace_kinds import plain
from backproof.adapters.torch.trace_watch import Watch
from backproof.errors import InputError, UsageError
from backproof.trace import Manifest, Probe, Sink, TraceWriter


class trace:  # noqa: N801 # it is used as a function is: with trace(model, out="run"):
    """Records training steps layer by layer into the folder `out`, or into a sink. Training is the same to the last bit.

    Each `with` is one step; one object may be entered again and again. `samples=K` records the first K samples of the batch one by one
    (as programs do that work sample by sample), otherwise tensors are of the whole batch. `order` names the layers to record, in the
    network's order, where not all of them are wanted. `scale` (a number, or "mean") says what gradients are to be multiplied by to be
    those of each sample's own loss, where the loss is none of PyTorch's own; it is stated in the manifest, and no number is changed.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        out: str | os.PathLike[str] | None = None,
        *,
        optimizer: torch.optim.Optimizer | None = None,
        samples: int | None = None,
        order: Sequence[str] = (),
        scale: float | str | None = None,
        store: str = "npy",
        sink: Sink | None = None,
        notes: dict[str, Any] | None = None,
    ) -> None:
        if out is None and sink is None:
            raise UsageError("trace: give out=FOLDER or sink=CALLABLE; else nothing would be kept")
        wanted_samples(samples)
        self.model, self.optimizer, self.samples, self.order, self.scale, self.sink = (
            model, optimizer, samples, tuple(order), scale, sink,
        )  # fmt: skip
        self.index = 0
        self._notes = notes or {}
        manifest = Manifest(framework=f"torch {torch.__version__}", store=store)
        self._writer = None if out is None else TraceWriter(os.fspath(out), manifest)
        self._open: AbstractContextManager[None] | None = None
        self._parameters = {id(p): place_of(name) for name, p in model.named_parameters()}

    # ── a step ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Self:
        if self._open is not None:
            raise UsageError("trace: this step is being recorded already; steps do not overlap")
        step = self._recorded()
        step.__enter__()
        self._open = step
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._open is not None
        step, self._open = self._open, None
        step.__exit__(kind, error, at)

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """One step. Of one that fails nothing is left: it is no step."""
        with ExitStack() as stack:
            copies = Copies()
            keepers: list[Keeper] = [] if self.sink is None else [copies]
            if self._writer is not None:
                keepers.append(Stored(stack.enter_context(self._writer.step(self.index))))
            watch = Watch(self.model, keepers, self.samples, self.order)
            self._stepped = 0
            self._parameters_as("w_before", watch)
            self._state_as("opt_before", watch)
            with self._hooked(watch):
                yield
            if not self._stepped:
                self._scaled(watch)
            self._state_as("opt_after", watch)
            self._parameters_as("w_after", watch)
            self._finish(watch, copies)
        self.index += 1

    @contextmanager
    def _hooked(self, watch: Watch) -> Iterator[None]:
        """Hooks on the parameters, the optimizer and every module, for as long as the step takes."""
        with ExitStack() as stack:
            for parameter in self.model.parameters():
                if parameter.requires_grad:
                    keep = partial(self._gradient, watch)
                    stack.callback(parameter.register_post_accumulate_grad_hook(keep).remove)  # type: ignore[no-untyped-call] # torch leaves it so
            if self.optimizer is not None:
                stack.callback(self.optimizer.register_step_pre_hook(partial(self._before_update, watch)).remove)
            with watch.hooked():
                yield

    def _gradient(self, watch: Watch, parameter: torch.Tensor) -> None:
        """A parameter's gradient has been added to; what it is when the backward pass ends is what counts."""
        place = self._parameters[id(parameter)]
        if parameter.grad is not None:
            watch.keep_raw(place[0], parameter.grad, place[1])

    def _before_update(self, watch: Watch, *_: Any) -> None:
        self._stepped += 1
        if self._stepped > 1:
            raise UsageError("trace: the optimizer has stepped twice within one `with`; each step needs its own")
        self._scaled(watch)

    def _scaled(self, watch: Watch) -> None:
        for parameter in self.model.parameters():
            probe, name = self._parameters[id(parameter)]
            if parameter.grad is not None:
                watch.keep_scaled(probe, parameter.grad, name)

    def _parameters_as(self, phase: str, watch: Watch) -> None:
        for parameter in self.model.parameters():
            probe, name = self._parameters[id(parameter)]
            watch.keep(probe, phase, parameter, name)

    def _state_as(self, phase: str, watch: Watch) -> None:
        """The optimizer's state: tensors as they are, numbers as float64."""
        for parameter, state in self.optimizer.state.items() if self.optimizer is not None else ():
            probe, name = self._parameters.get(id(parameter), ("", ""))
            for key, item in state.items() if probe else ():
                if isinstance(item, (torch.Tensor, int, float)) and not isinstance(item, bool):
                    value = item if isinstance(item, torch.Tensor) else torch.tensor(item, dtype=torch.float64)
                    watch.keep(probe, phase, value, f"{name}.{key}")

    # ── what is told of it ──────────────────────────────────────────────────────────────────────────────────────────

    def _finish(self, watch: Watch, copies: Copies) -> None:
        probes = _chosen(watch.probes, self.order) if self.order else tuple(watch.probes.values())
        if not watch.called:
            raise InputError("trace: the model was not called in this step, so there is nothing to record")
        if self.sink is not None:
            tell(copies.kept, probes, self.sink)
        if self._writer is None:
            return
        scale = self._scale(watch)
        unknown = (
            {}
            if scale
            else {"scale": "not known: no loss of torch.nn.functional, or several; say scale='mean' or a number"}
        )
        self._writer.manifest = replace(
            self._writer.manifest,
            batch=watch.batch,
            samples=which_samples(self.samples, watch.batch),
            probes=probes if scale else untold_losses(probes),
            scale=scale,
            handled=watch.handled or not scale,
            notes={**self._notes, **unknown},
            optimizer=_settings(self.optimizer, self._parameters),
        )

    def _scale(self, watch: Watch) -> dict[str, float]:
        """What the gradients are to be multiplied by: said, or seen where there was one loss; else nothing is claimed."""
        factor = self.scale
        if factor is None and len(watch.losses) == 1:
            factor = watch.losses[0]()
        return scaled(factor, watch.batch, handled=watch.handled)


def _settings(optimizer: torch.optim.Optimizer | None, places: dict[int, tuple[str, str]]) -> dict[str, Any]:
    """The optimizer's class and its settings; those of each group where there are several."""
    if optimizer is None:
        return {}
    kind = type(optimizer)
    groups = [
        {
            "parameters": [".".join(places[id(p)]) for p in group["params"] if id(p) in places],
            **{key: plain(item) for key, item in group.items() if key != "params"},
        }
        for group in optimizer.param_groups
    ]
    found: dict[str, Any] = {"name": f"{kind.__module__}.{kind.__qualname__}"}
    if len(groups) == 1:
        return found | {key: item for key, item in groups[0].items() if key != "parameters"}
    return found | {"groups": groups}


def _chosen(probes: dict[str, Probe], order: Sequence[str]) -> tuple[Probe, ...]:
    """The probes that were asked for. Where something between two of them is left out, the mathematics of the later is left out too."""
    unknown = [name for name in order if name not in probes and name not in ("input", "label")]
    if unknown:
        raise UsageError(f"trace: order: there is no layer {unknown[0]!r}; there are {', '.join(probes) or 'none'}")
    kept = {*order, "input", "label"}

    def nearest(name: str) -> list[str]:
        if name in kept or name not in probes:
            return [name]
        return [found for parent in probes[name].parents for found in nearest(parent)]

    found = []
    for name in order:
        if name in probes:
            probe = probes[name]
            parents = tuple(dict.fromkeys(near for parent in probe.parents for near in nearest(parent)))
            whole = all(parent in kept for parent in probe.parents)
            found.append(probe if whole else Probe(name, parents, parameters=probe.parameters))
    return tuple(found)
