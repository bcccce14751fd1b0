"""Gradients, as they arrive: of every value, in every backward pass, and what each function of the user's own gave back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from backproof.adapters.torch.encode import is_abstract, maker_of
from backproof.adapters.torch.values import Values
from backproof.trace.step import contribution_key, gradient_key, handed_key


class Gradients:
    """What the backward passes of a step show."""

    def __init__(self, values: Values, quiet: Callable[[], Any]) -> None:
        self.values = values
        self.quiet = quiet
        self.passing = 0
        """The number of the backward pass that runs, or comes next."""
        self.makers: dict[tuple[Any, int], int] = {}
        """What stands in the backward pass for a value: (node, which of its outputs) → number."""
        self.used: Callable[[int], None] = lambda number: None
        """Is told that the backward pass has reached what made a value."""
        self.copies = False
        """Whether something rewrites the gradients of parameters during a backward pass, unseen: they are then copied as they arrive."""
        self._earlier: dict[int, dict[str, Any]] = {}
        """Values that were made before the step, by what can be differentiated, and what made them."""
        self._rewritten: set[int] = set()
        """Parameters with hooks that see `.grad` once it is there, and may change it."""
        self._handles: list[Any] = []
        self._waiting: list[tuple[Any, Callable[..., None]]] = []
        """Nodes to be watched from the next pass on."""
        self._listening = False
        self._missed = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A backward pass whose roots and seeds are known: what comes back in here is the gradient of a value."""
        while self._waiting:
            node, given = self._waiting.pop()
            self._handles.append(node.register_hook(given))
        self._listening = True
        try:
            yield
        finally:
            self._listening = False
            self.passing += 1

    def missed(self) -> int | None:
        """The number of a pass that has run since this was asked, and that nobody was told of."""
        missed, self._missed = self._missed, False
        self.passing += missed
        return self.passing - 1 if missed else None

    def follow(self, tensor: torch.Tensor, number: int, *, made: bool) -> None:
        """Ask to be shown the gradient, and remember what in the backward pass stands for this value."""
        if not tensor.requires_grad or is_abstract(tensor) or tensor.is_inference():
            return
        try:
            maker = tensor.grad_fn
        except RuntimeError:  # a view that was made without gradients, of what was written to since
            return
        if maker is not None:
            if not made and self.values.found[number].origin == "input":
                self._earlier[number] = self._stranger(tensor, number)
            elif not made:
                self.values.unseen.append(self._stranger(tensor, number))
            self.makers[maker, tensor.output_nr] = number
        if torch.is_inference_mode_enabled():  # it is a parameter that is only read here, and may be trained later
            with torch.inference_mode(False):
                self._hook(tensor, number)
        else:
            self._hook(tensor, number)

    def _hook(self, tensor: torch.Tensor, number: int) -> None:
        hooks: Any = getattr(tensor, "_backward_hooks", None)
        others = isinstance(hooks, OrderedDict) and bool(hooks)
        if getattr(tensor, "_post_accumulate_grad_hooks", None):
            self._rewritten.add(number)
        handle = tensor.register_hook(partial(self._arrived, number))  # type: ignore[no-untyped-call] # torch says no more
        self._handles.append(handle)
        if others:  # the user's hooks were there before: see it before they do, and after
            earlier = [(key, hooks.pop(key)) for key in list(hooks) if key != handle.id]
            hooks.update(earlier)
            self.handed(tensor, number)

    def handed(self, tensor: torch.Tensor, number: int) -> None:
        """The user has a hook on this tensor: see also what it hands on."""
        self._handles.append(tensor.register_hook(partial(self._handed, number)))  # type: ignore[no-untyped-call]

    def _arrived(self, number: int, gradient: torch.Tensor | None) -> None:
        if gradient is None or not self._hears():
            return
        if number in self._earlier:  # the pass goes on to where nothing was recorded
            self.values.unseen.append(self._earlier.pop(number))
        self.used(number)
        copied = number in self._rewritten or (self.copies and self.values.found[number].origin == "parameter")
        self._add(gradient_key(number, self.passing), gradient.clone() if copied else gradient)

    def _handed(self, number: int, gradient: torch.Tensor | None) -> None:
        if gradient is not None and self._hears():
            self._add(handed_key(number, self.passing), gradient)

    def _hears(self) -> bool:
        self._missed = self._missed or not self._listening
        return self._listening

    def _add(self, key: str, gradient: torch.Tensor) -> None:
        with self.quiet(), torch.no_grad():
            if key in self.values.numbers:
                self.values.numbers[key] = self.values.numbers[key] + gradient
            else:
                self.values.hold(key, gradient)

    def watch(self, node: Any, region: int, inputs: Sequence[int | None]) -> None:
        """See what a node of the backward pass gives to each of its inputs, once all hooks of others have seen it."""

        def given(found: Sequence[torch.Tensor | None], _: Any) -> None:
            for number, gradient in zip(inputs, found, strict=False):
                if number is not None and gradient is not None and self._hears():
                    self._add(contribution_key(region, number, self.passing), gradient)

        self._waiting.append((node, given))

    def inputs_of(self, node: Any) -> list[int | None] | None:
        """The values whose gradients a node makes; None if one of them is not known."""
        found: list[int | None] = []
        for after, place in node.next_functions:
            number = self._number_at(after, place)
            if after is not None and number is None:
                return None
            found.append(number)
        return found

    def _number_at(self, node: Any, place: int) -> int | None:
        if node is None:
            return None
        variable = getattr(node, "variable", None)
        return self.values.number(variable) if variable is not None else self.makers.get((node, place))

    def _stranger(self, tensor: torch.Tensor, number: int) -> dict[str, Any]:
        """A tensor that no recorded call has made: what made it read other values, whose gradients then have a part unknown."""
        reads: set[int] = set()
        todo = [(maker_of(tensor), tensor.output_nr)]
        seen = set(todo)
        while todo:
            node, place = todo.pop()
            known = self._number_at(node, place)
            if known is not None:
                reads.add(known)
            elif node is not None:
                fresh = [entry for entry in node.next_functions if entry[0] is not None and entry not in seen]
                seen.update(fresh)
                todo.extend(fresh)
        return {"value": number, "by": type(maker_of(tensor)).__name__, "reads": sorted(reads)}

    def settle(self) -> None:
        """Before a backward pass adds to gradients where they lie: what earlier passes left there is copied."""
        for handle in self.values.alive():
            if handle.requires_grad and maker_of(handle) is None and handle.grad is not None:
                self.values.keep(handle.grad)

    def close(self) -> None:
        """Leave no hook behind, and forget what a hook of the user's left as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._waiting.clear()
        self.makers.clear()
        for key in [key for key in self.values.numbers if key[0] == "h"]:
            before = self.values.numbers["g" + key[1:].removesuffix(".0")]
            if torch.equal(before, self.values.numbers[key]):
                del self.values.numbers[key]
