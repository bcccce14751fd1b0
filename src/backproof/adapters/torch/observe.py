"""One step, observed: every call with its tensors, every gradient, every update. Nothing that is computed is changed.

A `TorchFunctionMode` sees each call of PyTorch's functions before it happens; what a call reads and makes is numbered by `values`, and
`gradients` asks to be shown what comes back. What PyTorch does without a call is told by calls that nobody made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from backproof.adapters.torch.effects import EFFECTS, Casts, bound_to, in_pairs, one_of, renumbered, writes_in_place
from backproof.adapters.torch.encode import dtype_name, encode, maker_of, tensors_in
from backproof.adapters.torch.gradients import Gradients
from backproof.adapters.torch.handling import Handling
from backproof.adapters.torch.inside import inside
from backproof.adapters.torch.kinds import FILLS, SOURCES, kind_of, name_of, transformed
from backproof.adapters.torch.modules import Modules
from backproof.adapters.torch.passes import run_pass
from backproof.adapters.torch.saved import Saved
from backproof.adapters.torch.updates import Updates
from backproof.adapters.torch.values import Values, lay
from backproof.trace.handling import Scheduled
from backproof.trace.step import Backward, Call, Region, Step


class Observer(TorchFunctionMode):
    """Everything of one step, while it happens."""

    def __init__(self, model: torch.nn.Module, index: int) -> None:
        super().__init__()
        self.index = index
        self.values = Values(model, self.emit)
        self.gradients = Gradients(self.values, self.quiet)
        self.calls: list[Call] = []
        self.handling = Handling(self, ((self.values.names[id(p)], p) for p in model.parameters()))
        self.updates = Updates(self.values, self.handling)
        self.values.follow, self.handling.missed = self.gradients.follow, self.gradients.missed
        self.saved = Saved(self.values)
        self.values.note, self.gradients.used = self.saved.note, self.saved.use
        self.backwards: list[Backward] = []
        self.regions: list[Region] = []
        self.scheduled: list[Scheduled] = []
        self.facts: dict[str, Any] = {}
        self.modules = Modules()
        self.place: list[str] = []
        self.casts = Casts(self)
        self.region: int | None = None
        """The region that calls belong to now."""
        self.thread = threading.get_ident()
        self._paused = 0
        self._entered: list[Callable[..., Any]] = []

    @property
    def here(self) -> str:
        """The module whose forward runs."""
        return self.place[-1] if self.place else ""

    @property
    def idle(self) -> bool:
        """Whether what happens now is not to be recorded: it is part of something that is, or another thread's."""
        return self._paused > 0 or threading.get_ident() != self.thread

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Nothing in here is part of the step."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        if self._paused or name is None or transformed():
            return func(*args, **kwargs)
        if self.handling.takes(func, name, args):
            with self.quiet():
                return self.handling.run(func, args, kwargs)
        kind, op = kind_of(name)
        first = len(self.calls)
        result = getattr(self, f"_{kind}")(func, op, args, kwargs)
        self.handling.edited(name, args, first)
        return result

    def _plain(self, func: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """It only looks at a tensor, or makes one from nothing."""
        if op not in SOURCES:
            return func(*args, **kwargs)
        with self.quiet():
            result = func(*args, **kwargs)
            if isinstance(result, torch.Tensor) and not self.values.known(result):
                self.values.made(result, "source")
        return result

    def _call(self, func: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that is known here."""
        if isinstance(kwargs.get("out"), torch.Tensor):
            return self._into(func, op, args, kwargs)
        if writes_in_place(func, args, kwargs):
            return self._write(func, f"{op}_", args, kwargs)
        with self.quiet():
            said = self._said(args, kwargs)
            after = self._effect(op, args, kwargs)
            result = func(*args, **kwargs)
            if after is not None:
                after(said[1])
            self._record(op, said, (args, kwargs), result)
        return result

    def _effect(
        self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[dict[str, Any]], None] | None:
        """What is to be done after a call that does more than it gives."""
        if op not in EFFECTS:
            return None
        names, effect = EFFECTS[op]
        return effect(self, op, bound_to(args, kwargs, names))

    def _into(self, func: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that writes its result into a tensor that is given."""
        target = kwargs["out"]
        with self.quiet():
            base, _ = self._base(target)
            said = self._said(args, {key: item for key, item in kwargs.items() if key != "out"})
            self.values.keep(target)
            result = func(*args, **kwargs)
            place = len(self.calls)
            self._append(op, said, (self.values.written(target, base),), place)
        return result

    def _write(self, func: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that changes its first argument."""
        target = (
            args[0] if args else next((kwargs[name] for name in ("input", "self", "tensor") if name in kwargs), None)
        )
        if not isinstance(target, torch.Tensor):
            return self._through(func, op, args, kwargs)
        with self.quiet():
            base, before = self._base(target)
            said = self._said(args, kwargs)
            if base is not None and args:
                said[0][0] = {"value": before}
            self.values.keep(target)
            result = func(*args, **kwargs)
            place = len(self.calls)
            number = self.values.written(target, base)
            if op in FILLS and op not in ("zero_", "fill_"):
                self.values.change(number, origin="source")
            else:
                self._append(op, said, (number,), place)
            if isinstance(result, torch.Tensor) and result is not target:
                self.values.number(result)
        return result

    def _each(self, func: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of lists of tensors: a call for each place in them."""
        several = [one_of(args, kwargs, op, i) for i in range(len(args[0]))]
        with self.quiet():
            if op.endswith("_"):
                return self._write_each(func, op, several, args, kwargs)
            said = [self._said(*given) for given in several]
            result = func(*args, **kwargs)
            for each, made in zip(said, result or (), strict=True):
                self._append(op, each, (self.values.made(made),))
        return result

    def _write_each(self, func: Callable[..., Any], op: str, several: list[Any], args: Any, kwargs: Any) -> Any:
        """The same of one that changes the first of them."""
        written = []
        for given, more in several:
            base, before = self._base(given[0])
            said = self._said(given, more)
            if base is not None:
                said[0][0] = {"value": before}
            written.append((given[0], base, said))
        for target in args[0]:
            self.values.keep(target)
        result = func(*args, **kwargs)
        for target, base, said in written:
            place = len(self.calls)
            self._append(op, said, (self.values.written(target, base),), place)
        return result

    def _base(self, target: torch.Tensor) -> tuple[tuple[torch.Tensor, int] | None, int]:
        """Of a tensor that will be written: its base, for a view; and its value, read from that base as autograd will read it."""
        number = self.values.number(target)
        base = target._base if target._is_view() else None  # noqa: SLF001 # the framework's own word for what a view looks at
        if base is None or base.dtype != target.dtype:
            return None, number
        if not self.values.known(base):
            self._uncover(base)
        whole = self.values.number(base)
        return (base, whole), self.values.looked_through(base, whole, target)

    def _looked(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A look at a tensor's memory in another way: what it sees is told by how both lie there."""
        with self.quiet():
            seen, result = self.values.number(args[0]), func(*args, **kwargs)
            self._append(
                "seen_through", ([{"value": seen}, lay(args[0]), lay(result)], {}), (self.values.made(result),)
            )
        return result

    def _uncover(self, base: torch.Tensor) -> None:
        """A call has made its result in another shape, and gave a view of it: what is written into the view goes back to that."""
        views = (seen for seen in self.values.alive() if seen._is_view() and seen._base is base)  # noqa: SLF001 # as above
        target = next((seen for seen in views if seen.numel() == base.numel()), None)
        if target is None:
            return
        number = self.values.number(target)
        at = next((i for i, call in enumerate(self.calls) if number in call.outputs), None)
        seen = [backward.after for backward in self.backwards] + [moment.after for moment in self.handling.moments]
        if at is None or (seen and max(seen) > at):
            return
        made, whole = self.values.hidden(target), self.values.made(base)
        call = self.calls[at]
        outputs = tuple(made if output == number else output for output in call.outputs)
        ways = (made, lay(target), lay(base), whole), (whole, lay(base), lay(target), number)
        between = [
            replace(call, op="seen_through", args=[{"value": old}, *lies], kwargs={}, outputs=(new,))
            for old, *lies, new in ways
        ]
        self.calls[at : at + 1] = [replace(call, outputs=outputs), *between]

    def _through(self, func: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function without a lowering: what it is made of, if that is made of functions; else it alone, by name."""
        if func in self._entered or not tensors_in((args, kwargs)):
            return func(*args, **kwargs)  # it dispatches to itself, or reads no tensor
        if op == "as_strided" and args:
            return self._looked(func, args, kwargs)
        before = len(self.calls)
        with self.quiet():
            said = self._said(args, kwargs)
        self._entered.append(func)
        try:
            with self:
                result = inside(func)(*args, **kwargs)
        finally:
            self._entered.pop()
        if len(self.calls) == before and tensors_in(result):
            with self.quiet():
                self._record(op, said, (args, kwargs), result, known=False)
        return result

    def _hook(self, func: Callable[..., Any], _: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The user asks to see a gradient, and may change it."""
        with self.quiet():
            number = self.values.number(args[0])
            result = func(*args, **kwargs)
            if args[0].requires_grad:
                self.gradients.handed(args[0], number)
        return result

    def _said(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        number = self.values.number
        return [encode(item, number) for item in args], {key: encode(item, number) for key, item in kwargs.items()}

    def _record(
        self, op: str, said: tuple[list[Any], dict[str, Any]], given: Any, result: Any, *, known: bool = True
    ) -> None:
        outputs = tensors_in(result)
        before = {id(item) for item in tensors_in(given)}
        if not outputs or all(id(item) in before for item in outputs):
            return  # a number, or the very tensor that was given
        if not before:  # it was computed from numbers alone
            for item in outputs:
                self.values.made(item, "source")
            return
        rounded = self.casts.said(op, given, outputs)
        if rounded:
            said = renumbered(said[0], rounded), renumbered(said[1], rounded)
        # Of several results one may be the very tensor that was given: it stays the value that it is.
        numbers = tuple(
            self.values.hidden(item, stored=False) if id(item) in before else self.values.made(item) for item in outputs
        )
        region = self.region if known else self._unknown(op, outputs, numbers)
        self._append(op, said, numbers, region=region)

    def _unknown(self, op: str, outputs: list[torch.Tensor], numbers: tuple[int, ...]) -> int | None:
        """A call that is not known here: see at least what its backward gives back."""
        nodes = {maker for maker in map(maker_of, outputs) if maker is not None}
        node = nodes.pop() if len(nodes) == 1 else None
        inputs = None if node is None or self.region is not None else self.gradients.inputs_of(node)
        if inputs is None:
            return self.region
        named = tuple(number for number in inputs if number is not None)
        self.regions.append(Region("call", op, self.here, named, numbers, why=f"there is no lowering for {op}"))
        self.gradients.watch(node, len(self.regions) - 1, inputs)
        return len(self.regions) - 1

    def _append(
        self,
        op: str,
        said: tuple[list[Any], dict[str, Any]],
        outputs: tuple[int, ...],
        at: int | None = None,
        region: int | None = None,
    ) -> None:
        op, said = in_pairs(self.values.paired, op, said, outputs)
        region = self.region if region is None else region
        lower = dtype_name(torch.get_autocast_dtype("cpu")) if torch.is_autocast_enabled("cpu") else ""
        grad = torch.is_grad_enabled() or self.region is not None
        call = Call(op, said[0], said[1], outputs, self.here, grad, lower, region)
        self.calls.insert(len(self.calls) if at is None else at, call)

    def emit(self, op: str, args: list[Any], *outputs: int, region: int | None = None) -> None:
        """A call that nobody made: how values follow from others. A whole number is a value's; {"plain": x} is x."""
        said = [{"value": item} if isinstance(item, int) else _plainly(item) for item in args]
        owner = self.region if region is None else region
        self.calls.append(Call(op, said, {}, outputs, self.here, grad=True, region=owner))

    @contextmanager
    def within(self, region: int) -> Iterator[None]:
        """What is called in here belongs to a region, where no gradient can be seen."""
        before, self.region, self.values.inside = self.region, region, True
        try:
            yield
        finally:
            self.region, self.values.inside = before, before is not None

    def _assign(self, func: Callable[..., Any], _: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`tensor.data = other`: a tensor becomes another's alias, and autograd is not told."""
        with self.quiet():
            target, other = args
            said = [{"value": self.values.number(other)}]
            self.values.number(target)
            result = func(*args, **kwargs)
            self._append("alias", (said, {}), (self.values.replaced(target, elsewhere=True),))
        return result

    # ── backward ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _backward(self, func: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return run_pass(self, func, op, args, kwargs)

    # ── updates ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def before_update(self, optimizer: torch.optim.Optimizer, which: int = 0) -> None:
        """Parameters, gradients and state, as the optimizer finds them."""
        with self.quiet():
            self.updates.before(optimizer, which)
        self._paused += 1  # an optimizer's own arithmetic is judged by what it changes

    def pause(self) -> None:
        """What follows is an optimizer's own."""
        self._paused += 1

    def resume(self) -> None:
        """What follows is the program's again."""
        self._paused -= 1

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Parameters and state, as the optimizer leaves them; and its configuration."""
        self._paused -= 1
        with self.quiet():
            self.updates.after(optimizer)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def finish(self) -> Step:
        """The step as data. Nothing is held on to but the tensors themselves, which `numbers` has."""
        return Step(
            self.index,
            f"torch {torch.__version__}",
            self.values.found,
            self.calls,
            self.backwards,
            self.updates.found,
            self.values.unseen,
            self.regions,
            self.saved.found,
            self.handling.moments,
            self.scheduled,
            self.facts,
        )

    @property
    def numbers(self) -> dict[str, torch.Tensor]:
        """Every tensor to be written."""
        return self.values.numbers


def _plainly(item: Any) -> Any:
    return item["plain"] if isinstance(item, dict) and set(item) == {"plain"} else item
