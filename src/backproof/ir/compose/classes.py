"""Losses of classes: x[batch, class, more...] against the index of the right class, or against probabilities."""

from __future__ import annotations

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.axes import along
from backproof.ir.compose.choose import where
from backproof.ir.compose.loss import Reduction, reduced
from backproof.ir.compose.record import Composition
from backproof.ir.compose.reduce import total
from backproof.ir.compose.softmax import log_softmax


def nll_loss(
    x: Ref, target: Ref, weight: Ref | None = None, ignore_index: int = -100, reduction: Reduction = "mean"
) -> Ref:
    """−w[t]·x[t]; the mean is over the weights of what is not ignored."""
    x, target, single = _batched("nll_loss", x, target)
    losses = _of_right_class(x, target, weight, ignore_index)
    found = _weighed(losses, target, weight, ignore_index, reduction)
    return x.builder.reshape(found, shape=()) if single else found


def cross_entropy(
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Ref:
    """−Σ w·t·ln softmax(x); the target is an index for each sample, or probabilities in the shape of x."""
    if not 0 <= label_smoothing <= 1:
        raise GraphError(f"cross_entropy: label_smoothing is {label_smoothing}; it must be from 0 to 1")
    if target.type.kind == "real":
        return _against_probabilities(x, target, weight, reduction, label_smoothing)
    x, target, single = _batched("cross_entropy", x, target)
    logs = log_softmax(x, 1)
    found = _weighed(_of_right_class(logs, target, weight, ignore_index), target, weight, ignore_index, reduction)
    if label_smoothing > 0:
        every = -total(logs if weight is None else logs * along(weight, logs, 1), 1)
        every = where(_counts(target, ignore_index), every, 0.0)
        smooth = _weighed(every, target, weight, ignore_index, reduction)
        found = (1 - label_smoothing) * found + (label_smoothing / x.shape[1]) * smooth
    return x.builder.reshape(found, shape=()) if single else found


def _batched(name: str, x: Ref, target: Ref) -> tuple[Ref, Ref, bool]:
    """With a batch axis, and whether it had to be added."""
    single = len(x.shape) == 1
    if single and target.shape == ():
        D = x.builder
        x, target = D.reshape(x, shape=(1, *x.shape)), D.reshape(target, shape=(1,))
    if len(x.shape) < 2 or target.shape != (x.shape[0], *x.shape[2:]) or target.type.kind != "int":
        raise GraphError(
            f"{name}: x is {x.type} and the target {target.type}; they must be [batch, class, more...] and int[batch, more...]"
        )
    return x, target, single


def _counts(target: Ref, ignore_index: int) -> Ref:
    return target.builder.ne(target, target.constant(ignore_index))


def _of_right_class(x: Ref, target: Ref, weight: Ref | None, ignore_index: int) -> Ref:
    """−w[t]·x[t] for each sample; 0 where it is ignored."""
    D = x.builder
    index = D.reshape(target, shape=(target.shape[0], 1, *target.shape[1:]))
    picked = D.reshape(D.gather_along(x, index, axis=1), shape=target.shape)
    losses = -picked if weight is None else -(D.gather(weight, target, axis=0) * picked)
    return where(_counts(target, ignore_index), losses, 0.0)


def _weighed(losses: Ref, target: Ref, weight: Ref | None, ignore_index: int, reduction: str) -> Ref:
    """Reduced; the mean divides by the weights of the samples that count."""
    if reduction != "mean":
        return reduced(losses, reduction)
    D, counts = losses.builder, _counts(target, ignore_index)
    weights = D.cast(counts, to="real") if weight is None else where(counts, D.gather(weight, target, axis=0), 0.0)
    return total(losses) / total(weights)


def _against_probabilities(x: Ref, target: Ref, weight: Ref | None, reduction: str, label_smoothing: float) -> Ref:
    if target.shape != x.shape or not x.shape:
        raise GraphError(
            f"cross_entropy: x is {x.type} and the probabilities are {target.type}; they must have one shape"
        )
    axis = min(1, len(x.shape) - 1)
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / x.shape[axis]
    terms = log_softmax(x, axis) * target
    losses = -total(terms if weight is None else terms * along(weight, terms, axis), axis)
    return reduced(losses, reduction)


CLASSES = (
    Composition("nll_loss", "−w[t]·x[t], mean over Σ w[t]", nll_loss),
    Composition("cross_entropy", "−Σ w·t·ln softmax(x), mean over Σ w[t] or over samples", cross_entropy),
)
