"""Decisions in doubt: where errors in what is compared may turn a comparison, an order or a choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backproof.engine.arrays import NumPyKernels
from backproof.engine.bound import Error
from backproof.engine.sums import SLACK
from backproof.ir.primitives.window import windows
from backproof.ir.types import Shape

Values = tuple[Any, ...]

_KERNELS = NumPyKernels("float64")


def doubt_of(name: str, values: Values, errors: list[Error], y: Any, params: Any) -> Error:
    """Where an honest execution may decide otherwise than y, given the errors of what it compares."""
    decide: Callable[..., Error] = _DOUBTS.get(name, _comparison)
    return decide(values, errors, y, params)


def any_doubt(errors: list[Error], shape: Shape) -> Error:
    """Where anything that went in is in doubt."""
    doubts = [error for error in errors if error is not None]
    return np.any([np.broadcast_to(doubt, shape) for doubt in doubts], axis=0) if doubts else None


def _comparison(values: Values, errors: list[Error], y: Any, params: Any) -> Any:
    """A comparison is in doubt where the margin is no more than the two errors together."""
    if values[0].dtype.kind != "f":
        return any_doubt(errors, y.shape)
    a, b = values
    room = sum(0.0 if error is None else error for error in errors)
    return (room > 0) & ~(abs(a - b) > room)


def _argmax(values: Values, errors: list[Error], y: Any, params: Any) -> Any:
    """The largest is in doubt where another, at its most, reaches it at its least; equals that are exact keep their order."""
    (v,), (e,), axis = values, errors, params["axis"]
    winner = np.expand_dims(y, axis)
    least, room = (np.take_along_axis(a, winner, axis=axis) for a in (v - e, e))
    places = np.arange(v.shape[axis]).reshape([-1 if a == axis else 1 for a in range(v.ndim)])
    rivals = (v + e >= least) & (e + room > 0) & (places != winner)
    return np.any(rivals, axis=axis)


def _pool(values: Values, errors: list[Error], y: Any, params: Any) -> Any:
    """The same, in each window."""
    (v,), (e,) = values, errors
    n, c = v.shape[:2]
    winner = y.reshape(n * c, 1, math.prod(y.shape[2:]))
    planes = [a.reshape(n * c, 1, math.prod(v.shape[2:])) for a in (v - e, e)]
    least, room = (np.take_along_axis(plane, winner, axis=2) for plane in planes)
    most, places, inside = windows(_KERNELS, v + e, **params)
    rivals = inside & (most >= least) & (windows(_KERNELS, e, **params)[0] + room > 0) & (places != winner)
    return np.any(rivals, axis=1).reshape(y.shape)


def _order(values: Values, errors: list[Error], y: Any, params: Any) -> Any:
    """A place in an order is in doubt where a neighbour is no farther than twice the largest error along the axis."""
    (v,), (e,), axis = values, errors, params["axis"]
    order = _KERNELS.argsort(v, axis=axis, descending=params.get("descending", True), stable=True)
    ranked = np.take_along_axis(v, order, axis=axis)
    room = 2 * np.max(e, axis=axis, keepdims=True, initial=0.0)
    near = (room > 0) & ~(abs(np.diff(ranked, axis=axis)) > room)
    edge = np.zeros_like(np.moveaxis(np.moveaxis(ranked, axis, 0)[:1], 0, axis), dtype=np.bool_)
    doubt = np.concatenate([near, edge], axis=axis) | np.concatenate([edge, near], axis=axis)
    return doubt[(slice(None),) * axis + (slice(0, y.shape[axis]),)]


_DOUBTS: dict[str, Callable[..., Any]] = {"argmax": _argmax, "pool_argmax": _pool, "argsort": _order, "topk": _order}


def if_any(doubt: Any) -> Error:
    """Doubt, if there is any at all."""
    return doubt if doubt.any() else None


def unsure_whole(x: Any, e: Any) -> Any:
    """Where an honest execution may truncate to another whole number. What is no number, or infinite, becomes whatever there is."""
    lost = ~np.isfinite(x)
    return lost if e is None else lost | ((e > 0) & ~(np.trunc(x - e * SLACK) == np.trunc(x + e * SLACK)))


def astray(name: str, index: Any, doubt: Any, sizes: Any, axis: int) -> Any:
    """The sum, along the axis that is indexed, of what may be written elsewhere."""
    if name == "scatter_along":
        return np.sum(np.where(doubt, sizes, 0.0), axis=axis, keepdims=True)
    trail = sizes.ndim - axis - index.ndim
    unsure = doubt.reshape((1,) * axis + index.shape + (1,) * trail)
    places = tuple(range(axis, axis + index.ndim))
    return np.expand_dims(np.sum(np.where(unsure, sizes, 0.0), axis=places), axis)
