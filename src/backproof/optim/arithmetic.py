"""What the rules share: directions, decay, running averages, and roots that are finite beside 0."""

from __future__ import annotations

from backproof.ir.build import Ref
from backproof.optim.record import Hyper, Numbers, Step, flag

LR = Hyper("lr", 1e-3, "η, the learning rate", 0.0)
EPS = Hyper("eps", 1e-8, "ε, what keeps the division finite", 0.0)
DECAY = Hyper("weight_decay", 0.0, "λ, weight decay", 0.0)
BETA1 = Hyper("beta1", 0.9, "β₁, how much of the running mean of gradients is kept", 0.0, 1.0)
BETA2 = Hyper("beta2", 0.999, "β₂, how much of the running mean of squares is kept", 0.0, 1.0)
MAXIMIZE = flag("maximize", "climb: the gradient's sign is turned")
DECOUPLED = flag("decoupled", "decay acts on the parameter (p ← p − η·λ·p), not on the gradient (g ← g + λ·p)")
TENSORS = flag("tensors", "numbers such as bias corrections are computed as tensors, and rounded as such")
SCALARS = Hyper(
    "scalars",
    None,
    "the format of tensors that are one number; None: the computing format",
    choices=("float64", "float32", "bfloat16", "float16"),
    optional=True,
)


def room(x: Ref) -> Ref:
    """x, with room for one rounding more: what another honest order of the same operations may need."""
    return x * 1.0


def blend(old: Ref, new: Ref, keep: float) -> Ref:
    """keep·old + (1 − keep)·new. The bound holds for the interpolation old + (1 − keep)·(new − old) as well."""
    return room(keep * old) + room((1.0 - keep) * new)


def directed(gradient: Ref, parameter: Ref, hyper: Numbers, *, decays: bool = True) -> Ref:
    """−g when maximizing, and then g + λ·p for decay of the L2 kind."""
    g = -gradient if hyper["maximize"] else gradient
    return g + hyper["weight_decay"] * parameter if decays and hyper["weight_decay"] else g


# The name of roots whose argument no honest execution makes negative.
OF_SQUARES = "√ of squares"


def root_of_squares(x: Ref) -> Ref:
    """√x of a sum or a running mean of squares."""
    return x.builder.apply("sqrt", x, name=OF_SQUARES)


def norm(x: Ref) -> Ref:
    """√(Σ x²), as a number."""
    return root_of_squares(x.builder.apply("sum", x * x, axes=tuple(range(len(x.shape)))))


def rms(x: Ref) -> Ref:
    """√(Σ x²/n), as a number."""
    return norm(x) / float(max(x.type.size, 1)) ** 0.5


def moved(parameter: Ref, *moves: Ref, decay: float = 0.0) -> tuple[Ref, Ref]:
    """The update, and the new parameter: first p·(1 − decay), then one move after the other."""
    after = parameter * (1.0 - decay) if decay else parameter
    update = -decay * parameter if decay else None
    for move in moves:
        after = after + move
        update = move if update is None else update + move
    assert update is not None
    return update, after


def taken(parameter: Ref, move: Ref, state: dict[str, Ref], decay: float = 0.0) -> Step:
    """The step of one move."""
    update, after = moved(parameter, move, decay=decay)
    return Step(update, after, state)
