"""Mistakes that are another computation: the call is written again with an argument or a formula that people get wrong, and derived."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.evaluate import evaluate
from backproof.ir.build import Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.lowering import canonical
from backproof.numerics import FORMATS
from backproof.trace.step import Call
from backproof.verify.equation import Evidence, judged
from backproof.verify.origin import Origin
from backproof.verify.region import rewritten


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that is often another than was meant."""

    op: str
    name: str
    position: int
    """Its place among the positional arguments; −1 if it has none."""
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that is often taken for the right one."""

    op: str
    says: str
    function: Callable[..., Ref]


EPSILONS = (1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-12, 0.0)

ARGUMENTS = (
    Argument("layer_norm", "eps", 4, EPSILONS),
    Argument("group_norm", "eps", 4, EPSILONS),
    Argument("rms_norm", "eps", 3, EPSILONS),
    Argument("batch_norm", "eps", 7, EPSILONS),
    Argument("instance_norm", "eps", 7, EPSILONS),
    Argument("gelu", "approximate", -1, ("tanh", "none")),
    Argument("scaled_dot_product_attention", "scale", -1, (1.0,)),
    Argument("scaled_dot_product_attention", "is_causal", 5, (False, True)),
    Argument("scaled_dot_product_attention", "attn_mask", 3, (None,)),
    Argument("cross_entropy", "label_smoothing", -1, (0.0, 0.1)),
    Argument("cross_entropy", "reduction", -1, ("sum", "mean")),
    Argument("nll_loss", "reduction", -1, ("sum", "mean")),
    Argument("mse_loss", "reduction", -1, ("sum", "mean")),
    Argument("l1_loss", "reduction", -1, ("sum", "mean")),
    Argument("binary_cross_entropy_with_logits", "reduction", -1, ("sum", "mean")),
    Argument("softmax", "dim", 1, (0, 1, -1)),
    Argument("log_softmax", "dim", 1, (0, 1, -1)),
    Argument("var", "correction", -1, (0, 1)),
    Argument("std", "correction", -1, (0, 1)),
    Argument("max_pool2d", "ceil_mode", -1, (False, True)),
    Argument("avg_pool2d", "count_include_pad", 5, (False, True)),
    Argument("leaky_relu", "negative_slope", 1, (0.01, 0.1, 0.2, 0.0)),
    Argument("elu", "alpha", 1, (1.0,)),
    Argument("linear", "bias", 2, (None,)),
    Argument("conv2d", "bias", 2, (None,)),
    Argument("softplus", "beta", 1, (1.0,)),
)


def _unbiased(
    x: Ref, shape: Any, weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5, **_: Any
) -> Ref:
    axes = tuple(range(len(x.shape) - (1 if isinstance(shape, int) else len(shape)), len(x.shape)))
    mean = COMPOSITIONS["mean"].function(x, axes, keepdim=True)
    var = COMPOSITIONS["var"].function(x, axes, correction=1, keepdim=True)
    y = (x - mean) / x.builder.apply("sqrt", var + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _centred(
    x: Ref, shape: Any, weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5, **_: Any
) -> Ref:
    y = COMPOSITIONS["rms_norm"].function(x, shape, weight, eps)
    return y if bias is None else y + bias


def _epsilon_outside(
    x: Ref, shape: Any, weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5, **_: Any
) -> Ref:
    axes = tuple(range(len(x.shape) - (1 if isinstance(shape, int) else len(shape)), len(x.shape)))
    mean = COMPOSITIONS["mean"].function(x, axes, keepdim=True)
    var = COMPOSITIONS["var"].function(x, axes, correction=0, keepdim=True)
    y = (x - mean) / (x.builder.apply("sqrt", var) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _ignored_counted(
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    *_: Any,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    **__: Any,
) -> Ref:
    given = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "reduction": "sum"}
    total = COMPOSITIONS["cross_entropy"].function(x, target, weight, **given)
    rows = 1
    for size in target.shape:
        rows *= size
    return total / float(rows)


FORMULAS = (
    Formula("layer_norm", "an unbiased variance, over n − 1", _unbiased),
    Formula("layer_norm", "no mean taken away", _centred),
    Formula("layer_norm", "eps outside of the root", _epsilon_outside),
    Formula("cross_entropy", "ignored targets counted in the mean", _ignored_counted),
    Formula("gelu", "a sigmoid of 1.702·x", lambda x, **_: x * x.builder.apply("sigmoid", x * 1.702)),
    Formula("relu", "no mask: the input itself", lambda x, *_, **__: x * 1.0),
    Formula("relu", "a leaky ReLU of slope 0.01", lambda x, *_, **__: COMPOSITIONS["leaky_relu"].function(x, 0.01)),
    Formula("tanh", "a sigmoid", lambda x: x.builder.apply("sigmoid", x)),
    Formula("sigmoid", "a tanh", lambda x: x.builder.apply("tanh", x)),
    Formula("silu", "the sigmoid alone", lambda x, *_, **__: x.builder.apply("sigmoid", x)),
    Formula("softmax", "its logarithm", lambda x, dim=-1, *_, **__: COMPOSITIONS["log_softmax"].function(x, dim)),
)


def cause_in_calls(evidence: Evidence) -> str:
    """The variant of the one call behind an equation that gives what was claimed."""
    if len(evidence.origins) != 1 or evidence.origins[0].call is None:
        return ""
    (origin,) = evidence.origins
    for says, graph in _variants(origin.call, origin.graph):  # type: ignore[arg-type] # it has a call
        if _gives(evidence, origin, graph):
            return f"it is what {canonical(origin.call.op)} gives with {says}"  # type: ignore[union-attr]
    return ""


def _variants(call: Call, graph: Any) -> Iterator[tuple[str, Any]]:
    op = canonical(call.op).removesuffix("_")
    for formula in FORMULAS:
        if formula.op == op:
            other = rewritten(call, graph, formula.function)
            if other is not None:
                yield formula.says, other
    for argument in ARGUMENTS:
        for value in argument.values if argument.op == op else ():
            other = rewritten(_with(call, argument, value), graph)
            if other is not None and other != graph:
                yield f"{argument.name}={value!r}", other


def _with(call: Call, argument: Argument, value: Any) -> Call:
    """The call with one argument changed."""
    if 0 <= argument.position < len(call.args) and argument.name not in call.kwargs:
        args: Sequence[Any] = call.args
        return replace(call, args=[*args[: argument.position], value, *args[argument.position + 1 :]])
    return replace(call, kwargs={**call.kwargs, argument.name: value})


def _gives(evidence: Evidence, origin: Origin, graph: Any) -> bool:
    """Whether another graph in the place of the origin's gives what was claimed, and is not simply as loose as it is wrong."""
    place = origin.graph.outputs.index(origin.output) if origin.leaf is None else 0
    seeds = {graph.outputs[origin.graph.outputs.index(value)]: seed for value, seed in origin.seeds.items()}
    other = replace(origin, graph=graph, output=graph.outputs[place], seeds=seeds)
    try:
        derivation, leaves, output = other.derivation()
    except AssertionError:  # the variant does not depend on this input
        return False
    D = Bounded("float64" if evidence.format == "float64" else "float32")
    found: Bound = evaluate(derivation, D, leaves)[output]
    if FORMATS[evidence.format].precision < D.storage.precision:
        found = D.cast(found, to=evidence.format)
    unit = FORMATS[evidence.format].unit
    result = judged(evidence.claimed, found)
    return result.verdict in ("holds", "noise") and abs(result.slope) < SLOPE_OF_A_VARIANT * unit


SLOPE_OF_A_VARIANT = 8.0
"""In units of roundoff: where bounds are wide, the variant must also have no systematic error of its own."""
