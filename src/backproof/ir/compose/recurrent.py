"""Recurrent cells, and one layer of them over a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.axes import split
from backproof.ir.compose.linear import linear
from backproof.ir.compose.record import Composition

State = tuple[Ref, ...]
Step = Callable[[Ref, State], State]  # (what the input gives to the gates, state) → state


def _lstm_step(gates: Ref, c: Ref) -> State:
    D = gates.builder
    i, f, g, o = split(gates, 4, -1)
    new = D.sigmoid(f) * c + D.sigmoid(i) * D.tanh(g)
    return D.sigmoid(o) * D.tanh(new), new


def _gru_step(from_x: Ref, from_h: Ref, h: Ref) -> Ref:
    D = h.builder
    (xr, xz, xn), (hr, hz, hn) = split(from_x, 3, -1), split(from_h, 3, -1)
    r, z = D.sigmoid(xr + hr), D.sigmoid(xz + hz)
    return (1.0 - z) * D.tanh(xn + r * hn) + z * h


def _rnn_step(gates: Ref, nonlinearity: str) -> Ref:
    if nonlinearity not in ("tanh", "relu"):
        raise GraphError(f"rnn: nonlinearity is {nonlinearity!r}; there are 'tanh' and 'relu'")
    return gates.builder.apply(nonlinearity, gates)


def lstm_cell(
    x: Ref, hx: tuple[Ref, Ref], w_ih: Ref, w_hh: Ref, b_ih: Ref | None = None, b_hh: Ref | None = None
) -> tuple[Ref, Ref]:
    """c′ = σ(f)·c + σ(i)·tanh(g), h′ = σ(o)·tanh(c′); the rows of the weights are i, f, g, o."""
    h, c = _lstm_step(linear(x, w_ih, b_ih) + linear(hx[0], w_hh, b_hh), hx[1])
    return h, c


def gru_cell(x: Ref, hx: Ref, w_ih: Ref, w_hh: Ref, b_ih: Ref | None = None, b_hh: Ref | None = None) -> Ref:
    """h′ = (1 − z)·n + z·h with n = tanh(xₙ + r·hₙ); the rows of the weights are r, z, n."""
    return _gru_step(linear(x, w_ih, b_ih), linear(hx, w_hh, b_hh), hx)


def rnn_cell(
    x: Ref,
    hx: Ref,
    w_ih: Ref,
    w_hh: Ref,
    b_ih: Ref | None = None,
    b_hh: Ref | None = None,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
) -> Ref:
    """h′ = tanh(Wx + Uh + b), or relu of it."""
    return _rnn_step(linear(x, w_ih, b_ih) + linear(hx, w_hh, b_hh), nonlinearity)


def _over(x: Ref, start: State, step: Step, *, batch_first: bool, reverse: bool) -> tuple[Ref, State]:
    """The step along time: all outputs and the last state. The state has a first axis of size 1, the layer."""
    D, time = x.builder, 1 if batch_first and len(x.shape) == 3 else 0
    state = tuple(D.reshape(h, shape=h.shape[1:]) for h in start)
    outputs: list[Ref] = []
    for t in reversed(range(x.shape[time])) if reverse else range(x.shape[time]):
        state = step(x[:, t] if time else x[t], state)
        outputs.append(state[0])
    if not outputs:
        raise GraphError(f"{x.type} is an empty sequence")
    stacked = [
        D.reshape(h, shape=(*h.shape[:time], 1, *h.shape[time:])) for h in (outputs[::-1] if reverse else outputs)
    ]
    return D.concat(*stacked, axis=time), tuple(D.reshape(h, shape=(1, *h.shape)) for h in state)


def _zeros(x: Ref, w_hh: Ref, *, batch_first: bool) -> Ref:
    batch = () if len(x.shape) == 2 else (x.shape[0 if batch_first else 1],)
    return x.constant(0.0, (1, *batch, w_hh.shape[1]))


def lstm(
    x: Ref,
    hx: tuple[Ref, Ref] | None,
    w_ih: Ref,
    w_hh: Ref,
    b_ih: Ref | None = None,
    b_hh: Ref | None = None,
    batch_first: bool = False,
    reverse: bool = False,
) -> tuple[Ref, tuple[Ref, Ref]]:
    """One layer of LSTM cells along x(time, batch, in): outputs, and the last (h, c), each (1, batch, hidden)."""
    if hx is None:
        hx = (_zeros(x, w_hh, batch_first=batch_first),) * 2

    def step(row: Ref, state: State) -> State:
        return _lstm_step(row + linear(state[0], w_hh, b_hh), state[1])

    found, (h, c) = _over(linear(x, w_ih, b_ih), hx, step, batch_first=batch_first, reverse=reverse)
    return found, (h, c)


def gru(
    x: Ref,
    hx: Ref | None,
    w_ih: Ref,
    w_hh: Ref,
    b_ih: Ref | None = None,
    b_hh: Ref | None = None,
    batch_first: bool = False,
    reverse: bool = False,
) -> tuple[Ref, Ref]:
    """One layer of GRU cells along x(time, batch, in): outputs, and the last h (1, batch, hidden)."""
    start = hx if hx is not None else _zeros(x, w_hh, batch_first=batch_first)

    def step(row: Ref, state: State) -> State:
        return (_gru_step(row, linear(state[0], w_hh, b_hh), state[0]),)

    found, (h,) = _over(linear(x, w_ih, b_ih), (start,), step, batch_first=batch_first, reverse=reverse)
    return found, h


def rnn(
    x: Ref,
    hx: Ref | None,
    w_ih: Ref,
    w_hh: Ref,
    b_ih: Ref | None = None,
    b_hh: Ref | None = None,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
    batch_first: bool = False,
    reverse: bool = False,
) -> tuple[Ref, Ref]:
    """One layer of simple cells along x(time, batch, in): outputs, and the last h (1, batch, hidden)."""
    start = hx if hx is not None else _zeros(x, w_hh, batch_first=batch_first)

    def step(row: Ref, state: State) -> State:
        return (_rnn_step(row + linear(state[0], w_hh, b_hh), nonlinearity),)

    found, (h,) = _over(linear(x, w_ih, b_ih), (start,), step, batch_first=batch_first, reverse=reverse)
    return found, h


RECURRENT = (
    Composition("lstm_cell", "c′ = σ(f)·c + σ(i)·tanh(g), h′ = σ(o)·tanh(c′), gates = W·x + U·h + b", lstm_cell),
    Composition("gru_cell", "h′ = (1 − z)·tanh(xₙ + r·hₙ) + z·h", gru_cell),
    Composition("rnn_cell", "h′ = tanh(W·x + U·h + b)", rnn_cell),
    Composition("lstm", "the LSTM cell along time", lstm),
    Composition("gru", "the GRU cell along time", gru),
    Composition("rnn", "the simple cell along time", rnn),
)
