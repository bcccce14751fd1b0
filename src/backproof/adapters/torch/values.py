"""Tensors as values: a number for each tensor as it is at one moment, and what ties one moment to the next.

Tensors are not copied: a reference stands for a value until its memory is about to change. A tensor may change without being named,
because it shares memory with another; what it is afterwards is then said by a call that nobody made (`written_through`,
`seen_through`), in the way in which the framework itself differentiates it: a view is read from its base, and to write into a view is
to write into its base.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from backproof.adapters.torch.encode import PAIRS, dtype_name, form_of, is_abstract, is_written, maker_of, numbers_of
from backproof.trace.step import Value


@dataclass(slots=True)
class _Seen:
    """A tensor, when it was last looked at."""

    number: int
    version: int
    epoch: int
    maker: Any
    wants: bool
    """Whether it wanted a gradient."""


@dataclass(slots=True)
class _Memory:
    """What lies in one piece of memory: the keys that are not copied yet, and what was written since."""

    keys: list[str] = field(default_factory=list)
    epoch: int = 0
    writes: list[tuple[int, int, torch.Tensor]] = field(default_factory=list)
    """(when, the value that was written, the tensor through which)."""


class Values:
    """Every value of a step, and every tensor that has been seen."""

    def __init__(self, model: torch.nn.Module, tie: Callable[[str, list[Any], int], None]) -> None:
        self.names = {id(t): name for name, t in (*model.named_parameters(), *model.named_buffers())}
        self.parameters = {id(t) for t in model.parameters()}
        self.found: dict[int, Value] = {}
        self.numbers: dict[str, torch.Tensor] = {}
        self.unseen: list[dict[str, Any]] = []
        self.paired: set[int] = set()
        """The values that are complex numbers."""
        self.follow: Callable[..., None] = lambda tensor, number, *, made: None
        """Asks to be shown the gradient of a new value; says whether a recorded call has made it."""
        self.note: Callable[[int, torch.Tensor], None] = lambda number, tensor: None
        """Is told of every value whose numbers are held."""
        self.inside = False
        """Whether values are made where no gradient can be seen."""
        self._renewed_as: dict[int, tuple[int, int, int]] = {}
        """Tensors that an optimizer has changed since they were last looked at, and as which it left them."""
        self._tie = tie
        self._began = _nodes_so_far()
        self._seen: dict[int, _Seen] = {}
        self._alive: list[torch.Tensor] = []
        self._memories: dict[int, _Memory] = {}

    # ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor as it is now."""
        seen = self._seen.get(id(tensor))
        if seen is None:
            return self._first(tensor)
        if not self._is(tensor, seen):
            return self._changed(tensor, seen)
        maker = maker_of(tensor)
        if maker is not seen.maker:  # it got its place in the backward pass after it was computed
            seen.maker = maker
            self.follow(tensor, seen.number, made=False)
        elif tensor.requires_grad and not seen.wants:  # it was asked for a gradient after it was computed
            seen.wants = True
            self.follow(tensor, seen.number, made=False)
        return seen.number

    def known(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor has been seen before."""
        return id(tensor) in self._seen

    def made(self, tensor: torch.Tensor, origin: str = "call") -> int:
        """A number for what a call has just made."""
        number = self._new(tensor, origin)
        self._take(tensor, number)
        self.follow(tensor, number, made=True)
        return number

    def stand(self, abstract: torch.Tensor, number: int) -> None:
        """An abstract tensor that stands for a value."""
        self._take(abstract, number)

    def lost(self, tensor: torch.Tensor) -> None:
        """A tensor that something out of sight may have changed."""
        seen = self._seen[id(tensor)]
        if not self._is(tensor, seen):
            self._unexplained(tensor, seen, "a region whose inside is not known")

    def renew(self, parameters: Iterable[torch.Tensor]) -> None:
        """An optimizer has changed these."""
        self._renewed_as.update({id(parameter): self.epoch(parameter) for parameter in parameters})

    def leave(self) -> None:
        """The step ends: parameters that were changed otherwise than by an optimizer are seen as they are left."""
        for tensor in list(self._alive):
            if id(tensor) in self.parameters:
                renewed = self._renewed_as.get(id(tensor))
                if renewed is None or renewed != self.epoch(tensor):
                    self.number(tensor)

    def alive(self) -> list[torch.Tensor]:
        """Every tensor that was seen, as long as the step lasts."""
        return self._alive

    def adopt(self, tensor: torch.Tensor, number: int) -> None:
        """A tensor that is a value already."""
        self._take(tensor, number)
        self.follow(tensor, number, made=True)

    def surfaced(self, tensor: torch.Tensor) -> int:
        """The number of what was made inside of a region, and now is its result: its gradient can be seen."""
        seen = self._seen[id(tensor)]
        seen.maker, seen.wants = maker_of(tensor), tensor.requires_grad
        number = self.number(tensor)
        if tensor.requires_grad:
            self.change(number, inner=False)
            self.follow(tensor, number, made=True)
        return number

    def hidden(
        self, tensor: torch.Tensor, origin: str = "call", *, stored: bool = True, dtype: torch.dtype | None = None
    ) -> int:
        """A number for what no tensor of the user's stands for; its gradient is derived, and its numbers too if they are not stored."""
        number = self._new(tensor, origin, stored=stored)
        if dtype is not None:
            self.change(number, dtype=dtype_name(dtype), name="")
        if tensor.is_floating_point() and (tensor.requires_grad or self.inside):
            self.change(number, inner=True)
        return number

    def secure(self, tensor: torch.Tensor, *, fresh: bool = False) -> int:
        """The number of a parameter's gradient, with a copy of its own: nothing unseen can change what is kept.

        What changes it without a call is told by moments; `fresh` says that it has changed, though nothing shows it.
        """
        memory, seen = self._memory(tensor), self._seen.get(id(tensor))
        if (
            not fresh
            and seen is not None
            and (self._is(tensor, seen) or any(when > seen.epoch for when, _, _ in memory.writes))
        ):
            number = self.number(tensor)
        else:
            number = self._new(tensor, "gradient")
            self._take(tensor, number)
        held = numbers_of(tensor)
        copy = held.clone()
        for key in memory.keys:
            if key in self.numbers and _one_place(self.numbers[key], held):
                self.numbers[key] = copy
        memory.keys[:] = [key for key in memory.keys if self.numbers.get(key) is not copy]
        return number

    def epoch(self, tensor: torch.Tensor) -> tuple[int, int, int]:
        """Which tensor it is, and how often it has changed: with another of these it may be another value."""
        return id(tensor), _version(tensor), self._memory(tensor).epoch

    def change(self, number: int, **fields: Any) -> None:
        """Say more of a value."""
        self.found[number] = replace(self.found[number], **fields)

    def _new(self, tensor: torch.Tensor, origin: str, *, stored: bool = True) -> int:
        number = len(self.found)
        abstract = is_abstract(tensor)
        inner = (self.inside or abstract) and origin == "call" and tensor.is_floating_point()
        name = self.names.get(id(tensor), "")
        self.found[number] = Value(number, *form_of(tensor), name, origin, inner)
        if tensor.dtype in PAIRS:
            self.paired.add(number)
        if stored and is_written(tensor):
            self.hold(f"v{number}", tensor)
            self.note(number, self.numbers[f"v{number}"])
        return number

    def hold(self, key: str, tensor: torch.Tensor) -> None:
        """Hold on to a tensor's numbers, without a copy as long as they do not change."""
        if is_written(tensor):
            self.numbers[key] = numbers_of(tensor)
            self._memory(tensor).keys.append(key)

    def _take(self, tensor: torch.Tensor, number: int) -> None:
        if id(tensor) not in self._seen:
            self._alive.append(tensor)  # an id is only ever one tensor's while that lives
        self._seen[id(tensor)] = _Seen(
            number, _version(tensor), self._memory(tensor).epoch, maker_of(tensor), tensor.requires_grad
        )

    def _was_there(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor that can be differentiated was made before the step."""
        node: Any = maker_of(tensor)
        return bool(node._sequence_nr() < self._began)  # noqa: SLF001 # how many there were before it

    def _first(self, tensor: torch.Tensor) -> int:
        """A tensor that no call has made: it was there before the step, or something unseen made it."""
        base = tensor._base if tensor._is_view() else None  # noqa: SLF001 # the framework's own word for what a view looks at
        if base is not None and self.known(base) and _same_kind(base, tensor):
            number = self._tied("seen_through", [self.number(base), lay(base), lay(tensor)], tensor)
            self._take(tensor, number)
            return number
        known = id(tensor) in self.names
        kind = "buffer" if known and id(tensor) not in self.parameters else "parameter" if known else "input"
        number = self._new(tensor, kind if maker_of(tensor) is None or self._was_there(tensor) else "unseen")
        self._take(tensor, number)
        self.follow(tensor, number, made=False)
        return number

    # ── changes ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def keep(self, tensor: torch.Tensor) -> None:
        """Copy what is about to be changed in place: every value that lies in the same memory."""
        memory = self._memory(tensor)
        for key in memory.keys:
            if key in self.numbers:
                self.numbers[key] = self.numbers[key].clone()
        memory.keys.clear()

    def written(self, tensor: torch.Tensor, base: tuple[torch.Tensor, int] | None) -> int:
        """The value that a call has just written into a tensor, and what its base is then."""
        memory = self._memory(tensor)
        memory.epoch += 1
        if base is None:
            before = self._seen.get(id(tensor))
            number = self._new(tensor, "call")
            self._take(tensor, number)
            if before is not None and before.maker is maker_of(tensor) and tensor.requires_grad:
                self._share(number, before.number)
            else:
                self.follow(tensor, number, made=True)
        else:
            number = self.hidden(tensor)
            whole, old = base
            after = self._tied("written_through", [old, number, lay(whole), lay(tensor)], whole)
            self._take(whole, after)
        memory.writes.append((memory.epoch, number, tensor))
        return number

    def replaced(self, tensor: torch.Tensor, *, elsewhere: bool = False) -> int:
        """The value of a tensor whose numbers a call has just changed, though the framework does not count that as a change.

        `elsewhere`: what lies in its memory was not written, it is another memory now.
        """
        self._memory(tensor).epoch += not elsewhere
        number = self._new(tensor, "call")
        before = self._seen.get(id(tensor))
        if before is not None and tensor.requires_grad:
            self._share(number, before.number)
        self._take(tensor, number)
        return number

    def _changed(self, tensor: torch.Tensor, seen: _Seen) -> int:
        if id(tensor) in self._renewed_as:
            return self._renewed(tensor, seen)
        base = tensor._base if tensor._is_view() else None  # noqa: SLF001
        memory = self._memory(tensor)
        if base is not None and _same_kind(base, tensor) and _one_memory(base, tensor):
            number = self._tied("seen_through", [self.number(base), lay(base), lay(tensor)], tensor)
            self._take(tensor, number)
            return number
        number = seen.number
        writes = [(by, at) for when, by, at in memory.writes if when > seen.epoch]
        for by, through in writes:
            if not _same_kind(through, tensor):
                return self._unexplained(tensor, seen, "a write of another format into its memory")
            old, number = number, self._new(tensor, "call")
            if tensor.requires_grad:
                self._share(number, old)
            self._tie("written_through", [old, by, lay(tensor), lay(through)], number)
        if not writes:
            return self._unexplained(tensor, seen, "a change in place that no call shows")
        self._take(tensor, number)
        return number

    def _is(self, tensor: torch.Tensor, seen: _Seen) -> bool:
        """Whether a tensor is still what it was when it was last looked at."""
        return seen.version == _version(tensor) and seen.epoch == self._memory(tensor).epoch

    def _renewed(self, tensor: torch.Tensor, seen: _Seen) -> int:
        """A parameter after its update: a leaf as before, and the very one for the framework."""
        del self._renewed_as[id(tensor)]
        number = self._new(tensor, "parameter")
        if tensor.requires_grad:
            self._share(number, seen.number)
        self._take(tensor, number)
        return number

    def _unexplained(self, tensor: torch.Tensor, seen: _Seen, by: str) -> int:
        before = self.found[seen.number]
        if before.origin == "source" and before.shape != tuple(
            tensor.shape
        ):  # made of nothing, it was then given memory
            number = self._new(tensor, "source")
            self._take(tensor, number)
            return number
        number = self._new(tensor, "unseen")
        self.unseen.append({"value": number, "by": by, "reads": []})
        if tensor.requires_grad and maker_of(tensor) is seen.maker:
            self._share(number, seen.number)
        self._take(tensor, number)
        return number

    def _tied(self, op: str, args: list[Any], tensor: torch.Tensor) -> int:
        """A new value of a tensor that follows from others by how they lie in memory."""
        number, seen = self._new(tensor, "call"), self._seen.get(id(tensor))
        self._tie(op, args, number)
        if seen is not None and seen.maker is maker_of(tensor) and tensor.requires_grad:
            self._share(number, seen.number)
        else:
            self.follow(tensor, number, made=True)
        return number

    def looked_through(self, base: torch.Tensor, whole: int, view: torch.Tensor) -> int:
        """A view's value as read from its base here and now; its numbers follow from the base's."""
        number = self.hidden(view, stored=False)
        self._tie("seen_through", [whole, lay(base), lay(view)], number)
        return number

    def _share(self, number: int, old: int) -> None:
        """Autograd was not told of a change: one gradient is that of both."""
        first = self.found[old].shares
        self.change(number, shares=old if first is None else first, inner=False)

    def _memory(self, tensor: torch.Tensor) -> _Memory:
        place = storage_of(tensor)
        found = self._memories.get(place)
        if found is None:
            found = self._memories[place] = _Memory()
        return found


def _nodes_so_far() -> int:
    """How many nodes of backward passes were made, in this thread, until now."""
    with torch.enable_grad():
        node: Any = torch.ones((), requires_grad=True).exp().grad_fn
    return int(node._sequence_nr())  # noqa: SLF001 # there is no other way to ask


def storage_of(tensor: torch.Tensor) -> int:
    """Where a tensor's memory begins."""
    if is_abstract(tensor):
        return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 # it has no place, but what shares it can be told
    try:
        return tensor.untyped_storage().data_ptr() or id(tensor)
    except (RuntimeError, NotImplementedError):  # sparse and abstract tensors have no memory of their own
        return id(tensor)


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # noqa: SLF001 # how often it was changed; there is no other way to ask


def _same_kind(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.dtype not in PAIRS  # how pairs lie is not told


def _one_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return storage_of(a) == storage_of(b)


def _one_place(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())


def lay(tensor: torch.Tensor) -> dict[str, Any]:
    """How a tensor lies in its memory, in elements."""
    return {"lies": {"shape": list(tensor.shape), "strides": list(tensor.stride()), "offset": tensor.storage_offset()}}
