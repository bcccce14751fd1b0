"""What a framework's function means: its name, and the composition that is its mathematics. One table, no framework."""

from __future__ import annotations

from backproof.lowering.algebra import ALGEBRA
from backproof.lowering.alignment import ALIGNMENT
from backproof.lowering.along import ALONG
from backproof.lowering.arithmetic import ARITHMETIC
from backproof.lowering.diagonals import DIAGONALS
from backproof.lowering.distances import DISTANCES
from backproof.lowering.functions import FUNCTIONS
from backproof.lowering.grids import GRIDS
from backproof.lowering.indexing import INDEXING
from backproof.lowering.joins import JOINS
from backproof.lowering.levels import LEVELS
from backproof.lowering.losses import LOSSES
from backproof.lowering.lowering import Lowering, canonical
from backproof.lowering.masks import MASKS
from backproof.lowering.memory import MEMORY
from backproof.lowering.networks import ACTIVATIONS, NETWORKS
from backproof.lowering.orders import ORDERS
from backproof.lowering.pairs import PAIRED, PAIRS
from backproof.lowering.recurrent import RECURRENT
from backproof.lowering.reductions import REDUCTIONS
from backproof.lowering.running import RUNNING
from backproof.lowering.space import SPACE
from backproof.lowering.structure import STRUCTURE
from backproof.lowering.tables import TABLES

LOWERINGS: dict[str, Lowering] = {
    lowering.name: lowering
    for family in (
        *(ARITHMETIC, FUNCTIONS, ALGEBRA),
        *(REDUCTIONS, ORDERS, RUNNING),
        *(STRUCTURE, JOINS, INDEXING, ALONG, DIAGONALS, SPACE, GRIDS, LEVELS, PAIRS),
        *(NETWORKS, DISTANCES, TABLES, RECURRENT, LOSSES, ALIGNMENT),
        *(MEMORY, MASKS),
    )
    for lowering in family
}

__all__ = [
    "ACTIVATIONS",
    "ALGEBRA",
    "ALONG",
    "ARITHMETIC",
    "DIAGONALS",
    "FUNCTIONS",
    "INDEXING",
    "JOINS",
    "LOWERINGS",
    "ORDERS",
    "PAIRED",
    "RECURRENT",
    "REDUCTIONS",
    "STRUCTURE",
    "Lowering",
    "canonical",
]
