"""What a tensor is after another that shares its memory was written: numbers by their places, none computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.lowering.lowering import Lowering


def _places(lies: Any) -> np.ndarray[Any, Any]:
    """Each element's place in memory."""
    shape, strides, offset = lies["shape"], lies["strides"], lies["offset"]
    places = np.full(tuple(shape), offset, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        places += (np.arange(size) * stride).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return places


def _found(places: np.ndarray[Any, Any], among: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """For each place its position among others, or −1."""
    flat = among.reshape(-1)
    if not flat.size:
        return np.full(places.shape, -1, dtype=np.int64)
    order = np.argsort(flat, kind="stable")
    at = np.minimum(np.searchsorted(flat, places, sorter=order), flat.size - 1)
    return np.where(flat[order[at]] == places, order[at], -1)


def positions_of(view_lies: Any, base_lies: Any) -> np.ndarray[Any, Any]:
    """For each element of a view its position in its base, or −1."""
    return _found(_places(view_lies), _places(base_lies))


def _picked(x: Ref, positions: np.ndarray[Any, Any]) -> Ref:
    """The elements of x at these positions of the flat x."""
    flat = x.builder.apply("reshape", x, shape=(x.type.size,))
    return x.builder.apply("gather", flat, _integers(x, positions), axis=0)


def _integers(x: Ref, positions: np.ndarray[Any, Any]) -> Ref:
    from backproof.ir.tensor import Tensor

    tensor = Tensor.of(np.ascontiguousarray(positions))
    return x.builder.apply("constant", value=tensor, shape=tensor.shape)


def seen_through(base: Ref, base_lies: Any, view_lies: Any) -> Ref:
    """A view, read from its base."""
    positions = positions_of(view_lies, base_lies)
    if (positions < 0).any():
        raise GraphError("a view that looks outside of its base")
    return _picked(base, positions)


def written_through(old: Ref, part: Ref, lies: Any, part_lies: Any) -> Ref:
    """What a tensor holds once a part was written into the memory that both share."""
    positions = _found(_places(lies), _places(part_lies))
    if (positions < 0).all():
        return old.builder.apply("reshape", old, shape=old.shape)
    taken = _picked(part, positions)
    if (positions >= 0).all():
        return taken
    return old.builder.apply("where", old.constant(positions >= 0), taken, old)


MEMORY = (Lowering("seen_through", seen_through), Lowering("written_through", written_through))
