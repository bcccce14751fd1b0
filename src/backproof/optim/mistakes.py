"""What is commonly wrong in an optimizer, as other settings of its own formula: hypotheses that can name a step that does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backproof.optim.derive import first_state
from backproof.optim.record import Optimizer


@dataclass(frozen=True)
class Given:
    """What a step is derived from, beside the parameter."""

    optimizer: Optimizer
    hyper: Mapping[str, Any]
    """Complete settings."""
    t: int
    gradient: NDArray[Any]
    state: Mapping[str, NDArray[Any]]
    format: str = "float32"

    def having(self, **changes: Any) -> Given:
        """The same with other hyper-parameters, and without the state that they do not keep."""
        hyper = {**self.hyper, **changes}
        fields = {field.name for field in self.optimizer.state_fields(hyper, self.gradient.shape)}
        return replace(self, hyper=hyper, state={name: held for name, held in self.state.items() if name in fields})


@dataclass(frozen=True)
class Mistake:
    """A mistake: its name, what was done, and what the step is then derived from; None where it cannot be made."""

    name: str
    says: str
    make: Callable[[Given], Given | None]


def _where(condition: Callable[[Mapping[str, Any]], Any], change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    """A mistake in the settings, where they allow it."""
    return lambda given: given.having(**change(given.hyper)) if condition(given.hyper) else None


def _shifted(by: int) -> Callable[[Given], Given | None]:
    """Another step count, where the rule looks at it."""

    def make(given: Given) -> Given | None:
        counts = "beta2" in given.hyper or "lr_decay" in given.hyper or given.optimizer.name.startswith("adafactor")
        return (
            replace(given, t=given.t + by) if counts and given.optimizer.name != "lion" and given.t + by > 0 else None
        )

    return make


def _lost(given: Given) -> Given | None:
    """The state of the first step at a later one."""
    if given.t == 1 or not given.state:
        return None
    return replace(given, state=first_state(given.optimizer, given.gradient.shape, given.hyper, given.format))


def _decays(hyper: Mapping[str, Any]) -> bool:
    return bool(hyper.get("weight_decay"))


MISTAKES: dict[str, Mistake] = {
    each.name: each
    for each in (
        Mistake(
            "l2_for_decoupled",
            "decay was added to the gradient, it should act on the parameter",
            _where(lambda h: _decays(h) and h.get("decoupled"), lambda h: {"decoupled": False}),
        ),
        Mistake(
            "decoupled_for_l2",
            "decay acted on the parameter, it should be added to the gradient",
            _where(lambda h: _decays(h) and h.get("decoupled") is False, lambda h: {"decoupled": True}),
        ),
        Mistake("decay_missing", "there was no decay", _where(_decays, lambda h: {"weight_decay": 0.0})),
        Mistake(
            "decay_after",
            "decay acted after the move, and on it, it should act before",
            _where(
                lambda h: _decays(h) and h.get("decoupled") and h.get("decay_at") == "before",
                lambda h: {"decay_at": "after"},
            ),
        ),
        Mistake(
            "decay_without_rate",
            "decoupled decay was not multiplied by the learning rate",
            _where(
                lambda h: _decays(h) and h.get("decoupled") and h["lr"],
                lambda h: {"weight_decay": h["weight_decay"] / h["lr"]},
            ),
        ),
        Mistake(
            "eps_inside",
            "ε stood inside the root",
            _where(lambda h: h.get("eps_at") == "after", lambda h: {"eps_at": "inside"}),
        ),
        Mistake(
            "eps_before",
            "ε was added before the bias correction",
            _where(lambda h: h.get("eps_at") == "after", lambda h: {"eps_at": "before"}),
        ),
        Mistake(
            "uncorrected",
            "the bias was not corrected",
            _where(lambda h: h.get("corrected"), lambda h: {"corrected": type(h["corrected"])(0)}),
        ),
        Mistake(
            "corrected_twice",
            "the bias was corrected twice",
            _where(lambda h: h.get("corrected") == 1 and h.get("corrected") is not True, lambda h: {"corrected": 2}),
        ),
        Mistake("step_ahead", "the step count was one too many", _shifted(1)),
        Mistake("step_behind", "the step count was one too few", _shifted(-1)),
        Mistake(
            "betas_swapped",
            "β₁ and β₂ were exchanged",
            _where(lambda h: "beta2" in h, lambda h: {"beta1": h["beta2"], "beta2": h["beta1"]}),
        ),
        Mistake(
            "amsgrad_lost",
            "v was used, it should be the largest so far",
            _where(lambda h: h.get("amsgrad"), lambda h: {"amsgrad": False}),
        ),
        Mistake(
            "lookahead_missing",
            "the step followed the momentum, without Nesterov's lookahead",
            _where(lambda h: h.get("nesterov"), lambda h: {"nesterov": False}),
        ),
        Mistake(
            "dampening_ignored",
            "the whole gradient went into the momentum",
            _where(lambda h: h.get("dampening"), lambda h: {"dampening": 0.0}),
        ),
        Mistake(
            "centering_lost",
            "the mean was not taken off the squares",
            _where(lambda h: h.get("centered"), lambda h: {"centered": False}),
        ),
        Mistake(
            "sign_flipped",
            "the step went the other way",
            _where(lambda h: "maximize" in h, lambda h: {"maximize": not h["maximize"]}),
        ),
        Mistake("state_lost", "the state was that of a first step", _lost),
        Mistake(
            "gradient_missing",
            "the gradient was taken as 0",
            lambda given: replace(given, gradient=np.zeros_like(given.gradient)) if given.gradient.any() else None,
        ),
    )
}


def matched(claimed: NDArray[Any], right: NDArray[Any], wrong: NDArray[Any]) -> float:
    """⟨claimed − right, wrong − right⟩/‖wrong − right‖²: near 0 where the rule is right, near 1 where it is the wrong one.

    It sums what each element hides in its own rounding, and so tells two rules apart that no single element does.
    """
    difference = (wrong - right).reshape(-1)
    length = float(difference @ difference)
    return float((claimed - right).reshape(-1) @ difference) / length if length else 0.0


def hypotheses(given: Given) -> Iterator[tuple[Mistake, Given]]:
    """Every mistake that could be made here, with what the step would then be derived from."""
    for mistake in MISTAKES.values():
        changed = mistake.make(given)
        if changed is not None:
            yield mistake, changed
