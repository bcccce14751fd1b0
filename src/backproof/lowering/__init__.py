"""What a framework's function means: its name, and the composition that is its mathematics. One table, no framework."""

from __future__ import annotations

from backproof.lowering.algebra import ALGEBRA
from backproof.lowering.arithmetic import ARITHMETIC
from backproof.lowering.functions import FUNCTIONS
from backproof.lowering.indexing import INDEXING
from backproof.lowering.losses import LOSSES
from backproof.lowering.lowering import Lowering, canonical
from backproof.lowering.masks import MASKS
from backproof.lowering.memory import MEMORY
from backproof.lowering.networks import ACTIVATIONS, NETWORKS
from backproof.lowering.recurrent import RECURRENT
from backproof.lowering.reductions import REDUCTIONS
from backproof.lowering.space import SPACE
from backproof.lowering.structure import STRUCTURE

LOWERINGS: dict[str, Lowering] = {
    lowering.name: lowering
    for family in (
        *(ARITHMETIC, FUNCTIONS, REDUCTIONS, ALGEBRA),
        *(STRUCTURE, INDEXING, SPACE),
        *(NETWORKS, RECURRENT, LOSSES),
        *(MEMORY, MASKS),
    )
    for lowering in family
}

__all__ = [
    "ACTIVATIONS",
    "ALGEBRA",
    "ARITHMETIC",
    "FUNCTIONS",
    "INDEXING",
    "LOWERINGS",
    "RECURRENT",
    "REDUCTIONS",
    "STRUCTURE",
    "Lowering",
    "canonical",
]
