"""The mathematics of a layer: its kind and hyper-parameters as a graph over what it reads and its parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from backproof.errors import BackproofError
from backproof.ir.build import Builder, Ref
from backproof.ir.graph import Graph
from backproof.ir.types import Type
from backproof.lowering import LOWERINGS, canonical


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind whose arguments have other names than those of its lowering, or that joins what it reads."""

    name: str
    renamed: Mapping[str, str]
    joins: bool = False
    """Whether what it reads is one list."""
    positional: tuple[str, ...] = ()
    """Hyper-parameters that its lowering takes by position."""


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("layer_norm", {"normalized_shape": "shape"}),
        Kind("group_norm", {"num_groups": "groups"}),
        Kind("cat", {}, joins=True),
        Kind("stack", {}, joins=True),
        Kind("reshape", {}, positional=("shape",)),
        Kind("view", {}, positional=("shape",)),
        Kind("permute", {}, positional=("dims",)),
        Kind("expand", {}, positional=("sizes",)),
        Kind("transpose", {}, positional=("dim0", "dim1")),
        Kind("select", {}, positional=("dim", "index")),
        Kind("chunk", {}, positional=("chunks",)),
        Kind("flip", {}, positional=("dims",)),
        Kind("rms_norm", {"normalized_shape": "normalized_shape"}),
    )
}
LOSSES = frozenset(
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy "
    "binary_cross_entropy_with_logits".split()
)
ACROSS = frozenset({"batch_norm"})
"""Kinds in which samples of a batch look at each other."""
CONVOLUTIONS = frozenset(f"conv{way}{n}d" for way in ("", "_transpose") for n in (1, 2, 3))
BIASED = frozenset({"linear", *CONVOLUTIONS})
"""Kinds that add a bias to a sum, or begin the sum with it."""
TWO_WAYS = frozenset({"tanh"})
"""Kinds whose derivative is computed in two ways: 1 − y², or (1 + y)·(1 − y), which rounds once more."""
DECISIONS = frozenset(
    "relu relu6 hardtanh clamp leaky_relu prelu threshold hardshrink softshrink hardsigmoid hardswish abs sign max min maximum "
    "minimum max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d topk sort elu celu selu".split()
)
"""Kinds that decide something by the numbers they read, so that a near-tie may turn a gradient."""
LAYOUT, LAST, PADS = "layout", "channels_last", "pads"
"""Hyper-parameters of any kind with channels: where these are, and how many zeros stand on either side of each axis behind them first."""
MANY = 65536  # regions that are kept; one a kind, hyper-parameters and shapes


@dataclass(frozen=True)
class Region:
    """A layer as a graph: its leaves are what it reads, then its parameters."""

    graph: Graph
    arguments: int
    """How many leaves are what it reads."""
    parameters: tuple[str, ...]

    @property
    def out(self) -> int:
        """The value that is the layer's output."""
        return self.graph.outputs[0]


def region(
    kind: str, hyper: Mapping[str, Any], reads: tuple[Type, ...], parameters: Mapping[str, Type]
) -> Region | str:
    """The layer's graph, or why there is none."""
    try:
        said = json.dumps([kind, dict(hyper)], sort_keys=True)
    except TypeError as error:
        return f"its hyper-parameters are not plain data: {error}"
    return _region(said, reads, tuple(parameters.items()))


@lru_cache(maxsize=MANY)
def _region(said: str, reads: tuple[Type, ...], parameters: tuple[tuple[str, Type], ...]) -> Region | str:
    kind, hyper = json.loads(said)
    name = canonical(kind)
    if name not in LOWERINGS:
        return f"{kind!r} is not a kind of layer that is known here" if kind else "its kind is not told"
    row = KINDS.get(name, Kind(name, {}))
    last, pads = hyper.pop(LAYOUT, "") == LAST, hyper.pop(PADS, ())
    builder = Builder()
    leaves = [builder.leaf(one) for one in reads]
    held = {key: builder.leaf(one) for key, one in parameters}
    by_name = {row.renamed.get(key, key): value for key, value in hyper.items() if key not in row.positional}
    by_place = [hyper[key] for key in row.positional if key in hyper]
    if name in LOSSES:
        by_name.setdefault("reduction", "mean")
    if name == "dropout":
        by_name.setdefault("training", True)
    if name == "batch_norm":
        by_name = {"running_mean": None, "running_var": None, **by_name}
    try:
        given: list[Any] = [_padded(_channels(leaf, to=1) if last else leaf, pads) for leaf in leaves]
        given = [given] if row.joins else given
        found = LOWERINGS[name].function(*given, *by_place, **held, **by_name)
        found = found[0] if isinstance(found, (list, tuple)) else found
        found = found * 1.0 if name in TWO_WAYS else found
        found = _channels(found, to=-1) if last else found
        return Region(builder.graph(found), len(reads), tuple(held))
    except (BackproofError, TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError) as error:
        shapes = ", ".join(map(str, reads))
        return f"{kind} of {shapes} is not derived: {error or 'it is random'}"


def _channels(x: Ref, to: int) -> Ref:
    """An array whose channels are moved: from the end to axis 1, or from there to the end."""
    behind = range(2, len(x.shape))
    return x.builder.apply(
        "transpose", x, axes=(0, *behind, 1) if to < 0 else (0, len(x.shape) - 1, *(i - 1 for i in behind))
    )


def _padded(x: Ref, pads: Sequence[Sequence[int]]) -> Ref:
    """An array with zeros around it, so many before and behind on each axis behind the channels."""
    if not pads:
        return x
    ends = [n for before_behind in reversed(pads) for n in before_behind]
    return LOWERINGS["pad"].function(x, ends)
