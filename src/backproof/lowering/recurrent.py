"""Recurrent layers as their kernels take them: all layers and directions at once, weights in one flat list, packed or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backproof.errors import GraphError
from backproof.ir.build import Ref, matmul
from backproof.ir.compose.axes import split
from backproof.ir.compose.linear import linear
from backproof.ir.compose.recurrent import gru_cell, lstm_cell, rnn_cell
from backproof.ir.types import Type
from backproof.lowering.arithmetic import as_real
from backproof.lowering.keys import where_true
from backproof.lowering.lowering import Lowering
from backproof.lowering.masks import masked

State = tuple[Ref, ...]
Cell = Callable[..., State]
"""(what comes in, state, weights) → state."""


def _lstm(x: Ref, state: State, weights: Sequence[Ref], biased: bool) -> State:
    size = 4 if biased else 2
    h, c = lstm_cell(x, (state[0], state[1]), *weights[:size])
    return (matmul(h, _turned(weights[size])) if len(weights) > size else h), c


def _gru(x: Ref, state: State, weights: Sequence[Ref], biased: bool) -> State:
    del biased
    return (gru_cell(x, state[0], *weights),)


def _simple(nonlinearity: Any) -> Cell:
    def cell(x: Ref, state: State, weights: Sequence[Ref], biased: bool) -> State:
        del biased
        w_ih, w_hh, *rest = weights
        b_ih, b_hh = rest or (None, None)
        return (rnn_cell(x, state[0], w_ih, w_hh, b_ih, b_hh, nonlinearity),)

    return cell


def _turned(w: Ref) -> Ref:
    return w.builder.transpose(w, axes=(1, 0))


def _layer(cell: Cell, *, states: int) -> Callable[..., list[Ref]]:
    """The kernel of a kind of cell: of a tensor (x, hx, weights, ..., batch_first), or of packed data (x, sizes, hx, weights, ...)."""

    def lower(x: Ref, *given: Any, dropout_masks: Sequence[Ref] = (), **named: Any) -> list[Ref]:
        if named:
            raise GraphError(f"a recurrent kernel with {', '.join(named)} by name is not lowered")
        packed = len(given) > 2 and isinstance(given[2], list) and isinstance(given[0], Ref)
        if packed:
            sizes, hx, weights, biased, layers, dropout, train, both = given
            drops = _drops(dropout, train, layers, dropout_masks)
            return _packed(cell, states, x, sizes, _state(hx), weights, biased, layers, drops, both)
        hx, weights, biased, layers, dropout, train, both, *first = given
        drops = _drops(dropout, train, layers, dropout_masks)
        return _padded(
            cell, states, x, _state(hx), weights, biased, layers, drops, both, batch_first=bool(first and first[0])
        )

    return lower


Drops = tuple[float, Sequence[Ref]]
"""The probability of dropping out between the layers, and the mask of each place between two."""


def _drops(dropout: float, train: bool, layers: int, masks: Sequence[Ref]) -> Drops:
    if dropout and train and layers > 1 and not masks:
        raise GraphError("the masks of the dropout between its layers stay inside of the kernel")
    return dropout, masks


def _state(hx: Any) -> State:
    return (hx,) if isinstance(hx, Ref) else tuple(hx)


def _padded(
    cell: Cell,
    states: int,
    x: Ref,
    hx: State,
    weights: Sequence[Ref],
    biased: bool,
    layers: int,
    drops: Drops,
    both: bool,
    *,
    batch_first: bool,
) -> list[Ref]:
    turn = batch_first and len(x.shape) == 3
    if turn:
        x = x.builder.transpose(x, axes=(1, 0, 2))
    y, last = _through(cell, x, None, hx, weights, biased, layers, drops, both)
    return [y.builder.transpose(y, axes=(1, 0, 2)) if turn else y, *last[:states]]


def _packed(
    cell: Cell,
    states: int,
    x: Ref,
    sizes: Ref,
    hx: State,
    weights: Sequence[Ref],
    biased: bool,
    layers: int,
    drops: Drops,
    both: bool,
) -> list[Ref]:
    alive = _alive(sizes, hx[0].shape[1])
    padded, rows = unpacked(x, alive), x.shape[0]
    y, last = _through(cell, padded, alive, hx, weights, biased, layers, drops, both)
    return [packed(y, alive, rows), *last[:states]]


def _through(
    cell: Cell,
    x: Ref,
    alive: Ref | None,
    hx: State,
    weights: Sequence[Ref],
    biased: bool,
    layers: int,
    drops: Drops,
    both: bool,
) -> tuple[Ref, State]:
    """All layers, each in one direction or in both: the outputs of the last, and the last states of all."""
    ways = 2 if both else 1
    each = len(weights) // (layers * ways)
    last: list[State] = []
    p, masks = drops
    for layer in range(layers):
        if layer and masks:
            mask = masks[layer - 1]
            x = masked(x, mask if alive is None else unpacked(mask, alive), "dropout", p)
        outputs = []
        for way in range(ways):
            at = layer * ways + way
            start = tuple(h[at] for h in hx)
            y, end = _along(cell, x, alive, start, weights[at * each : (at + 1) * each], biased, backwards=way == 1)
            outputs.append(y)
            last.append(end)
        x = outputs[0] if ways == 1 else x.builder.concat(*outputs, axis=len(x.shape) - 1)
    return x, tuple(_stacked([end[i] for end in last]) for i in range(len(hx)))


def _along(
    cell: Cell, x: Ref, alive: Ref | None, state: State, weights: Sequence[Ref], biased: bool, *, backwards: bool
) -> tuple[Ref, State]:
    """One layer, one way. Where a sequence is over, or has not begun, its state stays."""
    steps = range(x.shape[0])
    outputs: list[Ref] = []
    for t in reversed(steps) if backwards else steps:
        new = cell(x[t], state, weights, biased)
        if alive is not None:
            lives = alive[t]
            new = tuple(_kept(lives, one, old) for one, old in zip(new, state, strict=True))
        state = new
        outputs.append(state[0])
    if not outputs:
        raise GraphError(f"{x.type} is an empty sequence")
    return _stacked(outputs[::-1] if backwards else outputs), state


def _kept(lives: Ref, new: Ref, old: Ref) -> Ref:
    return new.builder.where(new.builder.broadcast(lives, shape=new.shape, axes=(0,)), new, old)


def _stacked(parts: Sequence[Ref]) -> Ref:
    D = parts[0].builder
    return D.concat(*(D.reshape(h, shape=(1, *h.shape)) for h in parts), axis=0)


# ── packed sequences ────────────────────────────────────────────────────────────────────────────────────────────────


def _alive(sizes: Ref, batch: int) -> Ref:
    """Whether sequence n, by length, still goes on at time t: n < sizes[t]."""
    D, shape = sizes.builder, (sizes.shape[0], batch)
    return D.broadcast(D.iota(size=batch), shape=shape, axes=(1,)) < D.broadcast(sizes, shape=shape, axes=(0,))


def unpacked(data: Ref, alive: Ref) -> Ref:
    """Rows, one time after another, laid out as [time, sequence, ...]; zeros where a sequence is over."""
    D = data.builder
    flat = D.cast(D.reshape(alive, shape=(alive.type.size,)), to="real")
    turn = D.cast(D.cumsum(flat, axis=0, reverse=False), to="int")
    place = D.where(D.reshape(alive, shape=turn.shape), D.cast(as_real(turn, data) - 0.5, to="int"), turn.constant(-1))
    return D.gather(data, D.reshape(place, shape=alive.shape), axis=0)


def packed(y: Ref, alive: Ref, rows: int) -> Ref:
    """The rows of sequences that go on, one time after another."""
    flat = y.builder.reshape(y, shape=(alive.type.size, *y.shape[2:]))
    return y.builder.gather(flat, where_true(alive, rows), axis=0)


def _pack(x: Ref, lengths: Ref, batch_first: bool, *, results: tuple[Type, ...]) -> list[Ref]:
    if batch_first:
        x = x.builder.transpose(x, axes=(1, 0, *range(2, len(x.shape))))
    D, time, batch = x.builder, results[1].shape[0], x.shape[1]
    shape = (time, batch)
    alive = D.broadcast(D.iota(size=time), shape=shape, axes=(0,)) < D.broadcast(lengths, shape=shape, axes=(1,))
    sizes = D.sum(D.cast(alive, to="real"), axes=(1,))
    return [packed(x[:time], alive, results[0].shape[0]), D.cast(sizes, to="int")]


def _unpack(
    data: Ref, sizes: Ref, batch_first: bool, padding_value: float, total_length: int, *, results: tuple[Type, ...]
) -> list[Ref]:
    del total_length  # the shape says it
    D, time = data.builder, sizes.shape[0]
    shape = results[0].shape[:2][::-1] if batch_first else results[0].shape[:2]
    alive = _alive(sizes, shape[1])
    found = unpacked(data, alive)
    rest = tuple(range(2, len(found.shape)))
    high = (shape[0] - time, *(0 for _ in found.shape[1:]))
    none = (0,) * len(high)
    found = D.pad(found, low=none, high=high, interior=none) if any(high) else found
    if padding_value:
        lives = D.pad(alive, low=(0, 0), high=high[:2], interior=(0, 0)) if any(high) else alive
        wide = D.broadcast(lives, shape=found.shape, axes=(0, 1))
        found = D.where(wide, found, found.constant(float(padding_value)))
    lengths = D.cast(D.sum(D.cast(alive, to="real"), axes=(0,)), to="int")
    return [D.transpose(found, axes=(1, 0, *rest)) if batch_first else found, lengths]


def _lstm_step(x: Ref, hx: Any, *weights: Any, seen: list[Ref] | None = None) -> list[Ref]:
    """One cell: PyTorch computes h from c by functions of its own, so that what comes back to h comes back to c."""
    h, c = _one_step(_lstm)(x, hx, *weights)
    if seen is None:
        return [h, c]
    D, w = x.builder, [w for w in weights if w is not None]
    gates = linear(x, w[0], w[2] if len(w) > 2 else None) + linear(hx[0], w[1], w[3] if len(w) > 2 else None)
    out = D.sigmoid(split(gates, 4, -1)[3])
    return [out * D.tanh(seen[1]), c]


def _one_step(cell: Cell) -> Callable[..., Any]:
    def lower(x: Ref, hx: Any, *weights: Any) -> Any:
        given = [w for w in weights if w is not None]
        single = len(x.shape) == 1
        rows = [y.builder.reshape(y, shape=(1, *y.shape)) if single else y for y in (x, *_state(hx))]
        found = cell(rows[0], tuple(rows[1:]), given, len(given) > 2)
        found = tuple(y.builder.reshape(y, shape=y.shape[1:]) if single else y for y in found)
        return list(found)

    return lower


RECURRENT = (
    Lowering("lstm", _layer(_lstm, states=2)),
    Lowering("gru", _layer(_gru, states=1)),
    *(Lowering(f"rnn_{kind}", _layer(_simple(kind), states=1)) for kind in ("tanh", "relu")),
    Lowering("lstm_cell", _lstm_step, witnessed=True),
    Lowering("gru_cell", _one_step(_gru)),
    *(Lowering(f"rnn_{kind}_cell", _one_step(_simple(kind))) for kind in ("tanh", "relu")),
    Lowering("_pack_padded_sequence", _pack, sized=True),
    Lowering("_pad_packed_sequence", _unpack, sized=True),
)
