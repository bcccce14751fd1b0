"""What becomes of gradients between the backward pass and the step: each change found where it happens, and named.

A gradient is looked at when something may have changed it: before and after a backward pass, after every call that writes where it
lies, and when an optimizer comes for it. A copy is kept of each that is another than before, so that nothing unseen can change what
was recorded. Functions that are known by name (`clip_grad_norm_` and its like) are found on the stack, with the numbers they were given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol
from weakref import ReferenceType, ref

import torch

from backproof.adapters.torch.encode import in_full, is_written, numbers_of, tensors_in
from backproof.adapters.torch.hands import DEPTH, HANDS, Hand, line, operation, scaler_scale, world
from backproof.adapters.torch.values import Values, storage_of
from backproof.trace.handling import Moment
from backproof.trace.step import Call

UNSCALE, NEXT_SCALE = "_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"
ALL_REDUCE = "all_reduce"
Key = tuple[int, int, int]


class Recording(Protocol):
    """What of the observer is needed here."""

    values: Values
    calls: list[Call]


@dataclass
class _Open:
    """A known function at work."""

    name: str
    hand: Hand
    frame: FrameType
    by: str
    after: int
    over: tuple[str, ...] = field(default=())


class Handling:
    """The moments of a step's gradients, while they happen."""

    def __init__(self, observer: Recording, parameters: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.observer = observer
        self.parameters = list(parameters)
        self.moments: list[Moment] = []
        self.reducing: Callable[[], str] = str
        """How the backward pass that has run was reduced over ranks, if it was."""
        self.missed: Callable[[], int | None] = lambda: None
        """The number of a backward pass that has run unseen since this was asked."""
        self._names = {id(parameter): name for name, parameter in self.parameters}
        self._known: dict[str, tuple[Key, int]] = {}
        self._memory: dict[int, list[str]] = {}
        self._pending: dict[str, tuple[bool, int, ReferenceType[torch.Tensor]]] = {}
        """Gradients from before the step that nobody has looked at: whether an update followed them, and which they are."""
        self._dirty: set[str] = set()
        self._replaced: set[str] = set()
        """Of the last look: gradients that are other tensors than before."""
        self._open: _Open | None = None
        self._reducing: dict[str, list[str]] = {}
        """Reductions that may still go on: operation → parameters."""

    def also(self, name: str, parameter: torch.Tensor) -> None:
        """One more parameter, which the model does not have."""
        self.parameters.append((name, parameter))
        self._names[id(parameter)] = name

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def look(self, *, closely: bool = False) -> dict[str, int | None]:
        """The gradients that are others than when they were last looked at; `closely` compares their bytes as well."""
        changed: dict[str, int | None] = {}
        self._replaced.clear()
        with torch._C.DisableTorchFunction(), torch.no_grad():  # noqa: SLF001 # the only way not to be seen looking
            for name, parameter in self.parameters:
                gradient, known = parameter.grad, self._known.get(name)
                if gradient is None:
                    if known is not None:
                        del self._known[name]
                        changed[name] = None
                    continue
                if not is_written(gradient):
                    continue
                key = self.observer.values.epoch(gradient)
                if known is not None and known[0] == key and name not in self._dirty and not closely:
                    continue
                if known is not None and self._same(gradient, known[1]):
                    self._known[name] = key, known[1]
                    continue
                if known is None or known[0][0] != key[0]:
                    self._replaced.add(name)
                changed[name] = self._take(name, key, gradient, fresh=known is not None and known[0] == key)
        self._dirty.clear()
        return changed

    def _same(self, gradient: torch.Tensor, number: int) -> bool:
        kept, now = self.observer.values.numbers.get(f"v{number}"), numbers_of(in_full(gradient))
        if kept is None or kept.dtype != now.dtype or kept.shape != now.shape:
            return False
        return torch.equal(kept, now) or bool((kept.eq(now) | (kept.isnan() & now.isnan())).all())

    def _take(self, name: str, key: Key, gradient: torch.Tensor, *, fresh: bool) -> int:
        """A copy of a gradient, as the value that it is now; what is kept sparse is written out."""
        number = self.observer.values.secure(in_full(gradient), fresh=fresh)
        if gradient.layout is torch.sparse_coo:
            self._entries(number, gradient)
        self._memory.setdefault(storage_of(gradient), []).append(name)
        key = self.observer.values.epoch(gradient)
        self._known[name] = key, number
        return number

    def _entries(self, number: int, gradient: torch.Tensor) -> None:
        """Of a sparse gradient: where its entries are, one place maybe more than once, and the sum of their sizes."""
        indices, values = gradient._indices(), gradient._values()  # noqa: SLF001 # as they are: asking otherwise would add them up
        sizes = torch.sparse_coo_tensor(indices, values.abs(), gradient.shape, check_invariants=False)
        self.observer.values.numbers |= {f"i{number}": indices.clone(), f"a{number}": in_full(sizes)}

    def value_of(self, name: str) -> int | None:
        """The value that a parameter's gradient was when it was last looked at."""
        known = self._known.get(name)
        return None if known is None else known[1]

    # ── moments ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, kind: str, by: str, grads: Mapping[str, int | None], **more: Any) -> None:
        """One more moment."""
        over = more.pop("over", ())
        after = more.pop("after", len(self.observer.calls))
        self.moments.append(Moment(kind, by, after, dict(grads), more, tuple(over)))

    def start(self, used: Mapping[str, tuple[ReferenceType[torch.Tensor], int]]) -> None:
        """The step begins. `used` has the gradients that updates have followed.

        What there is already is looked at when something needs it: mostly it is cleared first, and then nobody does.
        """
        with torch._C.DisableTorchFunction():  # noqa: SLF001 # as in `look`
            for name, parameter in self.parameters:
                if parameter.grad is not None:
                    stale = name in used and _still_there(parameter.grad, *used[name])
                    version: int = parameter.grad._version  # noqa: SLF001 # how often it was changed
                    self._pending[name] = stale, version, ref(parameter.grad)
                    self._memory.setdefault(storage_of(parameter.grad), []).append(name)

    def _begin(self) -> None:
        """Look at what there was when the step began; what is gone by now was cleared."""
        pending, self._pending = self._pending, {}
        found, grads = self.look(), {name: parameter.grad for name, parameter in self.parameters}
        there = {name: value for name, value in found.items() if name in pending and pending[name][2]() is grads[name]}
        if there:
            stale = [name for name in there if pending[name][:2] == (True, self._known[name][0][1])]
            self.add("start", "", there, used=stale)
        gone = {name: None for name in pending if name not in there}
        if gone:
            self.add("clear", "", gone)
        fresh = {name: value for name, value in found.items() if name not in there}
        if fresh:
            self.add("assign", "", fresh)

    def settle(self, *, closely: bool = False) -> None:
        """End what was at work, and find what changed since then by nothing that was seen."""
        if self._pending:
            self._begin()
        missed = self.missed()
        if missed is not None:
            self.add("backward", "", self.look(), passing=missed, reduced="")
        if self._reducing:
            self._reduced()
        if self._open is not None:
            at_work, self._open = self._open, None
            names = at_work.frame.f_locals
            given = at_work.hand.given(names)
            self.add(at_work.hand.kind, at_work.by, self.look(), over=at_work.over, after=at_work.after, **given)
        found = self.look(closely=closely)
        cleared = {name: number for name, number in found.items() if number is None}
        rest = {name: number for name, number in found.items() if number is not None}
        if cleared:
            self.add("clear", "", cleared)
        replaced = {name: number for name, number in rest.items() if name in self._replaced}
        if replaced:
            self.add("assign", "", replaced)
        unseen = {name: number for name, number in rest.items() if name not in replaced}
        if unseen:
            self.add("unseen", "", unseen)

    # ── what the program does ───────────────────────────────────────────────────────────────────────────────────────

    def takes(self, func: Callable[..., Any], name: str | None, args: tuple[Any, ...]) -> bool:
        """Whether a call belongs to what is known to be done with gradients, and is no call of the step itself."""
        short = getattr(func, "__name__", "")
        if short in (UNSCALE, NEXT_SCALE, ALL_REDUCE):
            return True
        if not self._known and not self._pending and self._open is None:
            return False
        writes = _writes(name or short) and any(self._lies(tensor) for tensor in tensors_in(args[:1]))
        if not writes and torch.is_grad_enabled():
            return False
        found = self._within()
        if found is None:
            if writes:
                self.settle()
            return False
        if writes:
            for tensor in tensors_in(args[:1]):
                self._dirty.update(self._lies(tensor))
                self.observer.values.keep(
                    tensor
                )  # what else lies there, such as the gradient of a view of the parameter
        return True

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what `takes` has taken."""
        short = getattr(func, "__name__", "")
        if short == UNSCALE:
            return self._unscale(func, args, kwargs)
        if short == NEXT_SCALE:
            return self._next_scale(func, args, kwargs)
        if short == ALL_REDUCE:
            return self._all_reduce(func, args, kwargs)
        return func(*args, **kwargs)

    def edited(self, name: str, args: tuple[Any, ...], first: int) -> None:
        """A call of the step has ended; if it wrote where a gradient lies, that is a moment."""
        if not (self._known or self._pending) or not _writes(name):
            return
        names = {found for tensor in tensors_in(args[:1]) for found in self._lies(tensor)}
        if names:
            self._dirty |= names
            op = name.rpartition(".")[2]
            self.add("edit", f"{op} at {line()}", self.look(), op=op, calls=[first, len(self.observer.calls)])

    @contextmanager
    def backward(self, passing: int) -> Iterator[None]:
        """A backward pass, by its number."""
        self.settle()
        yield
        hooked = [name for name, each in self.parameters if getattr(each, "_post_accumulate_grad_hooks", None)]
        self.add("backward", "", self.look(), passing=passing, reduced=self.reducing(), hooked=hooked)

    def _within(self) -> _Open | None:
        """The known function that is at work, found on the stack."""
        frame: FrameType | None = sys._getframe(3)  # noqa: SLF001 # the stack is where the numbers are that it was given
        for _ in range(DEPTH):
            if frame is None:
                break
            if self._open is not None and frame is self._open.frame:
                return self._open
            hand = HANDS.get(frame.f_code.co_name)
            if hand is not None and all(need in frame.f_locals for need in hand.needs):
                if self._open is not None or hand.kind != "clear" or not self._pending:
                    self.settle()
                by = f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name} at {line()}"
                over = self._about(frame.f_locals.get("parameters"))
                self._open = _Open(frame.f_code.co_name, hand, frame, by, len(self.observer.calls), over)
                return self._open
            frame = frame.f_back
        if self._open is not None:
            self.settle()
        return None

    def _about(self, parameters: Any) -> tuple[str, ...]:
        given = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        if not isinstance(given, (list, tuple)):
            return ()
        return tuple(self._names[id(each)] for each in given if id(each) in self._names)

    def _lies(self, tensor: torch.Tensor) -> list[str]:
        """The parameters whose gradients lie in this tensor's memory."""
        lie = self._memory.get(storage_of(tensor), ())
        return [name for name in lie if name in self._pending or self.value_of(name) is not None]

    # ── loss scales ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _unscale(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        grads, found_inf, inverse = args
        with torch._C.DisableTorchFunction():  # noqa: SLF001 # as in `look`
            self.settle()
            ids = {id(each) for each in grads}
            over = [name for name, parameter in self.parameters if id(parameter.grad) in ids]
            given = {"scale": scaler_scale(), "inverse": float(inverse)}
            for gradient in grads:
                self.observer.values.keep(gradient)
        result = self._writing(func, args, kwargs, (found_inf,))
        self._dirty.update(over)  # it does not count as a change in place
        with torch._C.DisableTorchFunction():  # noqa: SLF001 # as in `look`
            given["found_inf"] = float(found_inf)
        self.add("unscale", f"{UNSCALE} at {line()}", self.look(), over=over, **given)
        return result

    def _next_scale(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        scale, tracker, found_inf, growth, backoff, interval = args
        with torch._C.DisableTorchFunction():  # noqa: SLF001 # as in `look`
            self.settle()
            given = {"scale": float(scale), "tracker": int(tracker), "found_inf": float(found_inf)}
        result = self._writing(func, args, kwargs, (scale, tracker))
        with torch._C.DisableTorchFunction():  # noqa: SLF001 # as in `look`
            after = {"new_scale": float(scale), "new_tracker": int(tracker)}
        self.add("loss_scale", "", {}, **given, **after, growth=growth, backoff=backoff, interval=interval)
        return result

    # ── ranks ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _all_reduce(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A reduction by the program itself. One that goes on in the background has ended when something else is done."""
        tensor: torch.Tensor = args[0]
        op, later = kwargs.get("op", args[1] if len(args) > 1 else None), bool(kwargs.get("async_op"))
        if not self._reducing:
            self.settle()
        names = self._lies(tensor)
        if not names:
            result = self._writing(func, args, kwargs, (tensor,))
            self.observer.values.unseen.append(
                {"value": self.observer.values.number(tensor), "by": ALL_REDUCE, "reads": []}
            )
            return result
        self.observer.values.keep(tensor)
        result = func(*args, **kwargs)
        self._reducing[operation(op)] = [*self._reducing.get(operation(op), ()), *names]
        if not later:
            self._reduced()
        return result

    def _reduced(self) -> None:
        reducing, self._reducing = self._reducing, {}
        for op, names in reducing.items():
            self._dirty.update(names)
            self.add("reduce", f"{ALL_REDUCE} at {line()}", self.look(), over=names, op=op, world=world())

    def _writing(self, func: Callable[..., Any], args: Any, kwargs: Any, written: tuple[torch.Tensor, ...]) -> Any:
        """A call that writes into these tensors, whose numbers before are kept; afterwards they come from nowhere."""
        for tensor in written:
            self.observer.values.keep(tensor)
        result = func(*args, **kwargs)
        for tensor in written:
            self.observer.values.made(tensor, "source")
        return result


def _still_there(gradient: torch.Tensor, followed: ReferenceType[torch.Tensor], version: int) -> bool:
    """Whether a gradient that an update has followed was not cleared since; something may have been added to it."""
    if followed() is not gradient:
        return False
    changed = gradient._version != version  # noqa: SLF001 # as above
    return not changed or gradient.layout is not torch.strided or bool(gradient.any())


def _writes(name: str) -> bool:
    """Whether a function of this name changes its first argument."""
    short = name.rpartition(".")[2]
    if short.startswith("__"):
        return short.startswith("__i") and short not in ("__invert__", "__index__", "__int__", "__iter__")
    return (short.endswith("_") and not short.endswith("__")) or short == "__setitem__"
