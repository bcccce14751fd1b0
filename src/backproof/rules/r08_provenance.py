"""A factor that names where it comes from has the value that stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from backproof.receipt.columns import Path, written
from backproof.rules.layout import Layout, positions
from backproof.rules.rule import Equation, Keys, Label, Ledger, Mutation, Rule, Wrong

_PART = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def resolve(text: str) -> Path:
    """`updates[0].gradient` as a path."""
    return tuple(int(index) if index else name for name, index in _PART.findall(text))


def _factors(layout: Layout) -> Iterator[tuple[Path, str, str]]:
    shape = layout.shape
    roots: list[tuple[Path, str]] = []
    for unit in shape.mapping("backward", "output_error_signals"):
        signal: Path = ("backward", "output_error_signals", unit)
        roots += [((*signal, "factors", j), unit) for j in range(len(shape.many(*signal, "factors")))]
        for k in range(len(shape.many(*signal, "dual_form", "jacobian_terms"))):
            term: Path = (*signal, "dual_form", "jacobian_terms", k)
            roots += [((*term, "factors", j), unit) for j in range(len(shape.many(*term, "factors")))]
    for i, name in enumerate(layout.updates.ids):
        roots += [(path, name) for path in layout.updates.factors(i)]
    for path, owner in roots:
        source = shape.get(*path, "from")
        if isinstance(source, str) and source:
            yield path, owner, source


def labels(layout: Layout) -> Iterator[Label | Keys | Wrong]:
    """Every source named exists and is a number."""
    for path, owner, source in _factors(layout):
        if layout.shape.column(*resolve(source)) < 0:
            message = f"is read from {source}, where no number stands"
            yield Wrong(written((*path, "from")), message, source, None, owner)


def equations(ledger: Ledger) -> Iterator[Equation]:
    """value = the number at `from`."""
    layout = ledger.layout
    found = list(_factors(layout))
    if not found:
        return
    said = positions(layout.shape.column(*path, "value") for path, _, _ in found)
    source = positions(layout.shape.column(*resolve(source)) for _, _, source in found)
    names = tuple(owner for _, owner, _ in found)
    yield Equation(said, ledger.ball(source), "the number that `from` names", (source,), names)


RULE = Rule(
    8,
    "provenance",
    "a factor equals the number at the place that it names",
    "Without it a product of invented factors would pass for a gradient.",
    labels=labels,
    equations=equations,
    mutations=(
        Mutation("a factor is not what it was read from", "sgd", "updates.0.optimizer.factors.0.value", "nudge"),
        Mutation("a source does not exist", "sgd", "updates.0.optimizer.factors.1.from", 'set:"inputs.nobody"'),
    ),
)
