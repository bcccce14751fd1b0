"""Mistakes to plant in the network of `mill`, each with the tensor that must be named first."""

from dataclasses import dataclass

import numpy as np
from mill import Wrong, sgd


@dataclass(frozen=True)
class Planted:
    """A mistake, and where it shows first."""

    name: str
    first: str
    wrong: Wrong
    steps: int = 1
    side: str = "b"


def _norm(y, reads, held, s, eps=1e-5, ddof=0):
    x = reads[0].astype(np.float64)
    off = x - x.mean((1, 2), keepdims=True)
    return off / np.sqrt(x.var((1, 2), keepdims=True, ddof=ddof) + eps) * held["weight"] + held["bias"]


def _norm_back(part, reads, seed, held, *, mean=True, projection=True):
    x, g = reads[0].astype(np.float64), seed * held["weight"]
    r = 1 / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    n = (x - x.mean((1, 2), keepdims=True)) * r
    found = g - (g.mean((1, 2), keepdims=True) if mean else 0)
    return r * (found - (n * (g * n).mean((1, 2), keepdims=True) if projection else 0))


def _tanh_gelu(y, reads, held, s):
    x = reads[0].astype(np.float64)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _tanh_gelu_back(part, reads, seed, held):
    x = reads[0].astype(np.float64)
    u = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    du = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x * x)
    return seed * (0.5 * (1 + np.tanh(u)) + 0.5 * x * (1 - np.tanh(u) ** 2) * du)


def _one_channel(y, reads, held, s):
    y = np.array(y)
    y[:, 3] = 0
    return y


def _shifted_pool(y, reads, held, s):
    x = np.concatenate([reads[0][:, :, 1:], reads[0][:, :, -1:]], 2)
    return np.maximum(x[:, :, ::2], x[:, :, 1::2])


def _route_next(part, reads, seed, held):
    return np.roll(part, 1, axis=2)


def _unflipped(part, reads, seed, held):
    w = held["weight"]
    pad = np.pad(seed, ((0, 0), (0, 0), (1, 1)))
    return sum(np.einsum("oc,not->nct", w[:, :, k], pad[:, :, k : k + seed.shape[2]]) for k in range(3))


def _raw_gamma(parts, layer):
    return [(seed * reads[0])[0] for reads, seed in layer]


def _update(lr=1.0, momentum=1.0, decay=1.0, nesterov=False, only=None, still=None):
    def rule(place, w, g, v, settings, step):
        if still and place[0] == still:
            return w, v
        if only and place != only:
            return sgd(place, w, g, v, settings, step)
        changed = {
            **settings,
            "momentum": settings["momentum"] * momentum,
            "weight_decay": settings["weight_decay"] * decay,
        }
        changed["lr"] = settings["lr"] * lr
        after, v = sgd(place, w, g, v, changed, step)
        if nesterov:
            after = (
                after
                - w.dtype.type(settings["lr"] * settings["momentum"]) * v
                + w.dtype.type(settings["lr"]) * (v - g - w * w.dtype.type(0.01))
            )
        return after, v

    return rule


def _bias_only(place, raw, batch):
    return raw if place[1] == "bias" else raw / batch


def _restored(place, w, step):
    return w * w.dtype.type(1.0001) if step == 1 and place == ("conv2", "weight") else w


def _zeros(parts, layer):
    return [0 * g for g in parts["bias"]]


EXCHANGED = {("ln1", "weight"): lambda p, r: p["bias"], ("ln1", "bias"): lambda p, r: p["weight"]}

PLANTED = (
    Planted("layer norm, epsilon 1e-3", "ln1.fwd", Wrong(output={"ln1": lambda y, r, h, s: _norm(y, r, h, s, eps=1e-3)})),
    Planted("layer norm, epsilon 1e-4", "ln1.fwd", Wrong(output={"ln1": lambda y, r, h, s: _norm(y, r, h, s, eps=1e-4)})),
    Planted("layer norm, unbiased variance", "ln1.fwd", Wrong(output={"ln1": lambda y, r, h, s: _norm(y, r, h, s, ddof=1)})),
    Planted("convolution without its bias", "conv1.fwd", Wrong(output={"conv1": lambda y, r, h, s: y - h["bias"][None, :, None]})),
    Planted("convolution shifted by one", "conv1.fwd", Wrong(output={"conv1": lambda y, r, h, s: np.roll(y, 1, 2)})),
    Planted("GELU by tanh", "act.fwd", Wrong(output={"act": _tanh_gelu})),
    Planted("pooling windows off by one", "pool1.fwd", Wrong(output={"pool1": _shifted_pool})),
    Planted("a channel of zeros", "conv2.fwd", Wrong(output={"conv2": _one_channel})),
    Planted("a skip connection forgotten", "sum.fwd", Wrong(output={"sum": lambda y, r, h, s: r[0]})),
    Planted("a weight transposed", "mix.fwd", Wrong(output={"mix": lambda y, r, h, s: r[0] @ h["weight"] + h["bias"]})),
    Planted("one sample a little larger", "conv2.fwd", Wrong(output={"conv2": lambda y, r, h, s: y * 1.001 if s == 2 else y})),
    Planted("an activation in half precision", "act.fwd", Wrong(output={"act": lambda y, r, h, s: y.astype(np.float16)})),
    Planted("loss gradient doubled", "loss.lossgrad", Wrong(lossgrad=lambda g, r, b: 2 * g)),
    Planted("loss gradient negated", "loss.lossgrad", Wrong(lossgrad=lambda g, r, b: -g)),
    Planted("loss gradient of the next class", "loss.lossgrad", Wrong(lossgrad=lambda g, r, b: np.roll(g, 1, 1))),
    Planted("loss gradient divided by the batch", "loss.lossgrad", Wrong(lossgrad=lambda g, r, b: g / b)),
    Planted("layer norm backward without the mean", "conv1.agrad", Wrong(back={"ln1": lambda *x: _norm_back(*x, mean=False)})),
    Planted("layer norm backward without the projection", "conv1.agrad", Wrong(back={"ln1": lambda *x: _norm_back(*x, projection=False)})),
    Planted("relu backward without its mask", "ln1.agrad", Wrong(back={"relu1": lambda p, r, g, h: g})),
    Planted("max pool sends its gradient next door", "relu1.agrad", Wrong(back={"pool1": _route_next})),
    Planted("convolution backward unflipped", "pool1.agrad", Wrong(back={"conv2": _unflipped})),
    Planted("GELU backward by tanh", "conv2.agrad", Wrong(back={"act": _tanh_gelu_back})),
    Planted("a skip connection without its gradient", "act.agrad", Wrong(back={"sum": lambda p, r, g, h: 0 * p})),
    Planted("linear backward transposed", "flatten.agrad", Wrong(back={"mix": lambda p, r, g, h: g @ h["weight"].T})),
    Planted("layer norm, gamma's gradient from raw x", "ln1.grad_raw.weight", Wrong(gradient={("ln1", "weight"): _raw_gamma})),
    Planted("layer norm, gradients exchanged", "ln1.grad_raw.weight", Wrong(gradient=EXCHANGED)),
    Planted("a bias without a gradient", "conv1.grad_raw.bias", Wrong(gradient={("conv1", "bias"): _zeros})),
    Planted("the last sample left out", "conv2.grad_raw.weight", Wrong(gradient={("conv2", "weight"): lambda p, r: p["weight"][:-1]})),
    Planted("the first sample twice", "fc.grad_raw.bias", Wrong(gradient={("fc", "bias"): lambda p, r: [p["bias"][0], *p["bias"]]})),
    Planted("mean over B − 1", "fc.grad_scaled.weight", Wrong(scale=lambda place, raw, b: raw / (b - 1))),
    Planted("a sum for a mean", "fc.grad_scaled.weight", Wrong(scale=lambda place, raw, b: raw)),
    Planted("biases not scaled", "fc.grad_scaled.bias", Wrong(scale=_bias_only)),
    Planted("learning rate × 1.5", "conv1.w_after.weight", Wrong(update=_update(lr=1.5))),
    Planted("learning rate × 1.05", "conv1.w_after.weight", Wrong(update=_update(lr=1.05))),
    Planted("learning rate × 1.001", "conv1.w_after.weight", Wrong(update=_update(lr=1.001))),
    Planted("a layer that is never updated", "ln1.opt_after.weight.momentum_buffer", Wrong(update=_update(still="ln1"))),
    Planted("Nesterov's momentum for plain", "conv1.w_after.weight", Wrong(update=_update(nesterov=True))),
    Planted("no weight decay", "conv1.opt_after.weight.momentum_buffer", Wrong(update=_update(decay=0.0))),
    Planted("momentum negated", "conv1.opt_after.weight.momentum_buffer", Wrong(update=_update(momentum=-1.0)), steps=2),
    Planted("momentum 0.91 for 0.9", "conv1.opt_after.weight.momentum_buffer", Wrong(update=_update(momentum=0.91 / 0.9)), steps=2),
    Planted("parameters changed between steps", "conv2.w_before.weight", Wrong(start=_restored), steps=2),
)  # fmt: skip
