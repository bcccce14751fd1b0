"""The table of optimizers: pure formulas, one file each. What is not in it is refused by name."""

from __future__ import annotations

from backproof.errors import UsageError
from backproof.optim.adadelta import ADADELTA
from backproof.optim.adafactor import ADAFACTOR
from backproof.optim.adafactor_relative import ADAFACTOR_RELATIVE
from backproof.optim.adagrad import ADAGRAD
from backproof.optim.adam import ADAM, ADAMW
from backproof.optim.adamax import ADAMAX
from backproof.optim.asgd import ASGD
from backproof.optim.lamb import LAMB
from backproof.optim.lion import LION
from backproof.optim.muon import MUON
from backproof.optim.nadam import NADAM
from backproof.optim.radam import RADAM
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step
from backproof.optim.rmsprop import RMSPROP
from backproof.optim.rprop import RPROP
from backproof.optim.sgd import SGD
from backproof.optim.sparse_adam import SPARSE_ADAM

OPTIMIZERS: dict[str, Optimizer] = {
    optimizer.name: optimizer
    for optimizer in (
        *(SGD, ADAM, ADAMW, ADAMAX, NADAM, RADAM, SPARSE_ADAM),
        *(ADAGRAD, ADADELTA, RMSPROP, RPROP, ASGD),
        *(ADAFACTOR, ADAFACTOR_RELATIVE, MUON, LION, LAMB),
    )
}
REFUSED: dict[str, str] = {
    "lbfgs": "one of its steps evaluates the model several times, with a line search: it is no function of one gradient",
}


def optimizer_named(name: str) -> Optimizer:
    """The optimizer of this name."""
    if name in OPTIMIZERS:
        return OPTIMIZERS[name]
    reason = REFUSED.get(name, "it is not in the table")
    raise UsageError(f"optimizer {name!r}: {reason}; there are {', '.join(OPTIMIZERS)}")


__all__ = ["OPTIMIZERS", "REFUSED", "Field", "Hyper", "Numbers", "Optimizer", "Step", "optimizer_named"]
