"""Practices of models: parameters that nobody trains, modes, padding, and what data-parallel wrapping is for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from backproof.lowering.structure import KIND_OF
from backproof.trace.step import Call
from backproof.verify.losses import CLASSES, ignored_index, target_of
from backproof.verify.practices.record import Practice, Seen

DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
RUN = 2
"""As many of the padding token in a row are no end of a sentence."""


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"


def _not_owned(seen: Seen) -> Iterator[str]:
    step = seen.subject.step
    if not step.updates:
        return
    owned = {name for update in step.updates for group in update.groups for name in group["params"]}
    owned |= set(step.facts.get("owned", ()))
    lost = [name for name in step.facts.get("trainable", ()) if name not in owned and _gets(seen, name)]
    if lost:
        yield f"{_listed(lost)} got gradients, and no optimizer has them"


def _gets(seen: Seen, name: str) -> bool:
    return any(moment.grads.get(name) is not None for moment in seen.subject.step.moments)


def _without_gradient(seen: Seen) -> Iterator[str]:
    for update in seen.subject.step.updates:
        if not any(value is not None for value in update.grads.values()):
            continue
        trainable = set(seen.subject.step.facts.get("trainable", ())) - _without_numbers(seen)
        without = [name for name, value in update.grads.items() if value is None and name in trainable]
        if without:
            yield f"{_listed(without)} had no gradient when the optimizer came"


def _without_numbers(seen: Seen) -> set[str]:
    """Parameters in formats that are not recorded: what they get is not known."""
    return {value.name for value in seen.subject.step.values.values() if value.name and value.dtype not in KIND_OF}


def _dropout(call: Call) -> tuple[float, bool] | None:
    if call.op not in DROPOUTS:
        return None
    p: Any = call.args[1] if len(call.args) > 1 else call.kwargs.get("p", 0.5)
    training: Any = call.args[2] if len(call.args) > 2 else call.kwargs.get("training", True)
    return float(p), bool(training)


def _active_in_eval(seen: Seen) -> Iterator[str]:
    facts = seen.subject.step.facts
    evaluating = set(facts.get("evaluating", ()))
    for call in seen.subject.step.calls:
        found = _dropout(call)
        if found and found[1] and found[0] > 0 and (call.place in evaluating or not facts.get("training", True)):
            yield f"{call.place or 'the model'} is in eval mode, and drops out with p = {found[0]:g}"
            return


def _inactive_in_train(seen: Seen) -> Iterator[str]:
    step = seen.subject.step
    if not step.updates:
        return
    off = [
        call.place for call in step.calls if (found := _dropout(call)) and not found[1] and found[0] > 0 and call.grad
    ]
    off = list(dict.fromkeys([*step.facts.get("idle", ()), *off]))
    if off:
        mode = "in training mode" if step.facts.get("training", True) else "in eval mode"
        yield f"{_listed(off)}: dropout does nothing in a step that updates; the model is {mode}"


def _classes(seen: Seen, call: Call) -> int:
    """Among how many classes a loss tells apart."""
    scores: Any = call.args[0] if call.args else call.kwargs["input"]
    shape = seen.subject.value(scores["value"]).shape
    return shape[1 if len(shape) > 1 else 0]


def _padding_counted(seen: Seen) -> Iterator[str]:
    for term in seen.terms:
        call = seen.subject.step.calls[term.call]
        target = target_of(call) if call.op in CLASSES else None
        if target is None:
            continue
        targets = seen.subject.array(f"v{target}")
        if not np.issubdtype(targets.dtype, np.integer):
            continue
        flat, tokens = targets.reshape(-1), _classes(seen, call)
        for token, size in seen.subject.step.facts.get("padding", ()):
            if size != tokens or token == ignored_index(
                call
            ):  # what is told apart here are no tokens, or it is ignored
                continue
            run, longest = 0, 0
            for same in flat == token:
                run = run + 1 if same else 0
                longest = max(longest, run)
            if longest >= RUN:
                count = int(np.sum(flat == token))
                yield f"{count} of {flat.size} targets are the padding token {token}, up to {longest} in a row, and count like words"
                return


def _unwrapped(seen: Seen) -> Iterator[str]:
    facts = seen.subject.step.facts
    if facts.get("wrapped") and facts.get("inner_calls", 0) and not facts.get("wrapped_calls", 0):
        yield f"the module inside of {facts['wrapped']} was called {facts['inner_calls']} times, the wrapper never: nothing was reduced"


def _in_the_chain(seen: Seen) -> Iterator[str]:
    """Nothing of it shows in one step alone; see `verify.chain`."""
    return iter(())


MODEL = (
    Practice(
        "parameter-not-in-optimizer",
        "a trainable parameter gets gradients, and no optimizer has it",
        "give it to the optimizer, or freeze it with requires_grad_(False)",
        _not_owned,
    ),
    Practice(
        "parameter-without-gradient",
        "an optimizer has a trainable parameter that gets no gradient",
        "look whether the forward pass uses it; take it from the optimizer if it is not to be trained",
        _without_gradient,
    ),
    Practice(
        "optimizer-state-lost",
        "a resumed run goes on with its parameters, and with a new optimizer",
        "load the optimizer's state_dict with the model's",
        _in_the_chain,
    ),
    Practice(
        "resumed-elsewhere",
        "a resumed run begins with other parameters than the last recorded step left",
        "resume from the last step's checkpoint, or record into a new folder",
        _in_the_chain,
    ),
    Practice(
        "dropout-in-eval",
        "dropout is active in a module that is in eval mode",
        "pass training=self.training to the function",
        _active_in_eval,
    ),
    Practice(
        "dropout-off-in-train",
        "dropout does nothing in a step that updates the model",
        "call model.train() before training",
        _inactive_in_train,
    ),
    Practice(
        "unwrapped-loss",
        "the loss of a data-parallel model was taken from the module inside: its gradients are not reduced",
        "call the wrapper, not wrapper.module",
        _unwrapped,
    ),
    Practice(
        "padding-counted",
        "targets that are padding are not ignored by the loss",
        "set padded targets to ignore_index, or pass ignore_index=the padding token",
        _padding_counted,
    ),
)
