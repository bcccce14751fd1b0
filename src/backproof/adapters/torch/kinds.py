"""How each of the framework's functions is to be seen: by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import resolve_name

from backproof.adapters.torch.effects import EACH
from backproof.adapters.torch.passes import PASSES
from backproof.lowering import LOWERINGS, PAIRED, canonical

VIEWS_BY_GETTER = {"T", "mT", "H", "mH", "real", "imag"}
# Calls that make tensors from nothing, or copies that autograd knows nothing of: sources, which say nothing of mathematics.
SOURCES = set(
    "tensor as_tensor arange zeros ones full empty zeros_like ones_like full_like empty_like rand randn randint rand_like randn_like "
    "randint_like randperm eye linspace logspace tril_indices triu_indices new_zeros new_ones new_full new_empty new_tensor bernoulli "
    "multinomial normal poisson from_numpy empty_strided new_empty_strided frombuffer __deepcopy__".split()
)
# In place, and random or of nothing: what they write is a source too.
FILLS = {
    *"normal_ uniform_ bernoulli_ random_ exponential_ geometric_ cauchy_ log_normal_ zero_ fill_".split(),
    *(name for name in vars(torch.nn.init) if name.endswith("_") and not name.startswith("_")),
}
LOOKS = {"requires_grad_", "retain_grad", "share_memory_", "pin_memory", "record_stream"}
"""They change nothing that is a number."""


_NAMES: dict[Any, str | None] = {
    getattr(torch.autograd, name): f"torch.autograd.{name}" for name in ("backward", "grad")
}
"""The names of functions that were met, and of two that PyTorch does not tell."""
_KINDS: dict[str, tuple[str, str]] = {}


def name_of(func: Callable[..., Any]) -> str | None:
    """A function's full name, looked up once."""
    if func not in _NAMES:
        found = resolve_name(func)
        _NAMES[func] = found or getattr(func, "__name__", None)
    return _NAMES[func]


def kind_of(name: str) -> tuple[str, str]:
    """How a function is to be seen, and its canonical name; looked up once."""
    if name not in _KINDS:
        _KINDS[name] = _sorted_out(name)
    return _KINDS[name]


def _sorted_out(name: str) -> tuple[str, str]:
    if name in PASSES:
        return "backward", name
    op = canonical(name)
    if name == "torch.Tensor.register_hook":
        return "hook", op
    if name == "torch.Tensor.data.__set__":
        return "assign", op
    if op in SOURCES or op in LOOKS or (name.endswith(".__get__") and op not in VIEWS_BY_GETTER):
        return "plain", op
    if op.startswith(EACH) and op.removeprefix(EACH).removesuffix("_") in LOWERINGS:
        return "each", op.removeprefix(EACH)
    if op.endswith("_") and not op.endswith("__"):
        return "write", op
    return ("call" if op in LOWERINGS or f"{PAIRED}{op}" in LOWERINGS else "through"), op


def transformed() -> bool:
    """Whether a function is being transformed (`torch.vmap`, `torch.func.grad`): what is called then are stand-ins without numbers."""
    return torch._C._functorch.peek_interpreter_stack() is not None  # noqa: SLF001 # the transforms' own way to ask
