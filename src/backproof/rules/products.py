"""Products of named factors, as equations: rules 1, 4 and 13 share them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from backproof.rules.ball import Ball
from backproof.rules.layout import positions
from backproof.rules.rule import Equation, Ledger


def product_equations(
    ledger: Ledger,
    rows: Iterable[tuple[str, list[int], int]],
    because: str,
    observed: Callable[[Ledger, Ball, tuple[str, ...]], Ball] | None = None,
) -> Iterator[Equation]:
    """For each (id, columns of the factors, column of the product): the product is what is said.

    Products of equally many factors are taken together. `observed` says what was rounded before the first factor was.
    """
    alike: dict[int, list[tuple[str, list[int], int]]] = defaultdict(list)
    for row in rows:
        alike[len(row[1])].append(row)
    for count, group in alike.items():
        if count == 0:
            continue
        factors = np.array([row[1] for row in group], dtype=np.intp)
        found = ledger.ball(factors[:, 0])
        ids = tuple(row[0] for row in group)
        if observed:
            found = observed(ledger, found, ids)
        for j in range(1, count):
            found = found * ledger.ball(factors[:, j])
        said = positions(row[2] for row in group)
        yield Equation(said, found, because, (factors,), ids)
