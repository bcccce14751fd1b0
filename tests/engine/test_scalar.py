"""The scalar engine: its published bytes, and that records do not see each other."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from backproof.engine.scalar import Optimizer, Wiring, run_batch, run_step
from backproof.engine.scalar_domain import FLOATS
from backproof.receipt import emit
from backproof.receipt.authoring import BUILTIN, author_mazur, author_step

PUBLISHED = {
    "mazur": "e781a6d214acc29ec113f40664b2994fa3d50b4d60663115f7d7ac227954b71a",
    "xor": "5544b82eabc0e02867badf6c8ede14492f21402ea84072dc738acf42f23e0f30",
    "iris": "fe0ca041e7089636c81704e0a170e8e94c81fcc8e28ba9ae15ae2a5fae9d9c03",
}
WIRING = Wiring(
    weights=(np.arange(6).reshape(3, 2), np.arange(6, 10).reshape(2, 2)),
    biases=(np.array([10, 11]), np.array([12, 13])),
    activations=("sigmoid", "softmax"),
    loss="cross_entropy_softmax",
    updated=np.arange(14),
)
OPTIMIZERS = (
    Optimizer("sgd", 0.1, weight_decay=0.01),
    Optimizer("sgd_momentum", 0.1, momentum=0.9, nesterov=True),
    Optimizer("adam", 0.1, beta1=0.9, beta2=0.999, epsilon=1e-8),
    Optimizer("adamw", 0.1, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.1),
)


def arguments(records, seed=0):
    rng = np.random.default_rng(seed)
    targets = np.zeros((records, 2))
    targets[:, 0] = 1.0
    state = {key: np.abs(rng.normal(size=(records, 14))) for key in ("buffer", "m", "v")}
    return rng.normal(size=(records, 14)), rng.normal(size=(records, 3)), targets, state


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_built_in_steps_have_their_published_bytes(name):
    receipt = author_mazur() if name == "mazur" else author_step(BUILTIN[name]())

    assert hashlib.sha256(emit(receipt)).hexdigest() == PUBLISHED[name]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=[o.name for o in OPTIMIZERS])
def test_many_records_at_once_are_the_same_as_one_at_a_time(optimizer):
    parameters, inputs, targets, state = arguments(7)

    together = run_step(FLOATS, WIRING, parameters, inputs, targets, optimizer, state)

    for i in range(7):
        own = {key: value[i : i + 1] for key, value in state.items()}
        alone = run_step(FLOATS, WIRING, parameters[i : i + 1], inputs[i : i + 1], targets[i : i + 1], optimizer, own)
        assert np.array_equal(alone.parameters_after[0], together.parameters_after[i])
        assert np.array_equal(alone.post.total[0], together.post.total[i])


def test_a_gradient_is_the_derivative_of_the_loss():
    parameters, inputs, targets, state = arguments(1)
    step = run_step(FLOATS, WIRING, parameters, inputs, targets, OPTIMIZERS[0], state)

    for k in range(14):
        moved = []
        for sign in (1, -1):
            shifted = parameters.copy()
            shifted[0, k] += sign * 1e-6
            moved.append(run_step(FLOATS, WIRING, shifted, inputs, targets, OPTIMIZERS[0], state).forward.total[0])
        slope = (moved[0] - moved[1]) / 2e-6
        assert step.gradient[0, k] == pytest.approx(-slope, abs=1e-8)


def test_a_batch_of_one_is_a_step():
    parameters, inputs, targets, state = arguments(3)

    single = run_step(FLOATS, WIRING, parameters, inputs, targets, OPTIMIZERS[2], state)
    batch = run_batch(FLOATS, WIRING, parameters, inputs[:, None], targets[:, None], OPTIMIZERS[2], state, mean=True)

    assert np.array_equal(single.parameters_after, batch.parameters_after)


def test_a_sum_runs_from_left_to_right():
    terms = np.array([[1e16, 1.0, -1e16, 1.0]])

    assert FLOATS.total(terms, axis=-1).tolist() == [((1e16 + 1.0) - 1e16) + 1.0]
