"""Practices of data-parallel runs: they are found where the ranks' records are side by side."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.verify.practices.record import Practice, Seen


def _elsewhere(seen: Seen) -> Iterator[str]:
    """Nothing of it shows in one rank's record; see `verify.ranks`."""
    return iter(())


RANKS = (
    Practice(
        "ranks-differ",
        "ranks of a data-parallel run have different parameters: each trains a model of its own",
        "give all ranks the same seed or broadcast rank 0's parameters, and reduce every gradient",
        _elsewhere,
    ),
    Practice(
        "unequal-ranks",
        "ranks count different numbers of targets, and their means are averaged: a mean of means",
        "sum the losses, all-reduce the number of targets, and divide by it",
        _elsewhere,
    ),
)
