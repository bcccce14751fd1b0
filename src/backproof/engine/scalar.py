"""The engine of classic receipts: one training step of a dense network, every sum from left to right.

All records of one shape are computed at once: the leading axis of every value is the record, so that one step and ten
thousand run through the same lines. The order of every operation is part of the format, because a receipt's bytes
depend on it; sums start at 0 and run in the order of the units. Signals, gradients and optimizer states point in the
direction of *descent*: an update is added.

The carrier of the numbers is free: float64 arrays give the bytes, balls (a value and a radius) give bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backproof.engine.scalar_activations import SMOOTH
from backproof.engine.scalar_domain import Carrier, Domain, Positions


class Wiring(NamedTuple):
    """Which parameter stands where: its place in the parameter vector, for each layer."""

    weights: tuple[Positions, ...]  # one (fan in, fan out) array a layer
    biases: tuple[Positions, ...]  # one (fan out,) array a layer; a shared bias appears several times
    activations: tuple[str, ...]
    loss: str
    updated: Positions  # the parameters that take part in the update, in their order

    @property
    def gradient_order(self) -> Positions:
        """For each updated parameter, where its gradient stands in weights (layer by layer), then biases."""
        flat = np.concatenate([part.ravel() for part in (*self.weights, *self.biases)])
        place = {int(position): i for i, position in reversed(list(enumerate(flat)))}
        return np.array([place[int(position)] for position in self.updated], dtype=np.intp)


class Optimizer(NamedTuple):
    """An optimizer's name and settings; each setting is a number or one number a record."""

    name: str = "sgd"
    learning_rate: Carrier = 0.0
    weight_decay: Carrier = 0.0
    momentum: Carrier = 0.0
    dampening: Carrier = 0.0
    nesterov: bool = False
    beta1: Carrier = 0.0
    beta2: Carrier = 0.0
    epsilon: Carrier = 0.0
    t: Carrier = 1.0


class Layer(NamedTuple):
    """What a layer computed: its net inputs and its outputs."""

    net: Carrier
    out: Carrier


class Pass(NamedTuple):
    """A forward pass and its loss."""

    layers: tuple[Layer, ...]
    per_output: Carrier
    total: Carrier


class Signals(NamedTuple):
    """The backward pass: what flows into every layer, and what becomes of it there."""

    output_factors: tuple[Carrier, ...]
    signals: tuple[Carrier, ...]  # one a layer, input side first
    contributions: tuple[Carrier, ...]  # (…, units, units of the layer above) for each hidden layer
    sums: tuple[Carrier, ...]
    derivatives: tuple[Carrier, ...]


class Step(NamedTuple):
    """Everything that one training step computes. `samples` is the forward pass of each sample of a batch."""

    forward: Pass
    backward: Signals
    gradient: Carrier
    update: Carrier
    parameters_after: Carrier
    state_after: dict[str, Carrier]
    post: Pass
    samples: Pass | None = None
    reduced: Pass | None = None


def run_step(
    domain: Domain,
    wiring: Wiring,
    parameters: Carrier,
    inputs: Carrier,
    targets: Carrier,
    optimizer: Optimizer,
    state: dict[str, Carrier],
) -> Step:
    """One step on one sample a record."""
    before = forward(domain, wiring, parameters, inputs, targets)
    signals = backward(domain, wiring, parameters, before, targets)
    gradient = gradients(domain, wiring, inputs, before, signals)
    return _apply(domain, wiring, parameters, inputs, targets, optimizer, state, before, signals, gradient)


def run_batch(
    domain: Domain,
    wiring: Wiring,
    parameters: Carrier,
    inputs: Carrier,
    targets: Carrier,
    optimizer: Optimizer,
    state: dict[str, Carrier],
    *,
    mean: bool,
) -> Step:
    """One step on a batch: inputs and targets carry an axis of samples after the records."""
    shared = parameters[:, None, :]
    each = forward(domain, wiring, shared, inputs, targets)
    signals = backward(domain, wiring, shared, each, targets)
    size = float(inputs.shape[1])

    def reduce(values: Carrier) -> Carrier:
        total = domain.total(values, axis=1)
        return total / size if mean else total

    gradient = reduce(gradients(domain, wiring, inputs, each, signals))
    first = Pass(_first(each.layers), each.per_output[:, 0], each.total[:, 0])
    first_signals = Signals(
        tuple(factor[:, 0] for factor in signals.output_factors),
        tuple(signal[:, 0] for signal in signals.signals),
        tuple(contribution[:, 0] for contribution in signals.contributions),
        tuple(total[:, 0] for total in signals.sums),
        tuple(derivative[:, 0] for derivative in signals.derivatives),
    )
    x, t = inputs[:, 0], targets[:, 0]
    step = _apply(domain, wiring, parameters, x, t, optimizer, state, first, first_signals, gradient)
    reduced = Pass((), reduce(each.per_output), reduce(each.total))
    return Step(
        step.forward,
        step.backward,
        step.gradient,
        step.update,
        step.parameters_after,
        step.state_after,
        step.post,
        samples=each,
        reduced=reduced,
    )


def forward(domain: Domain, wiring: Wiring, parameters: Carrier, inputs: Carrier, targets: Carrier) -> Pass:
    """Net = Σ x·w + b, out = activation(net), for each layer; then the loss."""
    layers: list[Layer] = []
    x = inputs
    for weights, biases, activation in zip(wiring.weights, wiring.biases, wiring.activations, strict=True):
        net = domain.total(x[..., :, None] * parameters[..., weights], axis=-2) + parameters[..., biases]
        x = activate(domain, activation, net)
        layers.append(Layer(net, x))
    per_output = losses(domain, wiring.loss, targets, layers[-1])
    return Pass(tuple(layers), per_output, domain.total(per_output, axis=-1))


def activate(domain: Domain, activation: str, net: Carrier) -> Carrier:
    """The outputs of a layer from its net inputs."""
    if activation == "sigmoid":
        return domain.sigmoid(net)
    if activation == "relu":
        return domain.relu(net)
    if activation == "softmax":
        return domain.softmax(net)
    return domain.value(SMOOTH[activation], net) if activation in SMOOTH else net


def derivative(domain: Domain, activation: str, layer: Layer) -> Carrier:
    """activation'(net): of the classic ones from the output, as their receipts compute it."""
    if activation in SMOOTH:
        return domain.slope(SMOOTH[activation], layer.net)
    if activation == "sigmoid":
        return layer.out * (1.0 - layer.out)
    return domain.step(layer.out) if activation == "relu" else 0.0 * layer.out + 1.0


def losses(domain: Domain, loss: str, target: Carrier, layer: Layer) -> Carrier:
    """Each output's share: ½(t − o)², or −t·ln p."""
    if loss == "cross_entropy_softmax":
        return domain.unless_zero(target, -target * domain.log_softmax(layer.net, layer.out))
    difference = target - layer.out
    return (0.5 * difference) * difference


def backward(domain: Domain, wiring: Wiring, parameters: Carrier, before: Pass, targets: Carrier) -> Signals:
    """Every unit's error signal, −∂L/∂net, from the last layer to the first."""
    out = before.layers[-1].out
    difference = targets - out
    if wiring.loss == "cross_entropy_softmax":
        factors: tuple[Carrier, ...] = (difference,)
        signal = difference
    else:
        factors = (difference, derivative(domain, wiring.activations[-1], before.layers[-1]))
        signal = factors[0] * factors[1]
    signals = [signal]
    contributions: list[Carrier] = []
    sums: list[Carrier] = []
    derivatives: list[Carrier] = []
    for layer in range(len(wiring.weights) - 2, -1, -1):
        flows = signal[..., None, :] * parameters[..., wiring.weights[layer + 1]]
        summed = domain.total(flows, axis=-1)
        slope = derivative(domain, wiring.activations[layer], before.layers[layer])
        signal = summed * slope
        signals.insert(0, signal)
        contributions.insert(0, flows)
        sums.insert(0, summed)
        derivatives.insert(0, slope)
    return Signals(factors, tuple(signals), tuple(contributions), tuple(sums), tuple(derivatives))


def gradients(domain: Domain, wiring: Wiring, inputs: Carrier, before: Pass, signals: Signals) -> Carrier:
    """The gradient of each updated parameter: signal · upstream output for a weight, the signal for a bias."""
    upstream = [inputs, *(layer.out for layer in before.layers[:-1])]
    parts = []
    for signal, x in zip(signals.signals, upstream, strict=True):
        product = signal[..., None, :] * x[..., :, None]
        parts.append(product.reshape((*product.shape[:-2], product.shape[-2] * product.shape[-1])))
    return domain.join([*parts, *signals.signals])[..., wiring.gradient_order]


def apply_optimizer(
    domain: Domain, optimizer: Optimizer, weight: Carrier, gradient: Carrier, state: dict[str, Carrier]
) -> tuple[Carrier, Carrier, dict[str, Carrier]]:
    """The update, the parameter after it, and the optimizer's state after it, for each parameter."""
    rate = _column(optimizer.learning_rate)
    decay = _column(optimizer.weight_decay)
    if optimizer.name in {"adam", "adamw"}:
        beta1, beta2, t = _column(optimizer.beta1), _column(optimizer.beta2), _column(optimizer.t)
        m = beta1 * state["m"] + (1.0 - beta1) * gradient
        v = beta2 * state["v"] + (1.0 - beta2) * (gradient * gradient)
        m_hat = m / (1.0 - domain.power(beta1, t))
        v_hat = v / (1.0 - domain.power(beta2, t))
        update = (rate * m_hat) / (domain.sqrt(v_hat) + _column(optimizer.epsilon))
        update = domain.at_most(update, lambda: _largest_adam(domain, optimizer, state))
        kept = (1.0 - rate * decay) * weight if optimizer.name == "adamw" else weight
        return update, kept + update, {"m": m, "v": v}
    effective = gradient - decay * weight
    if optimizer.name == "sgd_momentum":
        momentum = _column(optimizer.momentum)
        buffer = momentum * state["buffer"] + (1.0 - _column(optimizer.dampening)) * effective
        update = rate * (effective + momentum * buffer if optimizer.nesterov else buffer)
        return update, weight + update, {"buffer": buffer}
    update = rate * effective
    return update, weight + update, {}


def _largest_adam(domain: Domain, optimizer: Optimizer, state: dict[str, Carrier]) -> Carrier:
    """The largest size of an update of Adam, whatever the gradient is: by the inequality of Cauchy and Schwarz.

    |β₁m + (1 − β₁)g| ≤ √(β₁²m²/x + (1 − β₁)²/(1 − β₂)) · √(x + (1 − β₂)g²) for any x > 0. With x = β₂v + (1 − β₂ᵗ)ε² the
    second root is at most √(1 − β₂ᵗ)·(√v̂ + ε).
    """
    beta1, beta2, t = _column(optimizer.beta1), _column(optimizer.beta2), _column(optimizer.t)
    kept, epsilon = beta1 * state["m"], _column(optimizer.epsilon)
    correction = 1.0 - domain.power(beta2, t)
    inertia = (kept * kept) / (beta2 * state["v"] + correction * (epsilon * epsilon))
    ratio = domain.sqrt(inertia + ((1.0 - beta1) * (1.0 - beta1)) / (1.0 - beta2))
    corrected = domain.sqrt(correction) / (1.0 - domain.power(beta1, t))
    return (_column(optimizer.learning_rate) * corrected) * ratio


def _apply(
    domain: Domain,
    wiring: Wiring,
    parameters: Carrier,
    inputs: Carrier,
    targets: Carrier,
    optimizer: Optimizer,
    state: dict[str, Carrier],
    before: Pass,
    signals: Signals,
    gradient: Carrier,
) -> Step:
    weight = parameters[..., wiring.updated]
    update, after, state_after = apply_optimizer(domain, optimizer, weight, gradient, state)
    parameters_after = domain.put(parameters, wiring.updated, after)
    post = forward(domain, wiring, parameters_after, inputs, targets)
    return Step(before, signals, gradient, update, parameters_after, state_after, post)


def _first(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    return tuple(Layer(layer.net[:, 0], layer.out[:, 0]) for layer in layers)


def _column(setting: Carrier) -> Carrier:
    """A setting beside the parameters: one number a record becomes a column."""
    return setting if isinstance(setting, float | int) else setting[..., None]
