"""One step, observed: every call with its tensors, every gradient, every update. Nothing that is computed is changed.

A `TorchFunctionMode` sees each call of PyTorch's functions before it happens; a hook on each output sees its gradient. Tensors are
not copied: a reference and a version number stand for a value, and only what is about to be changed in place is copied first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from backproof.adapters.torch.encode import dtype_name, encode, tensors_in
from backproof.lowering import LOWERINGS, canonical
from backproof.trace.step import Backward, Call, Step, Update, Value

VIEWS_BY_GETTER = {"T", "mT", "H", "mH", "real"}
BACKWARD = {"torch.Tensor.backward", "torch.autograd.backward"}
# Calls that make tensors from nothing, or only look at one: their results are sources, and say nothing of mathematics.
SOURCES = set(
    "tensor as_tensor arange zeros ones full empty zeros_like ones_like full_like empty_like rand randn randint rand_like randn_like "
    "randperm eye linspace tril triu new_zeros new_ones new_full new_empty new_tensor bernoulli multinomial normal from_numpy".split()
)


class Observer(TorchFunctionMode):
    """Everything of one step, while it happens."""

    def __init__(self, model: torch.nn.Module, index: int) -> None:
        super().__init__()
        self.index = index
        self.names = {id(t): name for name, t in (*model.named_parameters(), *model.named_buffers())}
        self.values: dict[int, Value] = {}
        self.calls: list[Call] = []
        self.backwards: list[Backward] = []
        self.updates: list[Update] = []
        self.unseen: list[dict[str, Any]] = []
        self.numbers: dict[str, torch.Tensor] = {}
        self.place: list[str] = []
        self._ids: dict[tuple[int, int], int] = {}
        self._alive: list[torch.Tensor] = []
        self._shares: dict[int, list[int]] = {}
        """Values that are not copied yet, by the memory that they lie in."""
        self._hooked: list[Any] = []
        self._paused = 0
        self._makers: dict[Any, int] = {}
        self._entered: list[Callable[..., Any]] = []

    # ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def value(self, tensor: torch.Tensor, *, made: bool = False) -> int:
        """The number of a tensor as it is now. `made` says that a recorded call has just made it."""
        key = id(tensor), tensor._version  # noqa: SLF001 # how often it was changed in place; there is no other way to ask
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self.values)
            name = self.names.get(id(tensor), "")
            self.values[number] = Value(number, dtype_name(tensor.dtype), tuple(tensor.shape), name)
            self._alive.append(tensor)  # an id is only ever one tensor's while that lives
            self.numbers[f"v{number}"] = tensor.detach()
            self._shares.setdefault(_storage(tensor), []).append(number)
            self._follow(tensor, number, made=made)
        elif tensor.grad_fn is not None and tensor.grad_fn not in self._makers:
            self._follow(tensor, number, made=False)  # it got its place in the backward pass after it was computed
        return number

    def _follow(self, tensor: torch.Tensor, number: int, *, made: bool) -> None:
        """Ask to be shown the gradient, and remember what in the backward pass stands for this value."""
        if not tensor.requires_grad or self._inference():
            return
        if tensor.grad_fn is not None:
            if not made:
                self._stranger(tensor, number)
            self._makers[tensor.grad_fn] = number
        self._hooked.append(tensor.register_hook(partial(self._gradient, number)))  # type: ignore[no-untyped-call] # torch says no more

    @staticmethod
    def _inference() -> bool:
        return torch.is_inference_mode_enabled()

    def _stranger(self, tensor: torch.Tensor, number: int) -> None:
        """A tensor that no recorded call has made: what made it read other values, whose gradients then have a part unknown."""
        reads: set[int] = set()
        maker = tensor.grad_fn
        seen, todo = {maker}, [maker]
        while todo:
            node = todo.pop()
            variable = getattr(node, "variable", None)
            if node in self._makers:
                reads.add(self._makers[node])
            elif variable is not None:
                reads.add(self.value(variable))
            elif node is not None:
                found = [after for after, _ in node.next_functions if after is not None and after not in seen]
                seen.update(found)
                todo.extend(found)
        self.unseen.append({"value": number, "by": type(maker).__name__, "reads": sorted(reads)})

    def _gradient(self, number: int, gradient: torch.Tensor) -> None:
        key = f"g{number}"
        with self.quiet():
            self.numbers[key] = self.numbers[key] + gradient if key in self.numbers else gradient.detach()

    def keep(self, tensor: torch.Tensor) -> None:
        """Copy what is about to be changed in place: every value that lies in the same memory."""
        for number in self._shares.pop(_storage(tensor), ()):
            self.numbers[f"v{number}"] = self.numbers[f"v{number}"].clone()

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
        name = _name(func)
        if self._paused or name is None:
            return func(*args, **kwargs)
        if name in BACKWARD:
            return self._backward(func, args, kwargs)
        op = canonical(name)
        in_place = op.endswith("_") and not op.endswith("__")
        base = op.removesuffix("_") if in_place else op
        if name.endswith(".__get__") and op not in VIEWS_BY_GETTER:
            return func(*args, **kwargs)
        if base not in LOWERINGS and not in_place and op not in SOURCES:
            return self._through(func, op, args, kwargs)
        with self.quiet():
            if in_place:
                for target in tensors_in(args[:1]):
                    self.value(target)
                    self.keep(target)
            said = None if op in SOURCES else self._said(args, kwargs)
            result = func(*args, **kwargs)
            if said is not None:
                self._record(op, said, args, kwargs, result, in_place=in_place)
        return result

    def _through(self, func: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function without a lowering: what it is made of, if that is made of functions; else it alone, by name."""
        if func in self._entered or not tensors_in((args, kwargs)):
            return func(*args, **kwargs)  # it dispatches to itself, or reads no tensor
        before = len(self.calls)
        with self.quiet():
            said = self._said(args, kwargs)
        self._entered.append(func)
        try:
            with self:
                result = func(*args, **kwargs)
        finally:
            self._entered.pop()
        if len(self.calls) == before and tensors_in(result):
            with self.quiet():
                self._record(op, said, args, kwargs, result, in_place=False)
        return result

    def _said(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return [encode(item, self.value) for item in args], {
            key: encode(item, self.value) for key, item in kwargs.items()
        }

    def _record(
        self,
        op: str,
        said: tuple[list[Any], dict[str, Any]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        *,
        in_place: bool,
    ) -> None:
        outputs = tensors_in(result)
        given = {id(item) for item in tensors_in((args, kwargs))}
        if not outputs and in_place:
            outputs = tensors_in(args[:1])
        if not outputs or (not in_place and all(id(item) in given for item in outputs)):
            return  # a number, or the very tensor that was given
        self.calls.append(
            Call(
                op=op,
                args=said[0],
                kwargs=said[1],
                outputs=tuple(self.value(item, made=True) for item in outputs),
                place=self.place[-1] if self.place else "",
                grad=torch.is_grad_enabled(),
                autocast=dtype_name(torch.get_autocast_dtype("cpu")) if torch.is_autocast_enabled("cpu") else "",
            )
        )

    def _backward(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        roots = tensors_in(args[:1] if args else kwargs.get("tensors"))
        seeds = tensors_in(args[1:2] if len(args) > 1 else kwargs.get("gradient", kwargs.get("grad_tensors")))
        with self.quiet():
            for i, root in enumerate(roots):
                seed = self.value(seeds[i]) if i < len(seeds) else None
                self.backwards.append(Backward(self.value(root), seed, len(self.calls)))
            return func(*args, **kwargs)

    # ── updates ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Parameters, gradients and state, as the optimizer finds them."""
        with self.quiet():
            for parameter in _parameters(optimizer):
                self.keep(parameter)
            self._snapshot(optimizer, "before")
        self._paused += 1  # an optimizer's own arithmetic is judged by what it changes

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Parameters and state, as the optimizer leaves them; and its configuration."""
        self._paused -= 1
        with self.quiet():
            state = self._snapshot(optimizer, "after")
            groups = [
                {
                    **{key: encode(item, self.value) for key, item in group.items() if key != "params"},
                    "params": [self.names.get(id(p), f"unnamed.{i}") for i, p in enumerate(group["params"])],
                }
                for group in optimizer.param_groups
            ]
            kind = type(optimizer)
            self.updates.append(Update(f"{kind.__module__}.{kind.__qualname__}", groups, state))

    def _snapshot(self, optimizer: torch.optim.Optimizer, when: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        update = len(self.updates)
        for i, parameter in enumerate(_parameters(optimizer)):
            name = self.names.get(id(parameter), f"unnamed.{i}")
            self.numbers[f"u{update}:{when}:parameter:{name}"] = parameter.detach().clone()
            if when == "before" and parameter.grad is not None:
                self.numbers[f"u{update}:{when}:gradient:{name}"] = parameter.grad.detach().clone()
            for key, item in optimizer.state.get(parameter, {}).items():
                if isinstance(item, (torch.Tensor, int, float)) and not isinstance(item, bool):
                    value = (
                        item.detach().clone()
                        if isinstance(item, torch.Tensor)
                        else torch.tensor(item, dtype=torch.float64)
                    )
                    self.numbers[f"u{update}:{when}:{key}:{name}"] = value
                    found.setdefault(name, []).append(key)
        return found

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def finish(self) -> Step:
        """The step as data. Nothing is held on to but the tensors themselves, which `numbers` has."""
        for handle in self._hooked:
            handle.remove()
        return Step(
            self.index,
            f"torch {torch.__version__}",
            self.values,
            self.calls,
            self.backwards,
            self.updates,
            self.unseen,
        )


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


_NAMES: dict[Any, str | None] = {}


def _name(func: Callable[..., Any]) -> str | None:
    """A function's full name, looked up once."""
    if func not in _NAMES:
        found = resolve_name(func)
        _NAMES[func] = found or getattr(func, "__name__", None)
    return _NAMES[func]


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
