"""What a framework's function means: its name, and the composition that is its mathematics. One table, no framework."""

from __future__ import annotations

from backproof.lowering.arithmetic import ARITHMETIC
from backproof.lowering.lowering import Lowering, canonical
from backproof.lowering.memory import MEMORY
from backproof.lowering.networks import NETWORKS
from backproof.lowering.structure import STRUCTURE

LOWERINGS: dict[str, Lowering] = {
    lowering.name: lowering for family in (ARITHMETIC, STRUCTURE, NETWORKS, MEMORY) for lowering in family
}

__all__ = ["LOWERINGS", "Lowering", "canonical"]
