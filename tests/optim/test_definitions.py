"""What torch does not have, against plain NumPy written from the papers; what it has in another form, against that form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from executions import executed, trained
from torch_steps import numbers, ratio, slope

from backproof.engine.domain import float64
from backproof.errors import InputError, UsageError
from backproof.numerics import FORMATS
from backproof.optim import OPTIMIZERS, REFUSED, optimizer_named
from backproof.optim.derive import Formats, derive, value_of_step
from backproof.optim.torch_names import hyper_of, torch_optimizer

RNG = np.random.default_rng(3)
EXACT = 1e-13


def close(a: Any, b: Any) -> bool:
    return bool(np.max(abs(np.asarray(a) - b)) <= EXACT * np.max(abs(np.asarray(b))))


@pytest.mark.parametrize("t", [1, 5])
def test_lion_is_the_sign_of_an_interpolation(t: int) -> None:
    p, g, m = RNG.normal(size=(3, 4, 5))
    lr, b1, b2, wd = 0.01, 0.9, 0.99, 0.1

    found = value_of_step(OPTIMIZERS["lion"], g, p, {"exp_avg": m}, {"lr": lr, "weight_decay": wd}, t)

    assert close(found["update"], -lr * (np.sign(b1 * m + (1 - b1) * g) + wd * p))
    assert close(found["exp_avg"], b2 * m + (1 - b2) * g)


@pytest.mark.parametrize("nesterov", [True, False])
def test_a_rate_inside_of_the_momentum_is_what_it_was_when_the_gradient_came(nesterov: bool) -> None:
    p, g, b = RNG.normal(size=(3, 4, 5))
    hyper = {"lr": 0.1, "momentum": 0.9, "nesterov": nesterov, "rate_at": "inside"}

    found = value_of_step(OPTIMIZERS["sgd"], g, p, {"velocity": b}, hyper, 2)

    buffer = 0.9 * b - 0.1 * g
    assert close(found["velocity"], buffer)
    assert close(found["update"], 0.9 * buffer - 0.1 * g if nesterov else buffer)


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("largest", [None, 2.0])
def test_lamb_scales_the_direction_by_the_ratio_of_norms(corrected: bool, largest: float | None) -> None:
    p, g, m, v = RNG.normal(size=(4, 4, 5))
    v, t, lr, eps, wd = v * v, 4, 0.01, 1e-6, 0.1
    hyper = {"lr": lr, "weight_decay": wd, "corrected": corrected, "largest_norm": largest}

    found = value_of_step(OPTIMIZERS["lamb"], g, p, {"exp_avg": m, "exp_avg_sq": v}, hyper, t)

    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    c1, c2 = (1 - 0.9**t, 1 - 0.999**t) if corrected else (1, 1)
    r = (m / c1) / (np.sqrt(v / c2) + eps) + wd * p
    size = np.linalg.norm(p) if largest is None else min(np.linalg.norm(p), largest)
    assert close(found["update"], -lr * size / np.linalg.norm(r) * r)
    assert close(found["exp_avg_sq"], v)


def test_lamb_takes_the_plain_step_of_a_parameter_that_is_zero() -> None:
    g, zero = RNG.normal(size=(4, 5)), np.zeros((4, 5))

    found = value_of_step(OPTIMIZERS["lamb"], g, zero, {"exp_avg": zero, "exp_avg_sq": zero}, {"lr": 0.01}, 1)

    assert close(found["update"], -0.01 * g / (abs(g) + 1e-6))


def test_a_sign_in_doubt_is_allowed_either_way() -> None:
    """β₁·m + (1 − β₁)·g is 0 but for rounding: both directions of Lion are honest, and nothing in between is claimed."""
    m, g = np.array([0.1, 1.0]), np.array([-0.9, 1.0])

    found = derive(OPTIMIZERS["lion"], g, np.zeros(2), {"exp_avg": m}, {"lr": 0.01, "weight_decay": 0.0}, 1)["update"]

    assert found.certain[0] >= 0.01 - abs(found.value[0])
    assert found.certain[1] < 1e-8


@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam_is_torchs_on_the_rows_of_the_gradient(maximize: bool) -> None:
    p = torch.tensor(RNG.normal(size=(10, 3)))
    optimizer = torch.optim.SparseAdam([p], lr=0.1, maximize=maximize)
    named = torch_optimizer("torch.optim.SparseAdam")
    state = {name: np.zeros((10, 3)) for name in ("exp_avg", "exp_avg_sq")}
    for t in range(1, 5):
        rows = np.sort(RNG.choice(10, size=4, replace=False))
        values = RNG.normal(size=(4, 3))
        p.grad = torch.sparse_coo_tensor(torch.tensor(rows[None]), torch.tensor(values), (10, 3), check_invariants=True)
        before = numbers(p)
        optimizer.step()
        hyper = hyper_of(named, optimizer.param_groups[0], "float64")
        held = {name: x[rows] for name, x in state.items()}

        found = value_of_step(OPTIMIZERS["sparse_adam"], values, before[rows], held, hyper, t)

        assert np.max(abs(found["update"] - (numbers(p) - before)[rows])) < 1e-14
        assert np.array_equal(np.delete(numbers(p), rows, 0), np.delete(before, rows, 0))
        state = {name: numbers(optimizer.state[p][name]) for name in state}
        assert close(found["exp_avg_sq"], state["exp_avg_sq"][rows])


def newton_schulz(
    x: np.ndarray[Any, Any], coefficients: tuple[float, float, float], steps: int
) -> np.ndarray[Any, Any]:
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / max(float(np.linalg.norm(x)), 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


@pytest.mark.parametrize("shape", [(4, 6), (6, 4)])
@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_muon_orthogonalises_the_momentum(shape: tuple[int, int], adjust: str) -> None:
    p, g, b = RNG.normal(size=(3, *shape))

    found = value_of_step(
        OPTIMIZERS["muon"], g, p, {"momentum_buffer": b}, {"lr": 0.1, "adjust_lr": adjust, "weight_decay": 0.0}, 1
    )

    b = 0.95 * b + 0.05 * g
    scale = max(1, shape[0] / shape[1]) ** 0.5 if adjust == "original" else 0.2 * max(shape) ** 0.5
    assert close(found["momentum_buffer"], b)
    assert close(found["update"], -0.1 * scale * newton_schulz(0.05 * g + 0.95 * b, (3.4445, -4.775, 2.0315), 5))


def muon_steps(shape: tuple[int, int], **given: Any) -> list[tuple[Any, ...]]:
    p = torch.tensor(RNG.normal(size=shape), dtype=torch.float32)
    optimizer = torch.optim.Muon([p], lr=0.1, **given)
    hyper = hyper_of(torch_optimizer("torch.optim.Muon"), optimizer.param_groups[0], "float32")
    old, found = np.zeros(shape), []
    for _ in range(4):
        p.grad = torch.tensor(RNG.normal(size=shape), dtype=torch.float32)
        before = numbers(p)
        optimizer.step()
        new = numbers(optimizer.state[p]["momentum_buffer"])
        found.append((hyper, numbers(p.grad), before, numbers(p) - before, old, new))
        old = new
    return found


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("shape", [(16, 24), (48, 16)])
def test_muon_is_torchs_within_what_bfloat16_leaves_of_it(shape: tuple[int, int], nesterov: bool) -> None:
    """The buffer is checked to float32. Of the direction five steps in bfloat16 leave 2⁻⁸·√5 or so, so it is the slope that tells."""
    for hyper, g, before, update, old, new in muon_steps(shape, nesterov=nesterov):
        found = derive(OPTIMIZERS["muon"], g, before, {"momentum_buffer": old}, hyper, 1)
        other = {**hyper, "nesterov": not nesterov}
        wrong = value_of_step(OPTIMIZERS["muon"], g, before, {"momentum_buffer": old}, other, 1)
        off = np.linalg.norm(update - found["update"].value) / np.linalg.norm(update)

        assert ratio(new, found["momentum_buffer"]) <= 1
        assert abs(slope(update, found["update"].value)) < 2.0**-8 * 5
        assert off < 2.0**-8 * 8
        assert ratio(update, found["update"]) <= 1
        assert np.any(old != 0) == (
            np.linalg.norm(update - wrong["update"]) > 2 * np.linalg.norm(update - found["update"].value)
        )


def test_blocks_do_not_change_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    given, p = trained(OPTIMIZERS["nadam"], {"weight_decay": 0.1}, (13, 11), 3)
    whole = derive(given.optimizer, given.gradient, p, given.state, given.hyper, given.t)
    monkeypatch.setattr("backproof.optim.derive.BLOCK", 32)

    parts = derive(given.optimizer, given.gradient, p, given.state, given.hyper, given.t)

    for name, found in whole.items():
        assert np.array_equal(found.value, parts[name].value)
        assert np.array_equal(found.certain, parts[name].certain)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_nothing_to_update_and_nothing_at_rest_is_bounded(name: str) -> None:
    """Empty parameters have empty updates; where gradient and state are 0, a step is bounded by no more than its own size."""
    optimizer = OPTIMIZERS[name]
    hyper = {"lr": 0.01}
    for shape in ((0, 3), (2, 3)):
        if name == "lamb" or (not optimizer.elementwise and 0 in shape):
            continue  # a direction of nothing, normalised, is anything; so are norms of no numbers
        zero, p = np.zeros(shape), np.ones(shape)
        state = {f.name: np.zeros(f.shape(shape)) for f in optimizer.state_fields(optimizer.settings(hyper), shape)}
        found = derive(optimizer, zero, p, state, hyper, 1)["update"]

        assert found.value.shape == shape
        assert np.all(np.isfinite(found.certain))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_formula_runs_in_every_domain_of_arrays(name: str) -> None:
    given, p = trained(OPTIMIZERS[name], {"lr": 0.01}, (6, 5), 3)

    exact = value_of_step(given.optimizer, given.gradient, p, given.state, given.hyper, given.t, D=float64())
    rough = executed(given, p)

    scale = np.max(abs(p))
    assert (
        np.max(abs(exact["update"] - rough["update"]))
        < (0.1 if name == "muon" else 2**10 * FORMATS["float32"].unit) * scale
    )


def test_a_parameter_of_16_bits_computed_in_float32_is_rounded_once() -> None:
    given, p = trained(OPTIMIZERS["adamw"], {}, (6, 5), 3)
    p = FORMATS["bfloat16"].round(p)

    wide = derive(given.optimizer, given.gradient, p, given.state, given.hyper, given.t)
    narrow = derive(
        given.optimizer, given.gradient, p, given.state, given.hyper, given.t, Formats("float32", None, "bfloat16")
    )

    claimed = FORMATS["bfloat16"].round(p + wide["update"].value) - p
    assert ratio(claimed, wide["update"]) > 1
    assert 0.5 < ratio(claimed, narrow["update"]) <= 1


def test_what_is_not_in_the_table_is_refused_by_name() -> None:
    for name in ("lbfgs", "sophia"):
        with pytest.raises(UsageError, match=f"'{name}'.*there are sgd, adam"):
            optimizer_named(name)
    with pytest.raises(UsageError, match=r"LBFGS.*line search.*torch\.optim\.SGD"):
        torch_optimizer("torch.optim.lbfgs.LBFGS")
    with pytest.raises(UsageError, match=r"my\.Own.*not in the table"):
        torch_optimizer("my.Own")
    assert set(REFUSED) == {"lbfgs"}


@pytest.mark.parametrize(
    ("hyper", "error", "message"),
    [
        ({"momentun": 0.9}, UsageError, "sgd has no momentun; it takes lr, momentum"),
        ({"lr": -1.0}, InputError, "lr is -1.0, and must be from 0.0 to inf"),
        ({"lr": "fast"}, InputError, "lr is 'fast', and must be a number"),
        ({"lr": float("nan")}, InputError, "lr is nan"),
        ({"nesterov": 1}, InputError, "nesterov is 1, and must be true or false"),
    ],
)
def test_impossible_settings_are_refused(hyper: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        OPTIMIZERS["sgd"].settings(hyper)


def test_state_that_does_not_fit_is_refused() -> None:
    one = np.ones(3)
    adam = OPTIMIZERS["adam"]
    with pytest.raises(InputError, match="missing: exp_avg_sq"):
        derive(adam, one, one, {"exp_avg": one}, {}, 1)
    with pytest.raises(InputError, match="unknown: velocity"):
        derive(adam, one, one, {"exp_avg": one, "exp_avg_sq": one, "velocity": one}, {}, 1)
    with pytest.raises(InputError, match=r"exp_avg has shape \[4\], and must have \[3\]"):
        derive(adam, one, one, {"exp_avg": np.ones(4), "exp_avg_sq": one}, {}, 1)
    with pytest.raises(InputError, match="first step is step 1"):
        derive(adam, one, one, {"exp_avg": one, "exp_avg_sq": one}, {}, 0)
    with pytest.raises(InputError, match="parameters of rank 2"):
        derive(OPTIMIZERS["muon"], one, one, {"momentum_buffer": one}, {}, 1)


def test_every_record_says_what_it_is() -> None:
    for name, optimizer in OPTIMIZERS.items():
        assert name == optimizer.name
        assert optimizer.says
        assert optimizer.paper
        assert optimizer.notes
        assert all(each.says for each in (*optimizer.hyper, *optimizer.fields))
