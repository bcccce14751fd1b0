"""The quick look at a step says what the thorough one says, and needs few bounds for an honest step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executions import executed, trained
from test_mistakes import IDS, SETTINGS
from torch_steps import ratio

from backproof.errors import InputError
from backproof.numerics import FORMATS
from backproof.optim import OPTIMIZERS
from backproof.optim.derive import derive, step_graph
from backproof.optim.mistakes import MISTAKES
from backproof.optim.screen import floors, screen

SHAPE = (40, 50)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backproof.optim.screen.STRETCH", 512)


@pytest.mark.parametrize(("name", "hyper"), SETTINGS, ids=IDS)
def test_no_bound_is_below_its_floor(name: str, hyper: dict[str, Any]) -> None:
    given, p = trained(OPTIMIZERS[name], hyper, SHAPE, 4)
    shapes = {key: np.shape(held) for key, held in given.state.items()}
    made = step_graph(given.optimizer, SHAPE, shapes, given.hyper, given.t)
    least = floors(made.graph, FORMATS["float32"].unit)
    derived = derive(given.optimizer, given.gradient, p, given.state, given.hyper, given.t)

    for key, at in made.outputs.items():
        floor = (
            least[made.after] * abs(p + derived[key].value) if key == "update" else least[at] * abs(derived[key].value)
        )
        assert np.all(derived[key].certain >= floor * (1 - 2.0**-40))


@pytest.mark.parametrize(("name", "hyper"), SETTINGS, ids=IDS)
@pytest.mark.parametrize("mistake", [None, "sign_flipped", "decay_missing", "step_ahead"])
def test_the_quick_look_finds_what_the_thorough_one_finds(
    name: str, hyper: dict[str, Any], mistake: str | None
) -> None:
    given, p = trained(OPTIMIZERS[name], hyper, SHAPE, 4)
    made = given if mistake is None else MISTAKES[mistake].make(given)
    if made is None:
        pytest.skip(f"{name} cannot make this mistake with these settings")
    claimed = executed(made, p)
    derived = derive(given.optimizer, given.gradient, p, given.state, given.hyper, given.t)
    outside = {
        key: set(np.flatnonzero(~(abs(claimed[key] - found.value) <= found.certain)))
        for key, found in derived.items()
        if key in claimed and found.value.shape == SHAPE
    }

    seen: dict[str, set[int]] = {key: set() for key in outside}
    looked_at = 0
    for part in screen(
        given.optimizer, {**given.state, **claimed}, given.gradient, p, given.state, given.hyper, given.t
    ):
        looked_at += part.elements.size
        for key in outside:
            whole = claimed[key].reshape(-1)[part.stretch]
            found = part.derived[key]
            off = abs(whole[part.elements] - found.value.reshape(-1)) > found.certain.reshape(-1)
            seen[key] |= set(part.stretch.start + part.elements[off])
            assert np.array_equal(part.values[key].reshape(-1), derived[key].value.reshape(-1)[part.stretch])

    assert seen == outside
    assert (mistake is None) <= all(not places for places in outside.values())
    if mistake is None and name in ("adam", "adamw", "lion", "sgd") and not hyper.get("amsgrad"):
        assert looked_at < 0.1 * p.size


def test_a_claim_of_every_result_is_needed() -> None:
    one = np.ones(3)
    with pytest.raises(InputError, match="nothing is claimed of exp_avg; there are update"):
        list(screen(OPTIMIZERS["lion"], {"update": one}, one, one, {"exp_avg": one}, {}, 1))


def test_what_is_not_a_number_is_never_obviously_inside() -> None:
    given, p = trained(OPTIMIZERS["adamw"], {}, (30,), 2)
    claimed = executed(given, p)
    claimed["update"][7] = np.nan

    (part,) = screen(given.optimizer, claimed, given.gradient, p, given.state, given.hyper, given.t)

    assert 7 in part.elements
    assert (
        ratio(
            claimed["exp_avg"], derive(given.optimizer, given.gradient, p, given.state, given.hyper, given.t)["exp_avg"]
        )
        <= 1
    )
