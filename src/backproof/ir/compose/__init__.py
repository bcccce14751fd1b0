"""The table of compositions: what networks are made of, written in primitives, with PyTorch's names and conventions."""

from __future__ import annotations

from backproof.ir.compose.activation import ACTIVATION
from backproof.ir.compose.adaptive import ADAPTIVE
from backproof.ir.compose.attention import ATTENTION
from backproof.ir.compose.choose import CHOOSE
from backproof.ir.compose.classes import CLASSES
from backproof.ir.compose.conv import CONV
from backproof.ir.compose.linear import LINEAR
from backproof.ir.compose.loss import LOSS
from backproof.ir.compose.norm import NORM
from backproof.ir.compose.padding import PADDING
from backproof.ir.compose.piecewise import PIECEWISE
from backproof.ir.compose.pool import POOL
from backproof.ir.compose.record import Composition
from backproof.ir.compose.recurrent import RECURRENT
from backproof.ir.compose.reduce import REDUCE
from backproof.ir.compose.softmax import SOFTMAX

COMPOSITIONS: dict[str, Composition] = {
    composition.name: composition
    for family in (
        *(LINEAR, CONV, POOL, ADAPTIVE, PADDING, NORM, ATTENTION, RECURRENT),
        *(ACTIVATION, PIECEWISE, SOFTMAX, CHOOSE, REDUCE, LOSS, CLASSES),
    )
    for composition in family
}

__all__ = ["COMPOSITIONS", "Composition"]
