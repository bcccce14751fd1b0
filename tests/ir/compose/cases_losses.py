"""Losses."""

from agreement import Case, fixed, normal, uniform, whole
from torch.nn import functional as fn

from backproof.ir.compose import COMPOSITIONS

REDUCTIONS = ("mean", "sum", "none")


def pairs(name, theirs, *params, x=normal, order=2, prefix=""):
    return [
        Case(
            name,
            f"{prefix}{i}-{reduction}-{shape[0]}",
            (x(*shape), x(*shape)),
            theirs,
            {**given, "reduction": reduction},
            order=order,
        )
        for i, given in enumerate(params or ({},))
        for reduction, shape in zip(REDUCTIONS, ((4, 5), (1, 3), (0, 3)), strict=True)
    ] + [Case(name, f"{prefix}empty-mean", (x(0, 3), x(0, 3)), theirs, {}, quiet=True, order=1)]


def inside(*shape):
    return uniform(*shape, lo=0.02, hi=0.98)


def weighed(name, **params):
    """The third array is the weight."""

    def theirs(x, t, w):
        return getattr(fn, name)(x, t, w, **params)

    def ours(x, t, w):
        return COMPOSITIONS[MINE.get(name, name)].function(x, t, w, **params)

    return theirs, ours


MINE = {"binary_cross_entropy": "bce_loss", "binary_cross_entropy_with_logits": "bce_with_logits_loss"}


def with_pos_weight(x, t, w, p):
    return fn.binary_cross_entropy_with_logits(x, t, w, pos_weight=p)


def plain_bce(x, t):
    """The formula: PyTorch's own second derivative divides by x·(1 − x) + 1e-12, which is 1e-11 off."""
    return -(t * x.log() + (1 - t) * (-x).log1p()).mean()


def averaged_kl_div(x, target, reduction="mean", **params):
    """PyTorch's kl_div warns of its own meaning of the mean; this is that meaning."""
    found = fn.kl_div(x, target, reduction="sum" if reduction == "mean" else reduction, **params)
    return found / x.numel() if reduction == "mean" else found


BCE, BCE_OURS = weighed("binary_cross_entropy")
ELEMENTWISE = [
    *pairs("mse_loss", fn.mse_loss),
    *pairs("l1_loss", fn.l1_loss),
    *pairs("smooth_l1_loss", fn.smooth_l1_loss, {}, {"beta": 0.3}, {"beta": 0.0}),
    *pairs("huber_loss", fn.huber_loss, {}, {"delta": 0.4}),
    *pairs("bce_loss", fn.binary_cross_entropy, x=inside, order=1),
    Case("bce_loss", "second-derivative", (inside(4, 3), inside(4, 3)), plain_bce, {}),
    *pairs("bce_with_logits_loss", fn.binary_cross_entropy_with_logits),
    Case("bce_loss", "weight", (inside(4, 3), inside(4, 3), inside(3)), BCE, {}, ours=BCE_OURS, held=(2,), order=1),
    Case(
        "bce_loss",
        "hard-targets",
        (inside(6), fixed([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])),
        fn.binary_cross_entropy,
        {},
        order=1,
    ),
    Case("bce_with_logits_loss", "wide", (normal(9, scale=50.0), inside(9)), fn.binary_cross_entropy_with_logits, {}),
    Case(
        "bce_with_logits_loss",
        "weights",
        (normal(4, 3), inside(4, 3), inside(4, 1), uniform(3, lo=0.5, hi=3)),
        with_pos_weight,
        {},
        ours=COMPOSITIONS["bce_with_logits_loss"].function,
        held=(2, 3),
    ),
    *pairs("kl_div", averaged_kl_div, {}, x=inside),
    *pairs("kl_div", averaged_kl_div, {"log_target": True}, prefix="log-"),
    Case("kl_div", "batchmean", (normal(4, 3), inside(4, 3)), fn.kl_div, {"reduction": "batchmean"}),
    Case(
        "kl_div",
        "batchmean-log",
        (normal(4, 3), normal(4, 3)),
        fn.kl_div,
        {"reduction": "batchmean", "log_target": True},
    ),
]

# ── classes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

SOME_IGNORED = fixed([0, 3, -100, 2, -100, 1])
LOGITS = normal(6, 4, scale=2.0)
WEIGHTS = uniform(4, lo=0.2, hi=3.0)


def class_case(name, setting, x, target, weight=None, **params):
    given = (x, target) if weight is None else (x, target, weight)

    def theirs(x, t, w=None):
        return getattr(fn, name)(x, t, w, **params)

    def ours(x, t, w=None):
        return COMPOSITIONS[name].function(x, t, w, **params)

    empty = "empty" in setting or "all-ignored" in setting
    return Case(name, setting, given, theirs, {}, ours=ours, held=(2,), quiet=empty, order=1 if empty else 2)


CLASSES = [
    class_case(name, f"{setting}-{reduction}", x, target, weight, reduction=reduction, **params)
    for name in ("nll_loss", "cross_entropy")
    for setting, x, target, weight, params in (
        ("plain", LOGITS, whole(6, below=4), None, {}),
        ("ignored", LOGITS, SOME_IGNORED, None, {}),
        ("weighed", LOGITS, SOME_IGNORED, WEIGHTS, {}),
        ("ignored-class", LOGITS, fixed([0, 1, 2, 3, 1, 1]), WEIGHTS, {"ignore_index": 1}),
        ("more-dims", normal(2, 4, 3, 2), whole(2, 3, 2, below=4), WEIGHTS, {}),
    )
    for reduction in REDUCTIONS
]
CLASSES += [
    class_case("cross_entropy", "one-sample", normal(4), whole(below=4)),
    class_case("nll_loss", "one-sample", normal(4), whole(below=4)),
    class_case("cross_entropy", "batch-of-1", normal(1, 4), whole(1, below=4)),
    class_case("cross_entropy", "empty-mean", normal(0, 4), whole(0, below=4)),
    class_case("cross_entropy", "empty-sum", normal(0, 4), whole(0, below=4), reduction="sum"),
    class_case("cross_entropy", "all-ignored", LOGITS, fixed([-100] * 6)),
    class_case("cross_entropy", "wide", normal(6, 4, scale=80.0), whole(6, below=4)),
    class_case("cross_entropy", "far", normal(6, 4, shift=1000.0), whole(6, below=4)),
    *(
        class_case(
            "cross_entropy",
            f"smooth-{setting}-{reduction}",
            x,
            target,
            weight,
            reduction=reduction,
            label_smoothing=0.2,
        )
        for setting, x, target, weight in (
            ("plain", LOGITS, whole(6, below=4), None),
            ("ignored", LOGITS, SOME_IGNORED, None),
            ("weighed", LOGITS, SOME_IGNORED, WEIGHTS),
            ("more-dims", normal(2, 4, 3, 2), whole(2, 3, 2, below=4), WEIGHTS),
            ("one-sample", normal(4), whole(below=4), None),
        )
        for reduction in REDUCTIONS
    ),
    *(
        class_case("cross_entropy", f"soft-{setting}-{reduction}", x, target, weight, reduction=reduction, **params)
        for setting, x, target, weight, params in (
            ("plain", LOGITS, inside(6, 4), None, {}),
            ("weighed", LOGITS, inside(6, 4), WEIGHTS, {}),
            ("smooth", normal(2, 4, 3), inside(2, 4, 3), WEIGHTS, {"label_smoothing": 0.3}),
            ("one-sample", normal(4), inside(4), None, {}),
        )
        for reduction in REDUCTIONS
    ),
]

CASES = [*ELEMENTWISE, *CLASSES]
