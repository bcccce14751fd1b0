"""Layers, activations, attention, recurrent layers; random masks and running statistics."""

from __future__ import annotations

from dataclasses import replace

import torch
from beside_torch import Use, use
from given import above, blank, plain, real, truth
from torch import nn

F = torch.nn.functional
X, L, P, Q = real(5, 8), real(2, 4, 9), real(2, 4, 6, 7), real(2, 4, 5, 4, 4)
IDS, TABLE = torch.tensor([[0, 3, 3], [5, 1, 0]]), real(7, 4)
GAIN, SHIFT = above(4), real(4, seed=1)
HEADS = [real(2, 3, 5, 4, seed=seed) for seed in range(3)]
CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()


def statistics(norm, x, training=True, momentum=0.1):
    """A norm with running statistics, and what becomes of them."""
    mean, variance = torch.zeros(4, dtype=x.dtype), torch.ones(4, dtype=x.dtype)
    y = norm(x, mean, variance, None, None, training, momentum, 1e-5)
    return y, mean * 1.0, variance * 1.0


def kernel_order(norm, x, weight, bias):
    mean, variance = torch.zeros(4, dtype=x.dtype), torch.ones(4, dtype=x.dtype)
    return norm(x, weight, bias, mean, variance, True, 0.1, 1e-5, False)


def grouped(a, b, ends):
    return torch._grouped_mm(a.bfloat16(), b.bfloat16(), offs=ends)


NETWORKS: list[Use] = [
    use(F.linear, X, real(3, 8), real(3)),
    use(F.linear, real(2, 3, 8), real(8)),
    use(F.embedding, IDS, TABLE),
    use(F.embedding, IDS, TABLE, padding_idx=3),
    use(torch.embedding, TABLE, IDS, 3),
    use(F.embedding, IDS, TABLE, scale_grad_by_freq=True),
    use(F.embedding_bag, IDS, TABLE, padding_idx=3),
    use(F.embedding_bag, IDS, TABLE, mode="sum", padding_idx=1),
    use(F.embedding_bag, IDS.flatten(), TABLE, torch.tensor([0, 2, 2]), padding_idx=2),
    use(F.embedding_bag, IDS, TABLE),
    use(F.embedding_bag, IDS, TABLE, mode="sum", per_sample_weights=real(2, 3)),
    use(F.embedding_bag, IDS, TABLE, mode="max"),
    use(F.embedding_bag, IDS.flatten(), TABLE, torch.tensor([0, 2, 2])),
    use(F.embedding_bag, IDS.flatten(), TABLE, torch.tensor([0, 4, 6]), mode="sum", include_last_offset=True),
    use(F.conv1d, L, real(6, 4, 3), real(6)),
    use(F.conv1d, L, real(8, 1, 3), None, 2, 1, 2, 4),
    use(F.conv2d, P, real(6, 4, 3, 2), real(6), (2, 1), (1, 0)),
    use(F.conv2d, P, real(6, 2, 3, 3), None, 1, "same", 1, 2),
    use(F.conv2d, P, real(6, 4, 2, 2), padding="valid"),
    use(F.conv2d, real(4, 6, 7), real(6, 4, 3, 3)),
    use(F.conv3d, Q, real(3, 4, 2, 2, 2), real(3), padding=1),
    use(F.conv_transpose1d, L, real(4, 3, 3), real(3), 2, 1, 1),
    use(F.conv_transpose2d, P, real(4, 3, 3, 2), real(6), (2, 1), 1, 0, 2, 1),
    use(F.conv_transpose2d, P, real(4, 3, 2, 2), None, 2, dilation=2, output_padding=1),
    use(F.conv_transpose3d, Q, real(4, 2, 2, 2, 2), real(2), 2),
    use(F.layer_norm, X, (8,), above(8), real(8, seed=1)),
    use(F.layer_norm, real(2, 3, 4), (3, 4), eps=1e-3),
    use(F.layer_norm, X, (8,), above(8)),
    use(F.rms_norm, X, (8,), above(8), 1e-6),
    use(F.rms_norm, X, (8,)),
    use(F.group_norm, P, 2, GAIN, SHIFT),
    use(F.group_norm, real(3, 8), 4, eps=1e-2),
    use(F.batch_norm, P, None, None, GAIN, SHIFT, True),
    use(F.batch_norm, P, plain(SHIFT), plain(GAIN), GAIN, SHIFT),
    use(F.batch_norm, X, None, None, training=True, eps=1e-2),
    use(statistics, F.batch_norm, P),
    use(statistics, F.batch_norm, P, momentum=0.5),
    use(kernel_order, torch.batch_norm, P, GAIN, SHIFT),
    use(F.instance_norm, P, None, None, GAIN, SHIFT),
    use(F.instance_norm, L),
    use(F.instance_norm, P, plain(SHIFT), plain(GAIN), use_input_stats=False),
    use(statistics, F.instance_norm, P),
    use(kernel_order, torch.instance_norm, P, GAIN, SHIFT),
    use(F.local_response_norm, P, 3),
    use(F.local_response_norm, P, 2, 0.5, 0.6, 2.0),
    use(F.normalize, X),
    use(F.normalize, X, 3, 0, 1e-3),
    use(F.normalize, blank(5, 8)),
    use(F.normalize, blank(5, 8), 3),
    use(F.cosine_similarity, X, real(5, 8, seed=1)),
    use(F.cosine_similarity, blank(5, 8), real(5, 8, seed=1)),
    use(F.cosine_similarity, X, real(1, 8, seed=1), 0, 1e-3),
    use(torch._weight_norm, real(3, 4), above(3, 1)),
    use(torch._weight_norm, real(3, 4), above(1, 4), 1),
    use(F.softmax, X, 1),
    use(F.softmax, L),
    use(torch.softmax, X, -1, dtype=torch.float64),
    use(F.softmax, torch.where(truth(5, 8), plain(X), float("-inf")), -1),
    use(F.softmin, X, 0),
    use(F.log_softmax, X, -1),
    use(torch.log_softmax, L, 1),
    use(F.scaled_dot_product_attention, *HEADS),
    use(F.scaled_dot_product_attention, *HEADS, is_causal=True),
    use(F.scaled_dot_product_attention, *HEADS, CAUSAL, scale=0.3),
    use(F.scaled_dot_product_attention, *HEADS, real(5, 5)),
    use(F.scaled_dot_product_attention, *HEADS, None, 0.4),
    use(F.scaled_dot_product_attention, real(2, 6, 5, 4), *HEADS[1:], enable_gqa=True),
    use(torch.cdist, X, real(3, 8, seed=1)),
    use(torch.cdist, X, plain(X[:3])),
    use(lambda x: torch.cdist(x, x), X),
    use(torch.cdist, real(2, 30, 8), real(2, 3, 8, seed=1)),
    use(torch.cdist, X, real(3, 8, seed=1), compute_mode="use_mm_for_euclid_dist"),
    use(torch.cdist, X, real(3, 8, seed=1), 1.0),
    use(F.pdist, X),
    use(F.pdist, X, 1.0),
    use(torch.cdist, X, real(3, 8, seed=1), 3.0),
    use(F.relu, X),
    use(lambda x: F.relu(x * 2, inplace=True), X),
    use(F.rrelu, X),
    use(F.gelu, X),
    use(F.gelu, X, approximate="tanh"),
    use(F.glu, X),
    use(F.glu, L, 1),
    use(F.softplus, X),
    use(F.softplus, X, 2.0, 1.5),
    use(F.leaky_relu, X, 0.2),
    use(F.prelu, P, GAIN),
    use(F.prelu, X, real(1)),
    use(F.elu, X, 1.5),
    use(F.celu, X, 0.7),
    use(F.hardtanh, X, -0.5, 1.25),
    use(F.softshrink, X, 0.7),
    use(F.hardshrink, X, 0.7),
    use(F.threshold, X, 0.3, -1.0),
    *(
        use(getattr(F, name), X)
        for name in "silu mish softsign tanhshrink logsigmoid selu relu6 hardsigmoid hardswish hardtanh elu celu".split()
    ),
    *(use(getattr(F, name), real(4, 5, seed=2, low=-6, high=6)) for name in "relu6 hardsigmoid hardswish silu".split()),
    use(F.dropout, X, 0.3, training=False),
    use(F.one_hot, IDS, 7),
    use(F.one_hot, IDS),
    use(torch.histc, plain(X), 4, -2, 2),
    use(grouped, real(8, 16), real(2, 16, 8), torch.tensor([3, 8], dtype=torch.int32)),
]


RANDOM: list[Use] = [
    use(F.dropout, X, 0.3),
    use(F.dropout1d, L, 0.5),
    use(F.dropout2d, P, 0.5),
    use(F.dropout3d, Q, 0.5),
    use(F.alpha_dropout, X, 0.3, training=True),
    use(F.feature_alpha_dropout, P, 0.5, training=True),
    use(F.dropout, X, 1.0),
    use(lambda x: F.dropout(x * 2, 0.5, inplace=True), X),
    use(F.scaled_dot_product_attention, *HEADS, CAUSAL, 0.5),
]
"""What draws a mask: it is recovered where a step is verified, and has no formula of its own."""


def over(layer, x, weights, packed=None):
    """A recurrent layer with these weights, and all that it gives."""
    if packed is None:
        return torch.func.functional_call(layer, weights, (x,))
    rows = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), **packed)
    y, state = torch.func.functional_call(layer, weights, (rows,))
    return *nn.utils.rnn.pad_packed_sequence(y, padding_value=0.5), state


def cell(layer, x, h, weights):
    return torch.func.functional_call(layer, weights, (x, (h, h * 0.5) if isinstance(layer, nn.LSTMCell) else h))


def recurrent(call, kind, *given, **options):
    """The use of a layer of a kind: its options, and how it is called."""
    packed = {"packed": options.pop("packed")} if "packed" in options else {}
    layer = kind(4, 3, **options)
    weights = {name: real(*weight.shape, low=-0.8, high=0.8) for name, weight in layer.named_parameters()}
    found = use(call, layer, *given, weights=weights, **packed)
    return replace(found, setting=f"{kind.__name__} {options} {packed}")


TIME = real(5, 2, 4)
DEEP = {"num_layers": 2, "bidirectional": True, "batch_first": True}
UNSORTED = {"enforce_sorted": False}
RECURRENT: list[Use] = [
    *(recurrent(over, kind, TIME) for kind in (nn.LSTM, nn.GRU, nn.RNN)),
    *(recurrent(over, kind, TIME, **DEEP) for kind in (nn.LSTM, nn.GRU, nn.RNN)),
    *(recurrent(over, kind, TIME, packed=UNSORTED) for kind in (nn.LSTM, nn.GRU, nn.RNN)),
    *(recurrent(over, kind, TIME, packed={}, num_layers=2) for kind in (nn.LSTM, nn.GRU)),
    recurrent(over, nn.LSTM, TIME, proj_size=2, num_layers=2),
    recurrent(over, nn.LSTM, real(5, 4)),
    recurrent(over, nn.GRU, TIME, bias=False),
    recurrent(over, nn.RNN, TIME, nonlinearity="relu"),
    *(recurrent(cell, kind, real(2, 4), real(2, 3)) for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)),
    *(recurrent(cell, kind, real(4), real(3)) for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)),
    recurrent(cell, nn.RNNCell, real(2, 4), real(2, 3), nonlinearity="relu", bias=False),
]
