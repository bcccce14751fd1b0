"""Clipping, unscaling and accumulation against what torch does to real gradients; and what is commonly wrong with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch_steps import DTYPES, numbers, ratio, slope

from backproof.errors import InputError, UsageError
from backproof.numerics import FORMATS
from backproof.optim.clipping import (
    accumulated,
    by_value,
    derive_bounded,
    derive_clipped,
    next_scale,
    unscaled,
)
from backproof.optim.derive import Formats

SHAPES = {"a": (5, 7), "b": (9,), "c": (2, 3, 4), "silent": (3,)}
NORMS = [1.0, 2.0, 3.0, math.inf]
Array = np.ndarray[Any, Any]


def gradients(fmt: str, size: float = 1.0, seed: int = 0) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    found = {name: torch.tensor(size * rng.normal(size=shape), dtype=DTYPES[fmt]) for name, shape in SHAPES.items()}
    found["silent"].zero_()
    return found


def clipped_by_torch(
    given: dict[str, torch.Tensor], most: float, p: float, **ways: Any
) -> tuple[dict[str, Array], float]:
    parameters = [torch.zeros_like(g) for g in given.values()]
    for parameter, g in zip(parameters, given.values(), strict=True):
        parameter.grad = g.clone()
    size = torch.nn.utils.clip_grad_norm_(parameters, most, p, **ways)
    return {name: numbers(q.grad) for name, q in zip(given, parameters, strict=True)}, float(size)


def arrays(given: dict[str, torch.Tensor]) -> dict[str, Array]:
    return {name: numbers(g) for name, g in given.items()}


@pytest.mark.parametrize("most", [0.5, 1e3])
@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("foreach", [True, False])
def test_clipping_in_float64_is_torchs(p: float, most: float, foreach: bool) -> None:
    given = gradients("float64")
    claimed, size = clipped_by_torch(given, most, p, foreach=foreach)

    found = derive_clipped(arrays(given), most, p, formats=Formats("float64"))

    assert abs(found.norm.value - size) <= 1e-14 * size
    for name, g in claimed.items():
        assert np.max(abs(found.gradients[name].value - g)) <= 1e-13 * np.max(abs(g))
        assert ratio(g, found.gradients[name]) <= 1


@pytest.mark.parametrize("fmt", ["float32", "bfloat16"])
@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_the_bound_contains_what_torch_clips(p: float, fmt: str, size: float) -> None:
    given = gradients(fmt, size)
    formats = Formats(fmt, "float32" if fmt == "bfloat16" else None)
    for foreach in (True, False):
        claimed, found_norm = clipped_by_torch(given, 0.5, p, foreach=foreach)

        found = derive_clipped(arrays(given), 0.5, p, formats=formats)

        assert abs(found_norm - found.norm.value) <= found.norm.certain
        for name, g in claimed.items():
            assert ratio(g, found.gradients[name]) <= 1
            assert np.all(np.isfinite(found.gradients[name].certain))


def each_by_itself(given: dict[str, Array], most: float) -> dict[str, Array]:
    return {name: g * min(1.0, most / (np.linalg.norm(g) + 1e-6)) for name, g in given.items()}


def together(
    most: float, p: float = 2.0, *, clamped: bool = True, eps: float = 1e-6
) -> Callable[..., dict[str, Array]]:
    def made(given: dict[str, Array], _: float) -> dict[str, Array]:
        size = np.linalg.norm(np.concatenate([g.reshape(-1) for g in given.values()]), p)
        factor = most / (size + eps)
        return {name: g * (min(1.0, factor) if clamped else factor) for name, g in given.items()}

    return made


MOST = 0.5
WRONG: dict[str, tuple[float, Callable[[dict[str, Array], float], dict[str, Array]]]] = {
    "not clipped": (1.0, lambda given, most: given),
    "each by itself": (1.0, each_by_itself),
    "by the wrong norm": (1.0, together(MOST, 1.0)),
    "by the largest": (1.0, together(MOST, math.inf)),
    "to the square": (1.0, together(MOST**2)),
    "before unscaling": (
        1.0,
        lambda given, most: {n: g / 8 for n, g in together(MOST)({n: 8 * g for n, g in given.items()}, most).items()},
    ),
    "amplified": (1e-3, together(MOST, clamped=False)),
    "another epsilon": (1e-2, together(MOST, eps=1e-3)),
    "two of three": (1.0, lambda given, most: {**given, **together(MOST)({n: given[n] for n in ("a", "b")}, most)}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_clipping_mistake_is_outside_the_bound(name: str) -> None:
    size, make = WRONG[name]
    given = arrays(gradients("float32", size))
    if name == "another epsilon":
        given = {key: g * 10 for key, g in given.items()}
    round32 = FORMATS["float32"].round
    claimed = {key: round32(g) for key, g in make(given, MOST).items()}
    honest = {key: round32(g) for key, g in together(MOST)(given, MOST).items()}

    found = derive_clipped(given, MOST).gradients

    assert max(ratio(honest[key], found[key]) for key in found) <= 1
    assert max(ratio(claimed[key], found[key]) for key in found) > 1


def test_of_two_ways_that_differ_by_10_to_the_minus_7_the_slope_tells() -> None:
    """c/(‖g‖ + 10⁻⁶) and c/‖g‖ for ‖g‖ = 4: 4 units of roundoff apart, inside the bound of the norm's sum, outside the slope's noise."""
    given = {"g": FORMATS["float32"].round(np.random.default_rng(0).normal(size=(200, 200)) / 50)}
    found = derive_clipped(given, 0.5).gradients["g"]
    claimed = FORMATS["float32"].round(derive_clipped(given, 0.5, way="exact_norm").gradients["g"].value)
    honest = FORMATS["float32"].round(found.value)
    unit = FORMATS["float32"].unit

    assert ratio(claimed, found) < 1
    assert abs(slope(honest, found.value)) < 0.1 * unit
    assert slope(claimed, found.value) > 3 * unit


@pytest.mark.parametrize("way", ["norm", "exact_norm", "normalized"])
def test_the_ways_to_clip_are_what_they_say(way: str) -> None:
    for size in (1e-2, 10.0):
        g = np.full(4, size / 2)
        found = derive_clipped({"g": g}, 1.0, way=way)
        expected = {
            "norm": min(1, 1 / (size + 1e-6)),
            "exact_norm": min(1, 1 / size),
            "normalized": 1 / (size + 1e-6),
        }[way]

        assert abs(found.factor.value - expected) < 1e-14


@pytest.mark.parametrize("fmt", ["float64", "float32"])
def test_clipping_by_value_is_torchs(fmt: str) -> None:
    given = gradients(fmt)["a"]
    p = torch.zeros_like(given)
    p.grad = given.clone()
    torch.nn.utils.clip_grad_value_([p], 0.7)

    found = derive_bounded(lambda g: by_value(g, 0.7), numbers(given), formats=Formats(fmt))

    assert ratio(numbers(p.grad), found) <= 1
    assert np.max(found.certain) <= 4 * FORMATS[fmt].unit


def test_unscaling_is_the_grad_scalers() -> None:
    p = torch.zeros(50, requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=3.0 * 2**13)
    optimizer = torch.optim.SGD([p], lr=1.0)
    x = torch.tensor(np.random.default_rng(0).normal(size=50), dtype=torch.float32)
    scaler.scale((p * x).sum()).backward()
    before = numbers(p.grad)
    scaler.unscale_(optimizer)

    found = derive_bounded(lambda g: unscaled(g, 3.0 * 2**13), before)

    assert ratio(numbers(p.grad), found) <= 1
    assert ratio(before, found) > 1
    twice = numbers(p.grad) / (3 * 2**13)
    assert ratio(twice, found) > 1


@pytest.mark.parametrize("overflows", [[], [3], [2, 3, 8]])
def test_the_loss_scale_is_the_grad_scalers(overflows: list[int]) -> None:
    p = torch.zeros(2, requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    optimizer = torch.optim.SGD([p], lr=0.0)
    scale, steps = 1024.0, 0
    for t in range(12):
        optimizer.zero_grad()
        scaler.scale((p * (math.inf if t in overflows else 1.0)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scale, steps = next_scale(scale, steps, overflow=t in overflows, interval=3)

        assert (scale, steps) == (scaler.get_scale(), scaler._get_growth_tracker())


def test_gradients_of_micro_batches_add_up_as_torch_adds_them() -> None:
    rng = np.random.default_rng(0)
    weights = [0.5, 0.25, 0.25]
    parts = [torch.tensor(rng.normal(size=(6, 5)), dtype=torch.float32) for _ in weights]
    p = torch.zeros(6, 5, requires_grad=True)
    for part, weight in zip(parts, weights, strict=True):
        ((p * part).sum() * weight).backward()

    found = derive_bounded(lambda *each: accumulated(each, weights), *(numbers(part) for part in parts))
    undivided = derive_bounded(lambda *each: accumulated(each, [1.0, 1.0, 1.0]), *(numbers(part) for part in parts))

    assert ratio(numbers(p.grad), found) <= 1
    assert ratio(numbers(p.grad), undivided) > 1
    assert ratio(numbers(parts[-1]) * 0.25, found) > 1


def test_what_cannot_be_clipped_is_refused() -> None:
    with pytest.raises(UsageError, match="no clipping 'soft'; there are norm, exact_norm"):
        derive_clipped({"g": np.ones(2)}, 1.0, way="soft")
    with pytest.raises(InputError, match="no gradients"):
        derive_clipped({}, 1.0)
    with pytest.raises(UsageError, match=r"clip by is -1\.0"):
        derive_clipped({"g": np.ones(2)}, 1.0, -1.0)
    with pytest.raises(InputError, match="1 micro-batches and 2 weights"):
        derive_bounded(lambda g: accumulated([g], [1.0, 2.0]), np.ones(2))
