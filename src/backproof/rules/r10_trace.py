"""The records of a bundle carry one trace id, and count from 0."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backproof.rules.rule import Equation, Ledger, Mutation, Rule, Violation


def equations(ledger: Ledger) -> Iterator[Equation | Violation]:
    """trace_id is the first record's; step_index is the record's place."""
    columns, shape = ledger.columns, ledger.layout.shape
    trace = shape.get("trace_id")
    first = ledger.first.shape.get("trace_id")
    if trace != first:
        for row in range(columns.size):
            yield Violation(row, "trace_id", "is not the trace of the first record", trace, first)
    if first is None:
        return
    index = shape.column("step_index")
    for row in np.flatnonzero(columns.numbers[:, index] != columns.positions).tolist():  # NaN, which is missing, too
        said = float(columns.numbers[row, index]) if index >= 0 else None
        yield Violation(row, "step_index", "is not the record's place in the bundle", said, columns.positions[row])


RULE = Rule(
    10,
    "trace",
    "trace_id is the same in every record, step_index counts 0, 1, 2, …",
    "A gap or a splice of two runs shows here even where the parameters happen to agree.",
    equations=equations,
    across=True,
    mutations=(
        Mutation("a step is skipped", "bundle", "1.step_index", "set:2"),
        Mutation("a record of another trace", "bundle", "1.trace_id", 'set:"ffffffffffffffffffffffffffffffff"'),
    ),
)
