"""Forward and backward through a Keras model, on JAX and on PyTorch: one function for each, and the same things seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from backproof.adapters.keras.watch import Watch
from backproof.errors import MissingToolError

Array = Any


@dataclass(frozen=True)
class Pass:
    """What one forward and backward pass has shown."""

    watch: Watch
    loss: Array
    output: tuple[str, ...]
    """What the loss reads."""
    gradients: dict[str, Array]
    """place → ∂L/∂ what it writes, in no order."""
    grads: list[Array]
    """Of the trainable variables."""


def _zeros_pass(model: Any, layers: dict[str, Any], x: Array, y: Array, loss: Any) -> Pass:
    """On JAX: a zero is added to what each layer writes, and the loss differentiated with respect to the zeros."""
    import jax

    frozen = [variable.value for variable in model.non_trainable_variables]
    last: list[Watch] = []
    outputs: list[tuple[str, ...]] = []

    def run(
        weights: list[Array], zeros: dict[str, Array], given: Array
    ) -> tuple[Array, tuple[list[Array], dict[str, Array]]]:
        watch = Watch(layers, lambda name, array: array + zeros[name] if name in zeros else array)
        with watch.wrapped():
            found, state = model.stateless_call(weights, frozen, watch.input(given), training=True)
        last.append(watch)
        outputs.append(watch.reads(found))
        return loss(y, found), (state, dict(watch.values))

    weights = [variable.value for variable in model.trainable_variables]
    given = jax.numpy.asarray(x)
    real = jax.numpy.issubdtype(given.dtype, jax.numpy.inexact)
    shapes = jax.eval_shape(run, weights, {}, given)[1][1]
    zeros = {
        k: jax.numpy.zeros(s.shape, s.dtype)
        for k, s in shapes.items()
        if jax.numpy.issubdtype(s.dtype, jax.numpy.inexact)
    }
    which = (0, 1, 2) if real else (0, 1)
    (value, (state, values)), found = jax.value_and_grad(run, argnums=which, has_aux=True)(weights, zeros, given)
    for variable, new in zip(model.non_trainable_variables, state, strict=True):
        variable.assign(new)
    last[-1].values.update(values)
    gradients = dict(found[1]) | ({"input": found[2]} if real else {})
    return Pass(last[-1], value, outputs[-1], gradients, list(found[0]))


def _hooks_pass(model: Any, layers: dict[str, Any], x: Array, y: Array, loss: Any) -> Pass:
    """On PyTorch: a hook on what each layer writes."""
    gradients: dict[str, Array] = {}

    def follow(name: str, array: Any) -> Any:
        if array.requires_grad:
            array.register_hook(lambda gradient: gradients.__setitem__(name, gradient.detach().clone()))
        return array

    given = keras.ops.convert_to_tensor(x).clone()
    if given.is_floating_point():
        given.requires_grad_()
    watch = Watch(layers, follow)
    follow("input", given)
    for variable in model.trainable_variables:
        variable.value.grad = None
    with watch.wrapped():
        found = model(watch.input(given), training=True)
    value = loss(keras.ops.convert_to_tensor(y), found)
    value.backward()
    grads = [variable.value.grad for variable in model.trainable_variables]
    return Pass(watch, value.detach(), watch.reads(found), gradients, grads)


PASSES: dict[str, Callable[..., Pass]] = {"jax": _zeros_pass, "torch": _hooks_pass}


def run_pass(model: Any, layers: dict[str, Any], x: Array, y: Array, loss: Any) -> Pass:
    """One pass on the backend that Keras runs on."""
    backend = keras.config.backend()
    if backend not in PASSES:
        raise MissingToolError(
            f"trace: Keras runs on {backend} here; traces are written on {' and on '.join(PASSES)} (KERAS_BACKEND)"
        )
    return PASSES[backend](model, layers, x, y, loss)


def to_numpy(array: Array) -> np.ndarray[Any, Any]:
    """An array of the backend as NumPy has it."""
    return np.asarray(keras.ops.convert_to_numpy(array))
