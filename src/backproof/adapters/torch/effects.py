"""What calls do besides what they give: casts that autocast slips in, running statistics, random masks, results written in place.

Each becomes a call that nobody made, so that it is an equation like any other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from backproof.adapters.torch.encode import dtype_name, maker_of, tensors_in
from backproof.lowering import PAIRED
from backproof.verify.region import values_in

if TYPE_CHECKING:
    from backproof.adapters.torch.observe import Observer

# What autocast runs in the lower format on a CPU; it rounds their operands first. All else takes what it is given.
LOWERED = set(
    "linear matmul rmatmul mm bmm addmm baddbmm addbmm vecdot einsum tensordot bilinear multi_dot scaled_dot_product_attention "
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d lstm gru rnn_tanh rnn_relu".split()
)
Arguments = dict[str, Any]

# ── in place, by an argument ────────────────────────────────────────────────────────────────────────────────────────


@cache
def _place_of_inplace(func: Callable[..., Any]) -> int | None:
    try:
        names = list(inspect.signature(func).parameters)
    except (TypeError, ValueError):
        return None
    return names.index("inplace") if "inplace" in names else None


def writes_in_place(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Arguments) -> bool:
    """Whether a function that may work in place was told to."""
    if "inplace" in kwargs:
        return bool(kwargs["inplace"])
    place = _place_of_inplace(func)
    return place is not None and place < len(args) and args[place] is True


# ── lists ───────────────────────────────────────────────────────────────────────────────────────────────────────────

EACH = "_foreach_"
"""What the names of functions begin with that take lists of tensors."""


def one_of(args: tuple[Any, ...], kwargs: Arguments, op: str, i: int) -> tuple[list[Any], Arguments]:
    """The arguments of what happens at one place of the lists."""
    given, count = [each[i] if isinstance(each, (list, tuple)) else each for each in args], 3
    more = {key: each[i] if isinstance(each, (list, tuple)) else each for key, each in kwargs.items()}
    more |= {"value": more.pop("scalars")} if "scalars" in more else {}
    if op.startswith("addc") and len(given) > count:  # what lists take by place a function of tensors takes by name
        more["value"] = given.pop()
    return given, more


# ── autocast ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Casts:
    """The operands that autocast rounds before a call: cached, as autocast does, for leaves that want a gradient."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._cached: dict[tuple[int, torch.dtype], int] = {}
        self._nesting = 0

    def said(self, op: str, given: Any, result: list[torch.Tensor]) -> dict[int, int]:
        """For each operand that was rounded, its number and the number of what it was rounded to; found by what came out."""
        if not torch.is_autocast_enabled("cpu"):
            self._cached.clear()
            return {}
        lower = torch.get_autocast_dtype("cpu")
        if op not in LOWERED or not result or any(y.dtype != lower for y in result if y.is_floating_point()):
            return {}
        found = {}
        for x in tensors_in(given):
            if x.dtype is torch.float32:
                number = self.observer.values.number(x)
                found[number] = self._rounded(x, number, lower)
        return found

    def _rounded(self, x: torch.Tensor, number: int, lower: torch.dtype) -> int:
        key = number, lower
        kept = maker_of(x) is None and x.requires_grad and torch.is_autocast_cache_enabled() and torch.is_grad_enabled()
        if kept and key in self._cached:
            return self._cached[key]
        made = self.observer.values.hidden(x, stored=False, dtype=lower)
        self.observer.emit("to", [number, dtype_name(lower)], made)
        if kept:
            self._cached[key] = made
        return made


def renumbered(said: Any, numbers: dict[int, int]) -> Any:
    """What was said, of other values."""
    if isinstance(said, dict):
        if set(said) == {"value"}:
            return {"value": numbers.get(said["value"], said["value"])}
        return {key: renumbered(item, numbers) for key, item in said.items()}
    return [renumbered(item, numbers) for item in said] if isinstance(said, list) else said


# ── what is found only by looking before and after ──────────────────────────────────────────────────────────────────


def bound_to(args: tuple[Any, ...], kwargs: Arguments, names: str) -> Arguments:
    """Arguments by name; functions of the framework cannot tell their names themselves."""
    return {**dict(zip(names.split(), args, strict=False)), **kwargs}


After = Callable[[Arguments], None]
"""Is given the keyword arguments as they are to be recorded."""

NORMS = {
    "batch_norm": "input running_mean running_var weight bias training momentum eps",
    "torch_batch_norm": "input weight bias running_mean running_var training momentum eps cudnn_enabled",
    "instance_norm": "input running_mean running_var weight bias use_input_stats momentum eps",
    "torch_instance_norm": "input weight bias running_mean running_var use_input_stats momentum eps cudnn_enabled",
}


def running_statistics(observer: Observer, op: str, given: Arguments) -> After | None:
    """A norm that keeps a mean and a variance changes them, and counts that as no change."""
    kept: list[Any] = [given.get("running_mean"), given.get("running_var")]
    learns = given.get("training", given.get("use_input_stats", "batch" not in op))
    if not learns or not all(isinstance(item, torch.Tensor) for item in kept):
        return None
    values = observer.values
    numbers = [values.number(given["input"]), *(values.number(item) for item in kept)]
    for item in kept:
        values.keep(item)
    momentum = given.get("momentum", 0.1)
    what = "running_statistics" if "batch" in op else "running_instance_statistics"

    def after(_: Arguments) -> None:
        fresh = [values.replaced(item) for item in kept]
        observer.emit(what, [*numbers, {"plain": momentum}], *fresh)

    return after


def attention_mask(observer: Observer, _: str, given: Arguments) -> After | None:
    """Attention draws its mask from the generator: it is drawn again on the side, from the same state."""
    p = given.get("dropout_p", 0.0)
    if not p or given["query"].device.type != "cpu":
        return None
    query, key = given["query"], given["key"]
    lower = torch.is_autocast_enabled("cpu") and query.dtype is torch.float32
    dtype = torch.get_autocast_dtype("cpu") if lower else query.dtype
    shape = (*query.shape[:-1], key.shape[-2])
    state = torch.get_rng_state()

    def after(kwargs: Arguments) -> None:
        for mask in _drawn_again(state, [shape], dtype, p):
            kwargs["dropout_mask"] = {"value": observer.values.made(mask, "source")}

    return after


def recurrent_masks(observer: Observer, _: str, given: Arguments) -> After | None:
    """Recurrent layers drop out between them, inside of the kernel; so do their packed forms, which are given more by place."""
    places = list(given.values())
    packed = isinstance(given.get("fourth"), (list, tuple))
    x, weights = places[0], places[3 if packed else 2]
    layers, p, training, both = places[5:9] if packed else places[4:8]
    if not (p and training and layers > 1) or x.device.type != "cpu":
        return None
    bias = places[4 if packed else 3]
    size = (2 if both else 1) * _width(weights, layers * (2 if both else 1), biased=bias)
    lead = x.shape[:-1]
    if not packed and len(lead) == 2 and places[8]:
        lead = lead[::-1]
    lower = torch.is_autocast_enabled("cpu") and x.dtype is torch.float32
    dtype = torch.get_autocast_dtype("cpu") if lower else x.dtype
    state = torch.get_rng_state()

    def after(kwargs: Arguments) -> None:
        masks = _drawn_again(state, [(*lead, size)] * (layers - 1), dtype, p)
        if masks:
            kwargs["dropout_masks"] = [{"value": observer.values.made(mask, "source")} for mask in masks]

    return after


def _width(weights: Sequence[torch.Tensor], parts: int, *, biased: bool) -> int:
    """How wide the output of a layer is, in one direction: as its state, or as what that is projected to."""
    each = len(weights) // parts
    projected = each > (4 if biased else 2)
    return int(weights[each - 1].shape[0] if projected else weights[1].shape[1])


def _drawn_again(
    state: torch.Tensor, shapes: list[tuple[int, ...]], dtype: torch.dtype, p: float
) -> list[torch.Tensor]:
    """Masks as a kernel has drawn them, one after another, from this state of the generator; none if it has drawn something else."""
    aside = torch.Generator()
    aside.set_state(state)
    with torch.no_grad():
        found = [torch.empty(shape, dtype=dtype).bernoulli_(1 - p, generator=aside).bool() for shape in shapes]
    return found if torch.equal(aside.get_state(), torch.get_rng_state()) else []


EFFECTS: dict[str, tuple[str, Callable[[Observer, str, Arguments], After | None]]] = {
    **{op: (names, running_statistics) for op, names in NORMS.items()},
    "scaled_dot_product_attention": (
        "query key value attn_mask dropout_p is_causal scale enable_gqa",
        attention_mask,
    ),
    **dict.fromkeys(
        ("lstm", "gru", "rnn_tanh", "rnn_relu"),
        ("first second third fourth fifth sixth seventh eighth ninth", recurrent_masks),
    ),
}


# ── complex numbers ─────────────────────────────────────────────────────────────────────────────────────────────────


def in_pairs(
    paired: set[int], op: str, said: tuple[list[Any], Arguments], outputs: tuple[int, ...]
) -> tuple[str, tuple[list[Any], Arguments]]:
    """A call of complex numbers has a name of its own, and says which of its arguments they are."""
    if not paired or paired.isdisjoint((*values_in(list(said)), *outputs)):
        return op, said
    places = [i for i, item in enumerate(said[0]) if not paired.isdisjoint(values_in(item))]
    return f"{PAIRED}{op}", (said[0], {**said[1], "paired": places})
