"""What practices look at, beside the equations: modes, who owns which parameter, padding, and data-parallel wrapping."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from backproof.adapters.torch.updates import parameters_of


def facts_of(
    model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], names: dict[int, str]
) -> dict[str, Any]:
    """Of a model as it is when a step begins."""
    modules = dict(model.named_modules())
    return {
        "training": model.training,
        "evaluating": [name for name, module in modules.items() if not module.training] if model.training else [],
        "trainable": [name for name, parameter in model.named_parameters() if parameter.requires_grad],
        "owned": [names[id(p)] for optimizer in optimizers for p in parameters_of(optimizer) if id(p) in names],
        "padding": sorted(_padding(modules.values())),
        **_ranks(),
    }


def _padding(modules: Iterable[torch.nn.Module]) -> set[tuple[int, int]]:
    """The tokens that modules and their configurations say are padding, and of how many tokens."""
    found: set[tuple[int, int]] = set()
    for module in modules:
        config = getattr(module, "config", None)
        for token, size in (
            (getattr(module, "padding_idx", None), getattr(module, "num_embeddings", None)),
            (getattr(config, "pad_token_id", None), getattr(config, "vocab_size", None)),
        ):
            if type(token) is int and type(size) is int:
                found.add((token, size))
    return found


def _ranks() -> dict[str, Any]:
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return {"world": 1, "rank": 0}
    return {"world": torch.distributed.get_world_size(), "rank": torch.distributed.get_rank()}


def wrapper_of(model: torch.nn.Module) -> DistributedDataParallel | None:
    """The data-parallel wrapper of a model: in it, or around it."""
    for module in model.modules():
        if isinstance(module, DistributedDataParallel):
            return module
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    for found in gc.get_objects():
        if type(found) is DistributedDataParallel and found.module is model:
            return found
    return None
