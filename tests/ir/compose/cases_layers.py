"""Layers without space: linear, embedding, dropout, normalisations, attention, recurrence."""

import numpy as np
import torch
from agreement import Case, fixed, normal, truth, uniform, whole
from torch.nn import functional as fn

from backproof.ir.compose import COMPOSITIONS


def mine(name):
    return COMPOSITIONS[name].function


def torch_dropout(x, mask, p):
    return x * mask / (1 - p) if p < 1 else x * 0


PLAIN = [
    Case("linear", "batch", (normal(4, 6), normal(5, 6), normal(5)), fn.linear, {}),
    Case("linear", "vector", (normal(6), normal(5, 6), normal(5)), fn.linear, {}),
    Case("linear", "no-bias", (normal(2, 3, 6), normal(5, 6)), fn.linear, {}),
    Case("linear", "empty", (normal(0, 6), normal(5, 6), normal(5)), fn.linear, {}),
    Case("embedding", "rows", (whole(3, 4, below=7), normal(7, 5)), fn.embedding, {}),
    Case("embedding", "padding", (fixed([[0, 2, 2], [6, 0, 1]]), normal(7, 5)), fn.embedding, {"padding_idx": 2}),
    Case("embedding", "padding-from-the-end", (fixed([6, 0, 6]), normal(7, 5)), fn.embedding, {"padding_idx": -1}),
    Case("embedding", "empty", (whole(0, 3, below=7), normal(7, 5)), fn.embedding, {}, order=1),
    Case("dropout", "truth", (normal(4, 5), truth(4, 5)), torch_dropout, {"p": 0.3}),
    Case("dropout", "all", (normal(4, 5), truth(4, 5)), torch_dropout, {"p": 1.0}),
    Case("dropout", "none", (normal(4, 5), fixed(np.ones((4, 5)))), torch_dropout, {"p": 0.0}),
]

# ── normalisations ──────────────────────────────────────────────────────────────────────────────────────────────────


def running(name, shape, **params):
    c = shape[1]
    given = (normal(*shape), normal(c), uniform(c, lo=0.3, hi=2), normal(c), normal(c))
    return Case(name, f"running-{len(shape)}", given, getattr(fn, name), params, held=(1, 2))


def trained(x, weight, bias, **params):
    return fn.batch_norm(x, None, None, weight, bias, training=True, **params)


def trained_mine(x, weight, bias, **params):
    return mine("batch_norm")(x, None, None, weight, bias, training=True, **params)


def training(setting, shape, **params):
    given = (normal(*shape, shift=2.0), normal(shape[1]), normal(shape[1]))
    return Case(
        "batch_norm",
        setting,
        given,
        trained,
        params,
        ours=lambda *x: trained_mine(*x, **params),
        order=1 if 0 in shape else 2,
    )


def new_statistics(x, mean, var, momentum):
    mean, var = mean.detach().clone(), var.detach().clone()
    fn.batch_norm(x, mean, var, training=True, momentum=momentum)
    return mean, var


def instance(x, weight, bias):
    return fn.instance_norm(x, None, None, weight, bias)


def channel_first(x, weight, bias):
    return fn.instance_norm(x[None], None, None, weight, bias, eps=1e-6)[0]


NORMS = [
    Case(
        "layer_norm",
        "last",
        (normal(4, 6), normal(6), normal(6)),
        lambda x, w, b: fn.layer_norm(x, (6,), w, b),
        {},
        ours=lambda x, w, b: mine("layer_norm")(x, 6, w, b),
    ),
    Case(
        "layer_norm",
        "two-axes",
        (normal(3, 4, 5), normal(4, 5)),
        lambda x, w: fn.layer_norm(x, (4, 5), w, eps=1e-3),
        {},
        ours=lambda x, w: mine("layer_norm")(x, (4, 5), w, eps=1e-3),
    ),
    Case("layer_norm", "far", (normal(4, 64, shift=100.0),), fn.layer_norm, {"normalized_shape": (64,)}),
    Case("layer_norm", "plain", (normal(1, 6),), fn.layer_norm, {"normalized_shape": (6,)}),
    Case("layer_norm", "one-number", (normal(3, 1),), fn.layer_norm, {"normalized_shape": (1,)}),
    Case("layer_norm", "empty", (normal(0, 6),), fn.layer_norm, {"normalized_shape": (6,)}),
    Case(
        "rms_norm",
        "last",
        (normal(4, 6), normal(6)),
        lambda x, w, eps: fn.rms_norm(x, (6,), w, eps),
        {"eps": 1e-5},
        ours=lambda x, w: mine("rms_norm")(x, 6, w, eps=1e-5),
    ),
    Case("rms_norm", "two-axes", (normal(3, 4, 5),), fn.rms_norm, {"normalized_shape": (4, 5), "eps": 2.0**-23}),
    running("batch_norm", (4, 3)),
    running("batch_norm", (2, 3, 4, 5), eps=1e-3),
    training("rows", (6, 3)),
    training("space", (2, 3, 4, 5), eps=1e-3),
    training("line", (3, 4, 5)),
    training("empty", (0, 3, 4)),
    Case(
        "batch_norm_running",
        "rows",
        (normal(6, 3), normal(3), uniform(3, lo=0.5, hi=2)),
        new_statistics,
        {"momentum": 0.1},
        order=0,
    ),
    Case(
        "batch_norm_running",
        "space",
        (normal(2, 3, 4), normal(3), uniform(3, lo=0.5, hi=2)),
        new_statistics,
        {"momentum": 0.7},
        order=0,
    ),
    Case(
        "instance_norm",
        "space",
        (normal(2, 3, 4, 5), normal(3), normal(3)),
        instance,
        {},
        ours=lambda x, w, b: mine("instance_norm")(x, None, None, w, b),
    ),
    Case("instance_norm", "line", (normal(1, 3, 7),), fn.instance_norm, {}),
    running("instance_norm", (2, 3, 4), use_input_stats=False),
    Case(
        "group_norm",
        "groups",
        (normal(2, 6, 4, 3), normal(6), normal(6)),
        lambda x, w, b: fn.group_norm(x, 3, w, b),
        {},
        ours=lambda x, w, b: mine("group_norm")(x, 3, w, b),
    ),
    Case("group_norm", "one", (normal(2, 6),), fn.group_norm, {"num_groups": 1}),
    Case("group_norm", "each", (normal(1, 4, 5),), fn.group_norm, {"num_groups": 4, "eps": 1e-2}),
    Case("group_norm", "empty", (normal(0, 4, 5),), fn.group_norm, {"num_groups": 2}),
    Case("batchnorm_channel_first", "space", (normal(3, 4, 5), normal(3), normal(3)), channel_first, {}),
]

# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────────────

QKV = (normal(2, 3, 4, 5), normal(2, 3, 6, 5), normal(2, 3, 6, 7))
BLOCKED = np.array([[1, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]], dtype=bool)
sdpa = fn.scaled_dot_product_attention


def masked(q, k, v, mask):
    return sdpa(q, k, v, attn_mask=mask)


def with_dropout(q, k, v, mask):
    weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
    return (weights * mask / 0.75) @ v


ATTENTION = [
    Case("attention", "plain", QKV, sdpa, {}),
    Case("attention", "one-head", (normal(4, 5), normal(6, 5), normal(6, 7)), sdpa, {}),
    Case("attention", "causal", QKV, sdpa, {"is_causal": True}),
    Case("attention", "causal-tall", (normal(2, 6, 3), normal(2, 4, 3), normal(2, 4, 3)), sdpa, {"is_causal": True}),
    Case("attention", "scale", QKV, sdpa, {"scale": 0.3}),
    Case("attention", "shared-heads", (normal(2, 6, 4, 5), *QKV[1:]), sdpa, {"enable_gqa": True}),
    Case("attention", "one-shared-head", (normal(4, 3, 5), *(normal(1, 6, 5),) * 2), sdpa, {"enable_gqa": True}),
    Case("attention", "sharp", QKV, sdpa, {"scale": 30.0}),
    Case("attention", "empty", (normal(0, 4, 5), normal(0, 6, 5), normal(0, 6, 7)), sdpa, {}),
    Case("attention", "allowed", (*QKV, truth(2, 1, 4, 6)), masked, {}),
    Case("attention", "allowed-blocked-row", (*QKV, fixed(BLOCKED)), masked, {}),
    Case("attention", "added", (*QKV, normal(4, 6)), masked, {}),
    Case("attention", "added-blocked-row", (*QKV, fixed(np.where(BLOCKED, 0.5, -np.inf))), masked, {}),
    Case(
        "attention",
        "dropout",
        (*QKV, truth(2, 3, 4, 6)),
        with_dropout,
        {},
        ours=lambda q, k, v, m: mine("attention")(q, k, v, dropout_mask=m, dropout_p=0.25),
    ),
]

E_ = 6
PROJECTIONS = (normal(3 * E_, E_, scale=0.4), normal(3 * E_), normal(E_, E_, scale=0.4), normal(E_))


def heads(q, k, v, wi, bi, wo, bo, **params):
    batch_first = params.pop("batch_first", False)
    if batch_first:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    found, _ = fn.multi_head_attention_forward(
        q, k, v, E_, 2, wi, bi, None, None, False, 0.0, wo, bo, need_weights=False, **params
    )
    return found.transpose(0, 1) if batch_first else found


def heads_mine(q, k, v, wi, bi, wo, bo, **params):
    return mine("multi_head_attention")(q, k, v, 2, wi, bi, wo, bo, **params)


def heads_case(setting, given, names=(), **params):
    """Extra arrays after the seven are given by name."""

    def theirs(*x):
        return heads(*x[:7], **dict(zip(names, x[7:], strict=True)), **params)

    def ours(*x):
        return heads_mine(*x[:7], **dict(zip(names, x[7:], strict=True)), **params)

    return Case("multi_head_attention", setting, given, theirs, {}, ours=ours)


SEQUENCES = (normal(4, 2, E_), normal(5, 2, E_), normal(5, 2, E_), *PROJECTIONS)
HEADS = [
    heads_case("plain", SEQUENCES),
    heads_case("batch-first", (normal(2, 4, E_), normal(2, 5, E_), normal(2, 5, E_), *PROJECTIONS), batch_first=True),
    heads_case("single", (normal(4, E_), normal(5, E_), normal(5, E_), *PROJECTIONS)),
    heads_case("blocked", (*SEQUENCES, truth(4, 5, chance=0.3)), ("attn_mask",)),
    heads_case("blocked-by-head", (*SEQUENCES, truth(4, 4, 5, chance=0.5)), ("attn_mask",)),
    heads_case("added", (*SEQUENCES, normal(4, 5)), ("attn_mask",)),
    heads_case("padding", (*SEQUENCES, fixed([[False, False, True, False, True], [True] * 5])), ("key_padding_mask",)),
    heads_case(
        "padding-and-blocked",
        (*SEQUENCES, truth(2, 5, chance=0.3), truth(4, 5, chance=0.3)),
        ("key_padding_mask", "attn_mask"),
    ),
]

# ── recurrence ──────────────────────────────────────────────────────────────────────────────────────────────────────


def cell_weights(gates, inputs=3, hidden=4):
    return (
        normal(gates * hidden, inputs),
        normal(gates * hidden, hidden),
        normal(gates * hidden),
        normal(gates * hidden),
    )


def lstm_cell(x, h, c, *w):
    return torch.lstm_cell(x, (h, c), *w)


def sequence(name, gates, batch_first=False):
    """A layer of torch.nn, its weights replaced by the given ones."""
    n = 2 if name == "lstm" else 1

    def theirs(x, *given):
        state, weights = given[:n], given[n:]
        layer = {"lstm": torch.lstm, "gru": torch.gru, "rnn": torch.rnn_tanh}[name]
        return layer(x, state if n == 2 else state[0], weights, True, 1, 0.0, False, False, batch_first)

    def ours(x, *given):
        state, weights = given[:n], given[n:]
        return mine(name)(x, state if n == 2 else state[0], *weights, batch_first=batch_first)

    shape = (2, 5, 3) if batch_first else (5, 2, 3)
    given = (normal(*shape), *(normal(1, 2, 4) for _ in range(n)), *cell_weights(gates))
    return Case(name, f"batch-first-{batch_first}", given, theirs, {}, ours=ours)


RECURRENT = [
    *(
        Case(
            "lstm_cell",
            str(n),
            (normal(n, 3), normal(n, 4), normal(n, 4), *cell_weights(4)),
            lstm_cell,
            {},
            ours=lambda x, h, c, *w: mine("lstm_cell")(x, (h, c), *w),
        )
        for n in (2, 1, 0)
    ),
    *(Case("gru_cell", str(n), (normal(n, 3), normal(n, 4), *cell_weights(3)), torch.gru_cell, {}) for n in (2, 1)),
    Case("gru_cell", "no-bias", (normal(2, 3), normal(2, 4), *cell_weights(3)[:2]), torch.gru_cell, {}),
    Case("rnn_cell", "tanh", (normal(2, 3), normal(2, 4), *cell_weights(1)), torch.rnn_tanh_cell, {}),
    Case(
        "rnn_cell",
        "relu",
        (normal(2, 3), normal(2, 4), *cell_weights(1)),
        torch.rnn_relu_cell,
        {},
        ours=lambda *x: mine("rnn_cell")(*x, nonlinearity="relu"),
    ),
    *(sequence(name, gates, first) for name, gates in (("lstm", 4), ("gru", 3), ("rnn", 1)) for first in (False, True)),
]

CASES = [*PLAIN, *NORMS, *ATTENTION, *HEADS, *RECURRENT]
