"""The table of primitives. What is not in it does not exist."""

from __future__ import annotations

from backproof.ir.primitive import Primitive
from backproof.ir.primitives.elementwise import ELEMENTWISE
from backproof.ir.primitives.index import INDEX
from backproof.ir.primitives.linear import LINEAR
from backproof.ir.primitives.reduce import REDUCE
from backproof.ir.primitives.shape import SHAPE
from backproof.ir.primitives.source import SOURCE
from backproof.ir.primitives.window import WINDOW

FAMILIES: dict[str, tuple[Primitive, ...]] = {
    "elementwise": ELEMENTWISE,
    "reduce": REDUCE,
    "linear": LINEAR,
    "shape": SHAPE,
    "index": INDEX,
    "window": WINDOW,
    "other": SOURCE,
}

PRIMITIVES: dict[str, Primitive] = {primitive.name: primitive for family in FAMILIES.values() for primitive in family}
