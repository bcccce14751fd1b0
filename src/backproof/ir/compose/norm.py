"""Normalisations: x without its mean, in units of its standard deviation, over some axes; then scaled and shifted."""

from __future__ import annotations

from collections.abc import Sequence

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.axes import along, count, spread
from backproof.ir.compose.record import Composition
from backproof.ir.compose.reduce import centred, mean, var


def standardised(x: Ref, axes: tuple[int, ...], eps: float) -> Ref:
    """(x − mean)/√(var + ε) over axes, with the variance of the population."""
    off = centred(x, axes)
    return off * spread(x.builder.rsqrt(mean(off * off, axes) + eps), x, axes)


def _by_channel(
    x: Ref, axes: tuple[int, ...], channels: tuple[int, ...], weight: Ref | None, bias: Ref | None, eps: float
) -> Ref:
    """Standardised over axes; then scaled and shifted by a weight and a bias that lie along the axes `channels`.

    Kernels compute x·scale + (bias − mean·scale). To round as they do, mean·scale is added and taken away again, as a constant: so
    that derivatives are those of (x − mean)·scale + bias, which lose nothing where the mean is large.
    """
    if 0 in x.shape:  # of nothing there is no mean, and nothing to take it from
        return x
    D, inner = x.builder, tuple(axis for axis in axes if axis not in channels)
    outer = tuple(axis for axis in range(len(x.shape)) if axis not in inner)
    shape = tuple(x.shape[axis] for axis in outer)

    def lie(value: Ref, along_axes: tuple[int, ...]) -> Ref:
        return D.broadcast(value, shape=shape, axes=tuple(outer.index(axis) for axis in along_axes))

    stays = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    centre = mean(x, axes)
    off = x - spread(centre, x, axes)
    scale = lie(D.rsqrt(mean(off * off, axes) + eps), stays)
    scale = scale if weight is None else lie(weight, channels) * scale
    moved = D.stop_gradient(lie(centre, stays) * scale)
    shift = -moved if bias is None else lie(bias, channels) - moved
    return (off * spread(scale, x, inner) + spread(moved, x, inner)) + spread(shift, x, inner)


def _scaled(x: Ref, weight: Ref | None, bias: Ref | None) -> Ref:
    """By one weight and one bias for each of the last axes."""
    y = x if weight is None else x * weight
    return y if bias is None else y + bias


def _last_axes(x: Ref, normalized_shape: int | Sequence[int], *given: Ref | None) -> tuple[int, ...]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    lead = len(x.shape) - len(shape)
    if not shape or lead < 0 or x.shape[lead:] != shape:
        raise GraphError(f"normalized_shape {list(shape)} must be the last axes of {x.type}")
    for parameter in given:
        if parameter is not None and parameter.shape != shape:
            raise GraphError(
                f"weight and bias must have the normalized shape {list(shape)}, not {list(parameter.shape)}"
            )
    return tuple(range(lead, len(x.shape)))


def layer_norm(
    x: Ref,
    normalized_shape: int | Sequence[int],
    weight: Ref | None = None,
    bias: Ref | None = None,
    eps: float = 1e-5,
) -> Ref:
    """Over the last axes."""
    axes = _last_axes(x, normalized_shape, weight, bias)
    return _scaled(standardised(x, axes, eps), weight, bias)


def rms_norm(x: Ref, normalized_shape: int | Sequence[int], weight: Ref | None = None, eps: float = 2.0**-23) -> Ref:
    """x/√(mean x² + ε) over the last axes; the default ε is the one that PyTorch takes for float32."""
    axes = _last_axes(x, normalized_shape, weight)
    return _scaled(x * spread(x.builder.rsqrt(mean(x * x, axes) + eps), x, axes), weight, None)


def _all_but_channels(x: Ref) -> tuple[int, ...]:
    if len(x.shape) < 2:
        raise GraphError(f"channels are axis 1, and {x.type} has none")
    return (0, *range(2, len(x.shape)))


def _by_running(
    x: Ref, running: tuple[Ref | None, Ref | None], weight: Ref | None, bias: Ref | None, eps: float
) -> Ref:
    """By fixed statistics it is one affine map for each channel, and is computed as one."""
    mean_of, var_of = running
    if mean_of is None or var_of is None:
        raise GraphError("a normalisation by running statistics needs running_mean and running_var")
    scale = x.builder.rsqrt(var_of + eps)
    scale = scale if weight is None else weight * scale
    moved = mean_of * scale
    return x * along(scale, x, 1) + along(-moved if bias is None else bias - moved, x, 1)


def batch_norm(
    x: Ref,
    running_mean: Ref | None = None,
    running_var: Ref | None = None,
    weight: Ref | None = None,
    bias: Ref | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Ref:
    """For each channel (axis 1), over everything else: by the batch's own statistics in training, else by the running ones."""
    del momentum  # of the running statistics, which `batch_norm_running` computes
    if not training:
        return _by_running(x, (running_mean, running_var), weight, bias, eps)
    return _by_channel(x, _all_but_channels(x), (1,), weight, bias, eps)


def batch_norm_running(x: Ref, running_mean: Ref, running_var: Ref, momentum: float = 0.1) -> tuple[Ref, Ref]:
    """The running statistics after a training batch; the variance among them is the unbiased one. They have no derivative."""
    axes = _all_but_channels(x)
    if count(x, axes) < 2:
        raise GraphError(f"{x.type}: one number a channel has no variance")
    batch = x.builder.stop_gradient(x)
    found = (mean(batch, axes), var(batch, axes))
    # Kernels hold the momentum in their own format: 1 − momentum is then off by as much.
    share = running_mean.constant(float(momentum))
    old_mean, old_var = ((1.0 - share) * old for old in (running_mean, running_var))
    return old_mean + share * found[0], old_var + share * found[1]


def instance_norm(
    x: Ref,
    running_mean: Ref | None = None,
    running_var: Ref | None = None,
    weight: Ref | None = None,
    bias: Ref | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Ref:
    """For each sample and channel, over space; or by the running statistics."""
    del momentum
    if not use_input_stats:
        return _by_running(x, (running_mean, running_var), weight, bias, eps)
    axes = tuple(range(2, len(x.shape)))
    if not axes:
        raise GraphError(f"instance_norm takes x[batch, channels, space...], not {x.type}")
    return _by_channel(x, axes, (1,), weight, bias, eps)


def group_norm(x: Ref, num_groups: int, weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5) -> Ref:
    """For each sample and group of channels, over the group and space."""
    if len(x.shape) < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise GraphError(f"group_norm: {num_groups} groups of the channels (axis 1) of {x.type}")
    D, groups = x.builder, (x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:])
    weight, bias = (None if one is None else D.reshape(one, shape=groups[1:3]) for one in (weight, bias))
    y = _by_channel(D.reshape(x, shape=groups), tuple(range(2, len(groups))), (1, 2), weight, bias, eps)
    return D.reshape(y, shape=x.shape)


def batchnorm_channel_first(x: Ref, weight: Ref, bias: Ref, eps: float = 1e-6) -> Ref:
    """For each channel (axis 0) of one sample, over space."""
    return _by_channel(x, tuple(range(1, len(x.shape))), (0,), weight, bias, eps)


NORM = (
    Composition("layer_norm", "y = (x − mean)/√(var + ε)·w + b over the last axes", layer_norm),
    Composition("rms_norm", "y = x/√(mean x² + ε)·w over the last axes", rms_norm),
    Composition(
        "batch_norm",
        "y = (x − mean)/√(var + ε)·w + b over all but the channels, or by running statistics",
        batch_norm,
    ),
    Composition(
        "batch_norm_running",
        "mean ← (1 − m)·mean + m·(batch mean); var ← (1 − m)·var + m·(unbiased batch var)",
        batch_norm_running,
    ),
    Composition("instance_norm", "y = (x − mean)/√(var + ε)·w + b over space", instance_norm),
    Composition("group_norm", "y = (x − mean)/√(var + ε)·w + b over groups of channels and space", group_norm),
    Composition(
        "batchnorm_channel_first",
        "y = (x − mean)/√(var + ε)·w + b for each channel of one sample",
        batchnorm_channel_first,
    ),
)
