"""backproof makes a neural network's training step checkable."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backproof.diagnose.run import verify as verify
    from backproof.errors import BackproofError as BackproofError
    from backproof.receipt import hash_receipt as hash_receipt
    from backproof.receipt import read_receipt as read_receipt
    from backproof.receipt import read_receipts as read_receipts
    from backproof.receipt import write_receipt as write_receipt
    from backproof.session import Session as Session
    from backproof.trace.session import trace_grads as trace_grads
    from backproof.trace.session import trace_weights as trace_weights
    from backproof.trace.session import traced_grads as traced_grads
    from backproof.verify import verify_receipt as verify_receipt

__version__ = "0.1.0"

# Public names and where they live. Loaded on first use, so that importing backproof costs nothing.
_PUBLIC = {
    "BackproofError": "backproof.errors",
    "Session": "backproof.session",
    "hash_receipt": "backproof.receipt",
    "read_receipt": "backproof.receipt",
    "read_receipts": "backproof.receipt",
    "trace_grads": "backproof.trace.session",
    "trace_weights": "backproof.trace.session",
    "traced_grads": "backproof.trace.session",
    "verify_receipt": "backproof.verify",
    "write_receipt": "backproof.receipt",
}

__all__ = [
    "BackproofError",
    "Session",
    "__version__",
    "hash_receipt",
    "read_receipt",
    "read_receipts",
    "trace_grads",
    "trace_weights",
    "traced_grads",
    "verify",
    "verify_receipt",
    "write_receipt",
]


def __getattr__(name: str) -> Any:
    if name == "verify":  # a package that can be called
        return importlib.import_module("backproof.verify")
    if name not in _PUBLIC:
        msg = f"module 'backproof' has no attribute {name!r}; it has {', '.join(__all__)}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
