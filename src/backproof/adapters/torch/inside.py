"""What a function that is written in Python does inside.

Such a function begins by asking whether somebody overrides it, and if so hands itself over instead of running. While a step is observed
the answer is always yes, so that nothing that it is made of would be seen: its body is run as a copy to which the answer is no.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

ASKED = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


@cache
def inside(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, or, of one that would hand itself over, its body."""
    if not isinstance(func, FunctionType) or not set(ASKED) & set(func.__code__.co_names):
        return func
    body = FunctionType(
        func.__code__,
        {**func.__globals__, **dict.fromkeys(ASKED, _nobody)},
        func.__name__,
        func.__defaults__,
        func.__closure__,
    )
    body.__kwdefaults__ = func.__kwdefaults__
    return body


def _nobody(*_: Any) -> bool:
    return False
