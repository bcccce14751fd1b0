"""Verification: a receipt or a bundle in, a verdict out. Here alone said and found are compared."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from backproof.verify.receipts import Verifier, verify_columns, verify_receipt, verify_receipts
from backproof.verify.verdict import Finding, Unchecked, Verdict

__all__ = ["Finding", "Unchecked", "Verdict", "Verifier", "verify_columns", "verify_receipt", "verify_receipts"]


class _Callable(ModuleType):
    """`backproof.verify("run/")` verifies a recorded run, though it is the name of this package too."""

    def __call__(self, subject: Any, **options: Any) -> Any:
        return import_module("backproof.diagnose.run").verify(subject, **options)


sys.modules[__name__].__class__ = _Callable
