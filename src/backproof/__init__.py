"""backproof makes a neural network's training step checkable."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backproof.errors import BackproofError as BackproofError
    from backproof.session import Session as Session

__version__ = "0.1.0"

# Public names and where they live. Loaded on first use, so that importing backproof costs nothing.
_PUBLIC = {
    "BackproofError": "backproof.errors",
    "Session": "backproof.session",
}

__all__ = ["BackproofError", "Session", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        msg = f"module 'backproof' has no attribute {name!r}; it has {', '.join(__all__)}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
