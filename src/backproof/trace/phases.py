"""The phases of a trace: what is seen at a probe, and when in a step it comes to be. One table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    """What is seen at a probe."""

    name: str
    says: str
    tier: int
    """Phases of a lower tier come to be earlier in a step."""
    of_parameter: bool = False
    """Whether it is of a parameter, and so of the whole batch."""
    backward: bool = False
    """Whether the last probe of the network comes first."""


PHASES: dict[str, Phase] = {
    phase.name: phase
    for phase in (
        Phase("w_before", "a parameter before the step", 0, of_parameter=True),
        Phase("opt_before", "the optimizer's state of a parameter before the step", 0, of_parameter=True),
        Phase("fwd", "the probe's output", 1),
        Phase("lossgrad", "∂L/∂ what the loss reads", 2, backward=True),
        Phase("agrad", "∂L/∂ the probe's output", 3, backward=True),
        Phase("grad_raw", "∂L/∂ a parameter, summed over the batch", 4, of_parameter=True, backward=True),
        Phase("grad_scaled", "the gradient that the optimizer gets", 5, of_parameter=True, backward=True),
        Phase("opt_after", "the optimizer's state of a parameter after the step", 6, of_parameter=True),
        Phase("w_after", "a parameter after the step", 7, of_parameter=True),
    )
}

INPUT, LABEL, LOSS = "input", "label", "loss"
"""Probes with a meaning of their own: what the network reads, what the loss is told, and the loss."""
