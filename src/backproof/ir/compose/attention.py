"""Scaled dot-product attention, and attention with several heads. A query that may see nothing gets zeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, broadcast_shapes
from backproof.ir.compose.axes import spread, value_of
from backproof.ir.compose.linear import dropout, linear
from backproof.ir.compose.record import Composition


def attention(
    query: Ref,
    key: Ref,
    value: Ref,
    attn_mask: Any = None,
    dropout_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Ref:
    """softmax(q·kᵀ·scale + mask)·v; a mask of truth values says who may be seen, one of numbers is added.

    With `enable_gqa`, groups of the query's heads share a head of key and value.
    """
    if min(len(x.shape) for x in (query, key, value)) < 2:
        raise GraphError(f"attention takes (…, length, size), not {query.type}, {key.type} and {value.type}")
    if enable_gqa:
        key, value = (_for_each_head(x, query) for x in (key, value))
    allowed, added = None, None
    if is_causal:
        if attn_mask is not None:
            raise GraphError("attention: give either attn_mask or is_causal")
        allowed = query.constant(np.tri(query.shape[-2], key.shape[-2], dtype=np.bool_))
    elif attn_mask is not None:
        mask = value_of(attn_mask, query)
        allowed, added = (mask, None) if mask.type.kind == "bool" else (None, mask)
    return _attend(query, key, value, allowed, added, dropout_mask, dropout_p, scale)


def _attend(
    query: Ref,
    key: Ref,
    value: Ref,
    allowed: Ref | None,
    added: Ref | None,
    dropout_mask: Any,
    dropout_p: float,
    scale: float | None,
) -> Ref:
    factor = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    rank = len(key.shape)
    turned = key.builder.transpose(key, axes=(*range(rank - 2), rank - 1, rank - 2))
    scores = (query @ turned) * factor
    if added is not None:
        scores = scores + added
    if allowed is not None:
        scores = scores.broadcast_to(broadcast_shapes(scores.shape, allowed.shape))
        allowed = allowed.broadcast_to(scores.shape)
    weights = _weights(scores, allowed, bottomless=added is not None)
    if dropout_mask is not None:
        weights = dropout(weights, dropout_mask, dropout_p)
    return weights @ value


def _for_each_head(x: Ref, query: Ref) -> Ref:
    """Keys or values for every head of the query: each as often in a row as there are heads that share it."""
    if min(len(x.shape), len(query.shape)) < 3 or not x.shape[-3] or query.shape[-3] % x.shape[-3]:
        raise GraphError(f"attention: the heads of {query.type} cannot share those of {x.type}")
    *lead, heads, length, size = x.shape
    times = query.shape[-3] // heads
    split = x.builder.reshape(x, shape=(*lead, heads, 1, length, size))
    wide = split.broadcast_to((*lead, heads, times, length, size))
    return x.builder.reshape(wide, shape=(*lead, heads * times, length, size))


def _weights(scores: Ref, allowed: Ref | None, *, bottomless: bool) -> Ref:
    """Softmax along the last axis over what is allowed; zeros where nothing is. `bottomless`: scores may be −∞.

    Nothing here is ever ∞ − ∞ or 0/0, not even in a branch that is not chosen, so that derivatives of any order exist.
    """
    D, last = scores.builder, (len(scores.shape) - 1,)
    if scores.shape[-1] == 0:
        return scores
    seen = scores
    if allowed is not None:
        lowest = spread(D.stop_gradient(D.min(scores, axes=last)), scores, last)
        seen = D.where(allowed, scores, lowest)
    top = D.stop_gradient(D.max(seen, axes=last))
    some = None
    if bottomless:
        some = top > -math.inf
        top = D.where(some, top, top.constant(0.0))
    powers = D.exp(seen - spread(top, scores, last))
    if allowed is not None:
        powers = D.where(allowed, powers, powers.constant(0.0))
    sums = D.sum(powers, axes=last)
    if allowed is not None:
        seeing = D.max(D.cast(allowed, to="real"), axes=last) > 0.0
        some = seeing if some is None else D.logical_and(some, seeing)
    if some is not None:
        sums = D.where(some, sums, sums.constant(1.0))
    return powers / spread(sums, scores, last)


def multi_head_attention(
    query: Ref,
    key: Ref,
    value: Ref,
    num_heads: int,
    in_proj_weight: Ref | tuple[Ref, Ref, Ref],
    in_proj_bias: Ref | tuple[Ref, Ref, Ref] | None,
    out_proj_weight: Ref,
    out_proj_bias: Ref | None = None,
    key_padding_mask: Any = None,
    attn_mask: Any = None,
    dropout_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    batch_first: bool = False,
) -> Ref:
    """Attention in `num_heads` parts of the projected query, key and value. Masks are as in PyTorch's module: True says blocked.

    The projections are one weight (3·out, in), or three; x is (length, batch, in), or (batch, length, in), or (length, in).
    """
    weights, biases = _thirds(in_proj_weight), _thirds(in_proj_bias)
    q, k, v = (
        _heads(linear(_rows(x, batch_first=batch_first), w, b), num_heads)
        for x, w, b in zip((query, key, value), weights, biases, strict=True)
    )
    masks = _masks(q, k, key_padding_mask, attn_mask, is_causal=is_causal)
    found = _attend(q, k, v, *masks, dropout_mask, dropout_p, None)
    D, (n, h, length, size) = found.builder, found.shape
    joined = D.reshape(D.transpose(found, axes=(0, 2, 1, 3)), shape=(n, length, h * size))
    y = linear(joined, out_proj_weight, out_proj_bias)
    if len(query.shape) == 2:
        return D.reshape(y, shape=y.shape[1:])
    return y if batch_first else D.transpose(y, axes=(1, 0, 2))


def _thirds(given: Ref | tuple[Ref, Ref, Ref] | None) -> tuple[Any, Any, Any]:
    if given is None:
        return None, None, None
    if not isinstance(given, Ref):
        return given
    size = given.shape[0] // 3
    return given[:size], given[size : 2 * size], given[2 * size :]


def _rows(x: Ref, *, batch_first: bool) -> Ref:
    """As (batch, length, in)."""
    if len(x.shape) == 2:
        return x.builder.reshape(x, shape=(1, *x.shape))
    if len(x.shape) != 3:
        raise GraphError(f"multi_head_attention takes (length, batch, in) or (length, in), not {x.type}")
    return x if batch_first else x.builder.transpose(x, axes=(1, 0, 2))


def _heads(x: Ref, heads: int) -> Ref:
    """(batch, length, heads·size) as (batch, heads, length, size)."""
    n, length, size = x.shape
    if heads < 1 or size % heads:
        raise GraphError(f"multi_head_attention: {size} numbers in {heads} heads")
    D = x.builder
    return D.transpose(D.reshape(x, shape=(n, length, heads, size // heads)), axes=(0, 2, 1, 3))


def _masks(query: Ref, key: Ref, padding: Any, attn_mask: Any, *, is_causal: bool) -> tuple[Ref | None, Ref | None]:
    """What may be seen, and what is added to the scores, each broadcast over (batch, heads, length, keys) or None."""
    D, (n, h, length, _), keys = query.builder, query.shape, key.shape[2]
    given = []
    if padding is not None:
        given.append(D.reshape(value_of(padding, query), shape=(n, 1, 1, keys)))
    if attn_mask is not None:
        mask = value_of(attn_mask, query)
        given.append(D.reshape(mask, shape=(n, h, length, keys)) if len(mask.shape) == 3 else mask)
    allowed = [D.logical_not(mask) for mask in given if mask.type.kind == "bool"]
    if is_causal and attn_mask is None:
        allowed.append(query.constant(np.tri(length, keys, dtype=np.bool_)))
    added = [mask for mask in given if mask.type.kind == "real"]
    return _met(allowed, "logical_and"), _met(added, "add")


def _met(masks: list[Ref], op: str) -> Ref | None:
    if not masks:
        return None
    found = masks[0]
    for mask in masks[1:]:
        shape = broadcast_shapes(found.shape, mask.shape)
        found = found.builder.apply(op, found.broadcast_to(shape), mask.broadcast_to(shape))
    return found


ATTENTION = (
    Composition("attention", "y = softmax(q·kᵀ·scale + mask)·v; a query that may see nothing gets zeros", attention),
    Composition(
        "multi_head_attention",
        "y = concat of attention(x·Wqᵀ, x·Wkᵀ, x·Wvᵀ) by heads, ·Woᵀ",
        multi_head_attention,
    ),
)
