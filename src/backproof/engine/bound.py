"""A value and how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.ir.types import Shape

Error = Any  # an array of bounds (or of doubts, for what is not real), or None for exact


@dataclass(frozen=True, slots=True)
class Bound:
    """A value with its two bounds."""

    value: Any
    certain: Error = None
    likely: Error = None
    finite: tuple[Error, Error] | None = None
    """Where an honest execution may overflow, and its bounds are infinite: both bounds of what does not, which is then an infinity of its
    sign. Kept from one operation to the next."""

    def as_exponent(self) -> Bound:
        """What may have overflowed to −∞ gives 0 as an exponent, and is as well bounded by what has not."""
        if self.finite is None:
            return self
        certain, likely = (
            None if error is None else np.where((self.value < 0) & np.isinf(error), finite, error)
            for error, finite in zip((self.certain, self.likely), self.finite, strict=True)
        )
        return Bound(self.value, certain, certain if self.certain is self.likely else likely)

    @property
    def shape(self) -> Shape:
        """The value's shape."""
        return tuple(self.value.shape)
