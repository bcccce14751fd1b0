"""What a module or a function is meant to be: it is judged against that mathematics, and not against its own Python.

The meaning is run on abstract tensors, which have a shape and no numbers, with the module's own parameters in place: so nothing is
computed and nothing is changed. Its calls stand in the record in place of those that were made; what went in, what came out and what
came back are the module's. A compiled module is judged in this way against its own Python, run without the compiler.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils.stateless import _reparametrize_module
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from backproof.adapters.torch.encode import is_abstract, tensors_in
from backproof.adapters.torch.modes import compiled_functions, observing, out_of_sight
from backproof.adapters.torch.modules import reached
from backproof.errors import UsageError
from backproof.trace.step import Region

if TYPE_CHECKING:
    from backproof.adapters.torch.observe import Observer

_now = threading.local()
"""The step that is observed on this thread."""
Meaning = torch.nn.Module | Callable[..., Any]


@dataclass
class Claim:
    """What the modules of a pattern are meant to be."""

    pattern: str
    meaning: Meaning
    ran: bool = field(default=False)


class Claims:
    """All that a user claims of the modules of a model."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.found: list[Claim] = []

    def add(self, pattern: str, meaning: Meaning) -> None:
        """One more claim, if there is something that it speaks of, with the parameters that it needs."""
        named = {name: module for name, module in self.model.named_modules() if fnmatchcase(name, pattern)}
        if not named:
            names = ", ".join(name for name, _ in self.model.named_modules() if name)
            raise UsageError(f"claim {pattern!r}: no module has such a name; there are {names or 'none'}")
        if isinstance(meaning, torch.nn.Module):
            for name, module in named.items():
                _check_alike(name, module, meaning)
        self.found.append(Claim(pattern, meaning))

    def of(self, name: str) -> Claim | None:
        """The claim on a module: the last that was made."""
        return next((claim for claim in reversed(self.found) if fnmatchcase(name, claim.pattern)), None)

    def check_all_ran(self) -> None:
        """A claim that nothing was judged by is a mistake."""
        idle = [claim.pattern for claim in self.found if not claim.ran]
        if idle:
            raise UsageError(
                f"claim {idle[0]!r}: no module of this name ran in a recorded step, so nothing was judged by it"
            )

    @contextmanager
    def watching(self, observer: Observer) -> Iterator[None]:
        """See the modules that are claimed, and those that are compiled."""
        with ExitStack() as stack:
            outer = getattr(_now, "observer", None)
            _now.observer = observer
            stack.callback(setattr, _now, "observer", outer)
            stack.enter_context(compiled_functions(partial(_compiled, observer)))
            hidden = inside_of_compiled(self.model)
            for name, module in self.model.named_modules():
                if name in hidden and getattr(module, "_compiled_call_impl", None) is None:
                    continue
                claim, eager = self.of(name), eager_of(module)
                if claim is not None:
                    _surround(stack, observer, name, module, claim, "claim")
                elif eager is not None:
                    _surround(stack, observer, name, module, Claim(name, eager), "compiled")
            yield


def _check_alike(name: str, module: torch.nn.Module, meaning: torch.nn.Module) -> None:
    """The meaning has the parameters and buffers of the module, in its shapes."""
    has = {key: tuple(t.shape) for key, t in (*module.named_parameters(), *module.named_buffers())}
    for key, tensor in (*meaning.named_parameters(), *meaning.named_buffers()):
        if has.get(key) != tuple(tensor.shape):
            found = (
                f"has the shape {list(has[key])} there"
                if key in has
                else f"is not there; there are {', '.join(has) or 'none'}"
            )
            raise UsageError(
                f"claim {name!r}: the {key} of {type(meaning).__name__} has the shape {list(tensor.shape)}, and {found}. "
                "Claim a function of the module and its inputs, to say which parameter is which"
            )


def eager_of(module: torch.nn.Module) -> Callable[..., Any] | None:
    """What a compiled module is without its compiler; None for a plain module."""
    inner = getattr(module, "_orig_mod", None)
    if isinstance(inner, torch.nn.Module) and hasattr(module, "dynamo_ctx"):
        plain: Any = inner
        return lambda _, *args, **kwargs: plain._call_impl(*args, **kwargs)  # noqa: SLF001 # past what `compile()` put there
    if getattr(module, "_compiled_call_impl", None) is not None:
        return lambda itself, *args, **kwargs: itself._call_impl(*args, **kwargs)  # noqa: SLF001 # the same
    return None


def inside_of_compiled(model: torch.nn.Module) -> set[str]:
    """The modules that run inside of a compiled one, where no hook of ours may be."""
    outer = [name for name, module in model.named_modules() if eager_of(module) is not None]
    inner = set()
    for name, module in model.named_modules():
        own = getattr(module, "_compiled_call_impl", None) is not None
        if own or any(name.startswith(f"{other}." if other else "") and name != other for other in outer):
            inner.add(name)
    return inner


def _surround(
    stack: ExitStack, observer: Observer, name: str, module: torch.nn.Module, claim: Claim, kind: str
) -> None:
    """Put a region around every call of a module, for as long as the stack lasts."""
    called = module._compiled_call_impl or module.forward  # noqa: SLF001
    where = "forward" if module._compiled_call_impl is None else "_compiled_call_impl"  # noqa: SLF001
    had, before = where in module.__dict__, module.__dict__.get(where)

    @functools.wraps(called)
    def surrounded(*args: Any, **kwargs: Any) -> Any:
        if observer.idle:
            return called(*args, **kwargs)
        claim.ran = True
        meaning = claim.meaning
        said = _meant(module, meaning)
        place = name if where == "_compiled_call_impl" else None
        judged = Judged(observer, (kind, _name_of(module, meaning, kind)), said, (args, kwargs), module)
        return judged_by(called, judged, args, kwargs, place)

    def restore() -> None:
        if had:
            module.__dict__[where] = before
        else:
            module.__dict__.pop(where, None)

    module.__dict__[where] = surrounded
    stack.callback(restore)


def _compiled(observer: Observer, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A compiled function begins: out of sight, and then explained by what it compiles. Gives what is to be done at its end."""
    if observer.idle:
        return None
    name = f"compiled {getattr(function, '__name__', 'function')}"
    eager = getattr(function, "_torchdynamo_orig_callable", function)
    modules = reached(eager)
    meant = _meant(modules, lambda _, *given, **named: eager(*given, **named))
    judged = Judged(observer, ("compiled", name), meant, (args, kwargs), modules)
    hiding = out_of_sight(observer)
    hiding.__enter__()

    def left() -> None:
        hiding.__exit__(None, None, None)

    return left, judged.explain


def _name_of(module: torch.nn.Module, meaning: Meaning, kind: str) -> str:
    if kind == "compiled":
        return f"compiled {type(getattr(module, '_orig_mod', module)).__name__}"
    if isinstance(meaning, torch.nn.Module):
        return type(meaning).__name__
    return getattr(meaning, "__name__", "function")


def _meant(module: torch.nn.Module, meaning: Meaning) -> Callable[..., Any]:
    """The meaning as a function of abstract parameters and buffers, and then of the inputs."""

    def run(held: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        if isinstance(meaning, torch.nn.Module):
            meaning.train(module.training)
            own = {key for key, _ in (*meaning.named_parameters(), *meaning.named_buffers())}
            with _reparametrize_module(meaning, {key: held[key] for key in own}):
                return meaning(*args, **kwargs)
        with _reparametrize_module(module, held):
            return meaning(module, *args, **kwargs)

    return run


class Judged:
    """One call that is judged by a meaning: what goes in is numbered, the call is left alone, and what comes out is explained."""

    def __init__(
        self,
        observer: Observer,
        region: tuple[str, str],
        meaning: Callable[..., Any],
        given: tuple[tuple[Any, ...], dict[str, Any]],
        module: torch.nn.Module | None = None,
    ) -> None:
        self.observer, self.region, self.meaning, self.given = observer, region, meaning, given
        self.held = {} if module is None else dict([*module.named_parameters(), *module.named_buffers()])
        self.buffers = [] if module is None else list(module.buffers())
        with observer.quiet():
            real = [*tensors_in(given), *self.held.values()]
            self.before = {id(tensor): observer.values.number(tensor) for tensor in real}
            for buffer in self.buffers:
                observer.values.keep(buffer)

    def explain(self, result: Any) -> None:
        """Follow the meaning, from what went in to what came out."""
        observer, (kind, name) = self.observer, self.region
        outputs = [item for item in tensors_in(result) if id(item) not in self.before]
        region, first, state = len(observer.regions), len(observer.calls), torch.get_rng_state()
        observer.regions.append(Region(kind, name, observer.here, (), ()))
        try:
            fakes, found = _traced(observer, region, self)
        except Exception as error:  # noqa: BLE001 # whatever the meaning raises on abstract tensors is a reason, not an error
            del observer.calls[first:]
            said = (str(error) or "it").splitlines()[0][:80]
            why = f"its meaning cannot be followed without numbers ({type(error).__name__}: {said})"
            _unknown(observer, region, outputs, self.buffers, why)
        else:
            _joined(observer, region, first, (outputs, found), self, fakes)
        finally:
            torch.set_rng_state(state)


def judged_by(
    called: Callable[..., Any], judged: Judged, args: tuple[Any, ...], kwargs: dict[str, Any], place: str | None = None
) -> Any:
    """Call something as it is, out of sight, and explain what came out."""
    observer = judged.observer
    if place is not None:
        observer.place.append(place)
    try:
        with out_of_sight(observer):
            result = called(*args, **kwargs)
        judged.explain(result)
        return result
    finally:
        if place is not None:
            observer.place.pop()


def claimed(meaning: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say what a function is meant to be: `@bpt.claimed(reference)`, where the reference takes the same arguments."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            observer = getattr(_now, "observer", None)
            if observer is None or observer.idle:
                return function(*args, **kwargs)
            name = getattr(function, "__name__", "function")
            judged = Judged(observer, ("claim", name), lambda _, *a, **k: meaning(*a, **k), (args, kwargs))
            return judged_by(function, judged, args, kwargs)

        return called

    return decorate


def _traced(observer: Observer, region: int, judged: Judged) -> tuple[dict[int, torch.Tensor], list[torch.Tensor]]:
    """Run the meaning on abstract tensors that stand for the real ones: by the real one's id; and what it gives."""
    (args, kwargs), held = judged.given, judged.held
    with FakeTensorMode(allow_non_fake_inputs=True) as abstract:
        stand_ins = StandIns(observer, abstract, judged.before)
        with observer.quiet():
            given = stand_ins.of(args), stand_ins.of(kwargs), stand_ins.of(held)
        grown = torch.is_grad_enabled()
        with (
            torch.set_grad_enabled(grown),
            torch.compiler.set_stance("force_eager"),
            observing(observer, region),
            stand_ins,
        ):
            found = judged.meaning(given[2], *given[0], **given[1])
    return stand_ins.found, tensors_in(found)


class StandIns(TorchFunctionMode):
    """Abstract tensors in place of real ones: of those that are given, and of those that a meaning has from elsewhere."""

    def __init__(self, observer: Observer, abstract: FakeTensorMode, before: dict[int, int]) -> None:
        super().__init__()
        self.observer, self.abstract, self.before = observer, abstract, before
        self.found: dict[int, torch.Tensor] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.observer.idle:
            return func(*args, **(kwargs or {}))
        with self.observer.quiet():
            args, kwargs = self.of(args), self.of(kwargs or {})
        return func(*args, **kwargs)

    def of(self, item: Any) -> Any:
        """The same, with a stand-in for every tensor that has numbers."""
        if isinstance(item, torch.Tensor):
            return item if is_abstract(item) else self._of_one(item)
        if isinstance(item, dict):
            return type(item)((key, self.of(value)) for key, value in item.items())
        if isinstance(item, tuple) and hasattr(item, "_fields"):
            return type(item)(*map(self.of, item))
        return type(item)(map(self.of, item)) if isinstance(item, (tuple, list)) else item

    def _of_one(self, real: torch.Tensor) -> torch.Tensor:
        if id(real) not in self.found:
            with _disable_current_modes():  # it is looked at as it is
                number = self.before[id(real)] if id(real) in self.before else self.observer.values.number(real)
                plain = real.detach()  # what stands for it begins a graph of its own
            stand = self.abstract.from_tensor(plain, static_shapes=True).requires_grad_(real.requires_grad)
            self.found[id(real)] = stand
            self.observer.values.stand(stand, number)
        return self.found[id(real)]


def _joined(
    observer: Observer,
    region: int,
    first: int,
    results: tuple[list[torch.Tensor], list[torch.Tensor]],
    judged: Judged,
    fakes: dict[int, torch.Tensor],
) -> None:
    """What the meaning gives is what came out: one value each."""
    values, (outputs, found), buffers, before = observer.values, results, judged.buffers, judged.before
    with observer.quiet():
        known = {id(fake) for fake in fakes.values()}
        given = [fake for fake in found if id(fake) not in known]
        if [tuple(a.shape) for a in given] != [tuple(b.shape) for b in outputs]:
            del observer.calls[first:]
            shapes = [[list(item.shape) for item in items] for items in (given, outputs)]
            _unknown(observer, region, outputs, buffers, f"it is meant to give {shapes[0]}, and gave {shapes[1]}")
            return
        renamed = {}
        for fake, output in zip(given, outputs, strict=True):
            renamed[values.number(fake)] = values.made(output)
        for buffer in buffers:
            number = values.number(fakes[id(buffer)])
            if number != before[id(buffer)]:
                renamed[number] = values.replaced(buffer)
        for place in range(first, len(observer.calls)):
            call = observer.calls[place]
            numbers = tuple(renamed.get(number, number) for number in call.outputs)
            observer.calls[place] = replace(call, outputs=numbers, **_reread(call, renamed))
        observer.regions[region] = replace(observer.regions[region], outputs=tuple(renamed.values()))


def _reread(call: Any, renamed: dict[int, int]) -> dict[str, Any]:
    from backproof.adapters.torch.effects import renumbered

    return {"args": renumbered(call.args, renamed), "kwargs": renumbered(call.kwargs, renamed)}


def _unknown(
    observer: Observer, region: int, outputs: list[torch.Tensor], buffers: list[torch.Tensor], why: str
) -> None:
    with observer.quiet():
        observer.regions[region] = replace(observer.regions[region], why=why)
        for output in outputs:
            observer.values.number(output)
        for buffer in buffers:
            observer.values.lost(buffer)
