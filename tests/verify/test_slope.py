"""The slope test: silent on what PyTorch and JAX honestly compute, on data made to fool it; and loud where elements are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from backproof.engine.bounded import Bounded
from backproof.engine.evaluate import evaluate
from backproof.ir.build import Builder
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.types import real
from backproof.verify.closer import looked_closer
from backproof.verify.equation import judged
from backproof.verify.origin import Origin

F = torch.nn.functional
UNIT = 2.0**-24


def layer_norm_jax(x, eps=1e-5):
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.mean((x - mean) ** 2, -1, keepdims=True) + eps)


def composed(name, **given):
    return lambda x: COMPOSITIONS[name].function(x, **given)


NORM = composed("layer_norm", normalized_shape=256)
HONEST = {
    "layer norm, torch": (NORM, lambda x: F.layer_norm(torch.from_numpy(x), (256,)).numpy()),
    "layer norm, jax": (NORM, layer_norm_jax),
    "gelu, torch": (composed("gelu"), lambda x: F.gelu(torch.from_numpy(x)).numpy()),
    "gelu, jax": (composed("gelu"), lambda x: jax.nn.gelu(x, approximate=False)),
    "tanh-gelu, torch": (
        composed("gelu", approximate="tanh"),
        lambda x: F.gelu(torch.from_numpy(x), approximate="tanh").numpy(),
    ),
    "silu, jax": (composed("silu"), jax.nn.silu),
    "silu, torch": (composed("silu"), lambda x: F.silu(torch.from_numpy(x)).numpy()),
    "softmax, torch": (composed("softmax", dim=-1), lambda x: F.softmax(torch.from_numpy(x), -1).numpy()),
    "softmax, jax": (composed("softmax", dim=-1), lambda x: jax.nn.softmax(x, -1)),
    "log-softmax, torch": (composed("log_softmax", dim=-1), lambda x: F.log_softmax(torch.from_numpy(x), -1).numpy()),
    "log-softmax, jax": (composed("log_softmax", dim=-1), lambda x: jax.nn.log_softmax(x, -1)),
    "division by a constant, as a product, jax": (lambda x: x / 3.0, lambda x: x * np.float32(1 / 3)),
    "a mean, as a product": (
        composed("mean", dim=-1),
        lambda x: np.float32(1 / 256) * jnp.sum(x, -1),
    ),
    "variance, torch": (composed("var", dim=-1), lambda x: torch.from_numpy(x).var(-1).numpy()),
}


def data(kind, rng):
    x = rng.normal(size=(512, 256))
    match kind:
        case "mean 100":
            x = 100 + x
        case "copies":
            x = np.repeat(x[:4], 128, axis=0) + 100
        case "copies of other sizes":
            x = np.ldexp(np.repeat(x[:2], 256, axis=0), rng.integers(-8, 8, size=(512, 1)))
        case "few values":
            x = rng.integers(0, 5, size=x.shape) / 4
        case "tiny":
            x = x * 1e-20
        case "positive":
            x = np.exp(2 * x)
        case "images":
            x = (rng.integers(0, 256, size=x.shape) / 255 - 0.485) / 0.229
    return x.astype(np.float32)


KINDS = ("normal", "mean 100", "copies", "copies of other sizes", "few values", "tiny", "positive", "images")


def looked(compose, x, claimed):
    b = Builder()
    leaf = b.leaf(real(*x.shape))
    graph = b.graph(compose(leaf))
    output = graph.outputs[0]
    D = Bounded("float32")
    derived = evaluate(graph, D, [x])[output]
    found = judged(np.asarray(claimed), derived)
    origin = Origin(graph, lambda: [x], output, doubtful=D.doubts > 0)
    return found, *looked_closer(found, np.asarray(claimed), derived, (origin,), "float32", "float32")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_is_not_accused(name, kind):
    compose, kernel = HONEST[name]
    for seed in range(3):
        x = data(kind, np.random.default_rng(seed))
        _, found, because = looked(compose, x, kernel(x))
        assert found.verdict in ("holds", "noise"), (found, because)


PLANTED = {
    "another epsilon": (NORM, lambda x: F.layer_norm(torch.from_numpy(x), (256,), eps=1e-6).numpy()),
    "another epsilon, jax": (NORM, lambda x: layer_norm_jax(x, 1e-6)),
    "a thousandth of a percent": (
        NORM,
        lambda x: F.layer_norm(torch.from_numpy(x), (256,)).numpy() * np.float32(1.00001),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_systematic_error_that_the_bounds_of_elements_hide_is_found(name):
    compose, kernel = PLANTED[name]
    x = data("mean 100", np.random.default_rng(0))

    elements, found, because = looked(compose, x, kernel(x))

    assert elements.verdict == "holds"  # no element gives it away
    assert found.verdict == "broken"
    assert "systematic" in because
    assert found.slope_bound < abs(found.slope) < 400 * UNIT


def test_a_few_blocks_say_nothing():
    x = data("mean 100", np.random.default_rng(0))[:32]

    _, found, _ = looked(NORM, x, F.layer_norm(torch.from_numpy(x), (256,), eps=1e-6).numpy())

    assert found.verdict == "holds"


def test_where_a_number_is_shared_by_all_there_are_no_blocks():
    x = data("normal", np.random.default_rng(0))
    scaled = lambda x: x * composed("mean", dim=(0, 1))(x).broadcast_to(x.shape)
    mean = np.float32(x.astype(np.float64).mean() * (1 + 20 * UNIT))

    _, found, _ = looked(scaled, x, x * mean)

    assert abs(found.slope) > 10 * UNIT
    assert found.verdict in ("holds", "noise")
    assert found.slope_bound == np.inf


# ── flips ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def clipped(x):
    """A piece with a decision on what was rounded: the sum of a row, counted where it is positive."""
    total = x.builder.apply("sum", x, axes=(1,))
    zero = total.constant(0.0)
    return COMPOSITIONS["where"].function(total > zero, total + 1.0, zero)


def test_a_decision_in_doubt_that_fell_the_other_way_is_an_honest_flip():
    x = np.array([[100.0, 3.0, -100.0, -3.0 + 1e-6], [1.0, 2.0, 3.0, 4.0]], dtype=np.float32)

    _, found, because = looked(clipped, x, np.float32([0.0, 11.0]))

    assert (found.verdict, found.flips) == ("flip", 1)
    assert "margins up to" in because


def test_a_flip_that_no_doubt_explains_is_broken():
    x = np.array([[1.0, 3.0, -1.0, -2.0], [1.0, 2.0, 3.0, 4.0]], dtype=np.float32)

    elements, found, _ = looked(clipped, x, np.float32([0.0, 11.0]))

    assert elements.verdict == found.verdict == "broken"
