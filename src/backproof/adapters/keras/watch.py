"""The layers of a Keras model while it runs: what each writes, who reads what. A layer's `call` is wrapped for that long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras

from backproof.adapters.keras.kinds import UNTOLD, Call, Told, activation_of, told_of
from backproof.trace.manifest import Probe
from backproof.trace.phases import INPUT

Array = Any


def layers_of(model: Any) -> dict[str, Any]:
    """The layers that have no layers inside, and a functional model's own operations, by dotted name, in order."""
    found: dict[str, Any] = {}

    def walk(parent: Any, prefix: str) -> None:
        operations = getattr(parent, "operations", None) or getattr(
            getattr(parent, "_functional", None), "operations", None
        )
        for item in operations or parent._flatten_layers(include_self=False, recursive=False):  # noqa: SLF001 # there is no public walk
            name = f"{prefix}{item.name}"
            if isinstance(item, keras.layers.InputLayer) or any(item is known for known in found.values()):
                continue
            inner = isinstance(item, keras.Layer) and list(item._flatten_layers(include_self=False, recursive=False))  # noqa: SLF001
            if inner:
                walk(item, f"{name}.")
            else:
                found[name] = item

    walk(model, "")
    return found


class Watch:
    """One pass through a model. `change(name, array)` may put another array in the place of what a layer has written."""

    def __init__(self, layers: dict[str, Any], change: Callable[[str, Array], Array]) -> None:
        self.layers = layers
        self.change = change
        self.probes: dict[str, Probe] = {}
        self.values: dict[str, Array] = {}
        self._makers: dict[int, str] = {}
        self._alive: list[Array] = []
        self._calls: dict[str, int] = {}

    def input(self, x: Array) -> Array:
        """What the network reads."""
        self._remember(INPUT, x)
        return x

    def _remember(self, name: str, x: Array) -> None:
        self._makers[id(x)] = name
        self._alive.append(x)  # an id is one array's only while that lives

    def reads(self, value: Any) -> tuple[str, ...]:
        """The places that these arrays come from."""
        return tuple(self._makers[id(leaf)] for leaf in keras.tree.flatten(value) if id(leaf) in self._makers)

    @contextmanager
    def wrapped(self) -> Iterator[None]:
        """Every layer's `call` looks at what it writes, for as long as this lasts."""
        try:
            for name, layer in self.layers.items():
                object.__setattr__(layer, "call", partial(self._call, name, layer, layer.call))
            yield
        finally:
            for layer in self.layers.values():
                layer.__dict__.pop("call", None)

    def _call(self, name: str, layer: Any, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        count = self._calls[name] = self._calls.get(name, 0) + 1
        place = name if count == 1 else f"{name}#{count}"
        reads = self.reads((args, kwargs))
        shapes = [leaf.shape for leaf in keras.tree.flatten(args) if hasattr(leaf, "shape")]
        told = told_of(Call(layer, tuple(map(tuple, shapes)), bool(kwargs.get("training"))))
        ending = activation_of(layer)
        if ending is None:
            return self._write(place, reads, told, call(*args, **kwargs))
        activation = layer.activation
        # Not as Keras sets attributes, which looks into what it is given.
        object.__setattr__(layer, "activation", lambda x: activation(self._write(place, reads, told, x)))
        try:
            result = call(*args, **kwargs)
        finally:
            object.__setattr__(layer, "activation", activation)
        return self._write(f"{place}.{ending[0]}", (place,), ending[1], result)

    def _write(self, place: str, reads: tuple[str, ...], told: Told, result: Any) -> Any:
        """What a place has written, as it goes on: one array, or several, each a place of its own."""
        parts = keras.tree.flatten(result)
        changed = []
        for i, part in enumerate(parts):
            where = place if len(parts) == 1 else f"{place}.{i}"
            self.probes[where] = Probe(where, reads, *(told if len(parts) == 1 else UNTOLD))
            self.values[where] = part
            seen = self.change(where, part)
            self._remember(where, seen)
            changed.append(seen)
        return keras.tree.pack_sequence_as(result, changed)
