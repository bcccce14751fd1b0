"""Mistakes planted into copies of examples/c, and honest ways to write the same program. The example itself stays clean.

A plant is an edit within one function. `first` is the tensor in which its mistake shows first, in the order in which a step computes:
forward, then backward from the last layer, then parameters' gradients, their scaling, the optimizer.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "c"
FLAGS = ("-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")


@dataclass(frozen=True)
class Plant:
    """An edit of one function."""

    name: str
    function: str
    """Where; empty for the file's constants."""
    old: str
    new: str
    first: str
    """`<probe>.<phase>[.<parameter>]`; a parameter of * where several come at once."""
    step: int = 0
    """The first step in which it can be seen."""
    file: str = "layers.c"


FORWARD = (
    Plant("convolution shifted by one", "source", "- (long)l->padding", "- (long)l->padding + 1", "conv1.fwd"),
    Plant("convolution without bias", "conv1d_forward", "real sum = l->bias.value[o];", "real sum = 0;", "conv1.fwd"),
    Plant("last tap skipped", "conv1d_forward", "k < l->kernel", "k + 1 < l->kernel", "conv1.fwd"),
    Plant("epsilon 1e-3", "", "EPSILON = (real)1e-5", "EPSILON = (real)1e-3", "ln1.fwd"),
    Plant("epsilon 1e-6", "", "EPSILON = (real)1e-5", "EPSILON = (real)1e-6", "ln1.fwd"),
    Plant("unbiased variance", "moments", "squares / (real)n", "squares / (real)(n - 1)", "ln1.fwd"),
    Plant(
        "second layer norm without beta",
        "layer_norm_forward",
        "+ l->bias.value[i]",
        "+ (l->name[2] == '2' ? 0 : l->bias.value[i])",
        "ln2.fwd",
    ),
    Plant(
        "one channel's gamma forgotten",
        "layer_norm_forward",
        "l->weight.value[i] *",
        "(i / l->length == 5 ? 1 : l->weight.value[i]) *",
        "ln1.fwd",
    ),
    Plant("relu leaks", "relu_forward", "x[i] > 0 ? x[i] : 0", "x[i] > 0 ? x[i] : x[i] / 1000", "relu1.fwd"),
    Plant("pool misses the last of a window", "largest", "k < l->kernel", "k + 1 < l->kernel", "pool1.fwd"),
    Plant(
        "linear weight read transposed",
        "linear_forward",
        "l->weight.value[o * l->in_channels + i]",
        "l->weight.value[i * l->channels + o]",
        "fc.fwd",
    ),
    Plant("loss without its largest logit", "cross_entropy", "- (logits[label] - top)", "- logits[label]", "loss.fwd"),
)

LOSS = (
    Plant(
        "loss gradient of the other sign",
        "cross_entropy",
        "gradient[label] -= 1",
        "gradient[label] += 1",
        "loss.lossgrad",
    ),
    Plant("loss gradient doubled", "cross_entropy", "- top) / sum;", "- top) / sum * 2;", "loss.lossgrad"),
    Plant(
        "labels smoothed by a thousandth",
        "cross_entropy",
        "gradient[label] -= 1",
        "gradient[label] -= (real)0.999",
        "loss.lossgrad",
    ),
)

BACKWARD = (
    Plant(
        "linear overwrites its input gradient",
        "linear_backward",
        "dx[i] += l->weight",
        "dx[i] = l->weight",
        "flatten.agrad",
    ),
    Plant(
        "pool sends gradients to the first of a window",
        "max_pool_backward",
        "dx[largest(l, x, c, t)]",
        "dx[c * l->in_length + t * l->stride]",
        "relu2.agrad",
    ),
    Plant("relu without a mask", "relu_backward", "x[i] > 0 ? dy[i] : 0", "dy[i]", "ln2.agrad"),
    Plant("relu masked by the gradient", "relu_backward", "x[i] > 0 ? dy[i] : 0", "dy[i] > 0 ? dy[i] : 0", "ln2.agrad"),
    Plant(
        "layer norm: one mean dropped",
        "layer_norm_backward",
        "(g - mean_g - normal * mean_gn)",
        "(g - mean_g)",
        "conv2.agrad",
    ),
    Plant(
        "layer norm: the other mean dropped",
        "layer_norm_backward",
        "(g - mean_g - normal",
        "(g - normal",
        "conv2.agrad",
    ),
    Plant("layer norm: gradient not scaled", "layer_norm_backward", "dx[i] = scale *", "dx[i] =", "conv2.agrad"),
    Plant(
        "first layer norm off by a thousandth",
        "layer_norm_backward",
        "dx[i] = scale *",
        "dx[i] = (l->name[2] == '1' ? (real)1.001 : 1) * scale *",
        "conv1.agrad",
    ),
    Plant(
        "convolution's kernel flipped in backward",
        "conv1d_backward",
        "g * l->weight.value[w]",
        "g * l->weight.value[w + l->kernel - 1 - 2 * k]",
        "pool1.agrad",
    ),
    Plant(
        "first convolution hands nothing back",
        "conv1d_backward",
        "g * l->weight.value[w]",
        "g * l->weight.value[w] * (l->padding == 1 ? 0 : 1)",
        "input.agrad",
    ),
)

PARAMETERS = (
    Plant(
        "linear weight gradient from the wrong input",
        "linear_backward",
        "dy[o] * x[i]",
        "dy[o] * x[o]",
        "fc.grad_raw.weight",
    ),
    Plant(
        "one class without a bias gradient",
        "linear_backward",
        "gradient[o] += dy[o]",
        "gradient[o] += o == 2 ? 0 : dy[o]",
        "fc.grad_raw.bias",
    ),
    Plant(
        "gamma's gradient from the raw input",
        "layer_norm_backward",
        "dy[i] * normal;",
        "dy[i] * x[i];",
        "ln2.grad_raw.weight",
    ),
    Plant(
        "beta's gradient doubled",
        "layer_norm_backward",
        "l->bias.gradient[i] += dy[i]",
        "l->bias.gradient[i] += 2 * dy[i]",
        "ln2.grad_raw.bias",
    ),
    Plant(
        "convolution's weight gradient overwritten",
        "conv1d_backward",
        "l->weight.gradient[w] +=",
        "l->weight.gradient[w] =",
        "conv2.grad_raw.weight",
    ),
    Plant(
        "convolution's bias gradient forgotten",
        "conv1d_backward",
        "l->bias.gradient[o] += g;",
        "",
        "conv2.grad_raw.bias",
    ),
    Plant(
        "first convolution's weight gradient shifted",
        "conv1d_backward",
        "g * x[c * l->in_length + (size_t)u]",
        "g * x[c * l->in_length + (l->padding == 1 && u > 0 ? (size_t)u - 1 : (size_t)u)]",
        "conv1.grad_raw.weight",
    ),
)

SCALING = (
    Plant(
        "mean over one sample less",
        "run_step",
        "weight, 1 / (real)batch",
        "weight, 1 / (real)(batch - 1)",
        "fc.grad_scaled.weight",
        file="train.c",
    ),
    Plant(
        "biases summed, not averaged",
        "run_step",
        "bias, 1 / (real)batch",
        "bias, 1",
        "fc.grad_scaled.bias",
        file="train.c",
    ),
)

OPTIMIZER = (
    Plant("rate 5 % too large", "sgd_update", "-= rate *", "-= (real)1.05 * rate *", "*.w_after.*"),
    Plant("decay forgotten", "sgd_update", "+ decay * p->value[i]", "", "*.opt_after.*"),
    Plant(
        "momentum of the other sign",
        "sgd_update",
        "momentum * p->momentum[i] + g",
        "g - momentum * p->momentum[i]",
        "*.opt_after.*",
        step=1,
    ),
    Plant(
        "momentum dampened", "sgd_update", "p->momentum[i] + g", "p->momentum[i] + (1 - momentum) * g", "*.opt_after.*"
    ),
    Plant(
        "nesterov's step",
        "sgd_update",
        "rate * p->momentum[i]",
        "rate * (g + momentum * p->momentum[i])",
        "*.w_after.*",
    ),
    Plant(
        "layer norms never updated",
        "run_step",
        "sgd_update(&network[i].weight",
        "if (network[i].kind != LAYER_NORM) sgd_update(&network[i].weight",
        "*.opt_after.*",
        file="train.c",
    ),
)

PLANTS: dict[str, Plant] = {p.name: p for p in (*FORWARD, *LOSS, *BACKWARD, *PARAMETERS, *SCALING, *OPTIMIZER)}


@dataclass(frozen=True)
class Honest:
    """Another way to write or build the same program."""

    name: str
    edits: tuple[tuple[str, str, str], ...] = ()
    """(function of layers.c, old, new)."""
    flags: tuple[str, ...] = FLAGS
    mirror: tuple[str, ...] = ()
    """What the mirror is told besides."""


PLAIN = FLAGS[1:]
HONEST: dict[str, Honest] = {
    honest.name: honest
    for honest in (
        Honest("as it is"),
        Honest("not optimized", flags=("-O0", *PLAIN)),
        Honest("optimized beyond IEEE", flags=("-O3", "-ffast-math", "-march=native", *PLAIN)),
        Honest(
            "sums from the other end",
            (
                (
                    "linear_forward",
                    "sum += l->weight.value[o * l->in_channels + i] * x[i]",
                    "{ size_t r = l->in_channels - 1 - i; sum += l->weight.value[o * l->in_channels + r] * x[r]; }",
                ),
                ("moments", "sum += x[i]", "sum += x[n - 1 - i]"),
                (
                    "moments",
                    "squares += (x[i] - *mean) * (x[i] - *mean)",
                    "squares += (x[n - 1 - i] - *mean) * (x[n - 1 - i] - *mean)",
                ),
            ),
        ),
        Honest(
            "wide accumulators",
            (
                ("linear_forward", "real sum", "double sum"),
                ("linear_forward", "y[o] = sum", "y[o] = (real)sum"),
                ("conv1d_forward", "real sum", "double sum"),
                ("conv1d_forward", "= sum;", "= (real)sum;"),
            ),
        ),
        Honest("the last of equal values", (("largest", "x[i] > x[best]", "x[i] >= x[best]"),)),
        Honest("relu open at zero", (("relu_backward", "x[i] > 0 ?", "x[i] >= 0 ?"),)),
        Honest("in float64 against float32", flags=(*FLAGS, "-DREAL=double")),
        Honest("in float64 on both sides", flags=(*FLAGS, "-DREAL=double"), mirror=("--double",)),
    )
}


def edited(text: str, function: str, old: str, new: str) -> str:
    """`text` with `old` replaced by `new` within one function, where it must stand exactly once."""
    if not function:
        begin, end = 0, len(text)
    else:
        found = re.search(rf"^[a-z][\w *]*\b{function}\([^;]*?\) \{{\n.*?^\}}\n", text, re.MULTILINE | re.DOTALL)
        assert found is not None, f"there is no function {function}"
        begin, end = found.span()
    body = text[begin:end]
    assert body.count(old) == 1, f"{old!r} stands {body.count(old)} times in {function or 'the file'}"
    return text[:begin] + body.replace(old, new) + text[end:]


def build(folder: Path, *edits: tuple[str, str, str, str], flags: tuple[str, ...] = FLAGS) -> Path:
    """A program from the example's sources with these (file, function, old, new) edits; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train.c", "layers.c", "layers.h"):
        text = (EXAMPLE / name).read_text().replace("../../c/backproof_trace.h", str(ROOT / "c" / "backproof_trace.h"))
        for file, function, old, new in edits:
            if file == name:
                text = edited(text, function, old, new)
        (folder / name).write_text(text)
    program = folder / "train"
    subprocess.run(["cc", *flags, "-o", program, folder / "train.c", folder / "layers.c", "-lm"], check=True)
    return program


def planted(folder: Path, plant: Plant) -> Path:
    """The program with one mistake."""
    return build(folder, (plant.file, plant.function, plant.old, plant.new), flags=("-O2", "-std=c99"))


def honest(folder: Path, way: Honest) -> Path:
    """The program, written or built otherwise."""
    return build(folder, *(("layers.c", *edit) for edit in way.edits), flags=way.flags)


def record(program: Path, data: Path, out: Path, *, steps: int = 2, batch: int = 8, start: int = 0) -> Path:
    """A short run of a program, traced."""
    given = ["--data", data, "--trace", out, "--steps", steps, "--batch", batch, "--start", start]
    subprocess.run([program, *map(str, given)], check=True, stdout=subprocess.DEVNULL)
    return out
