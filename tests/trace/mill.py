"""Makes traces of a small network: one training step or two, run by the engine's own layers, with a mistake planted if one is asked for.

The network: pool0 → conv1 → ln1 → relu1 → pool1 → conv2 → act (GELU) → sum (conv2's output added) → flatten → mix → fc → loss.
A mistake is part of the computation: what comes after it is computed from what it gave, as in a program.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backproof.engine.domain import float32, float64
from backproof.engine.evaluate import evaluate
from backproof.ir.types import Type
from backproof.session.tape import compile_tape, run_backward
from backproof.trace import Event, Manifest, Probe, TraceWriter
from backproof.verify.traces.layers import region

PROBES = (
    Probe("pool0", ("input",), "avg_pool1d", {"kernel_size": 2}),
    Probe("conv1", ("pool0",), "conv1d", {"padding": 1}, ("weight", "bias")),
    Probe("ln1", ("conv1",), "layer_norm", {"normalized_shape": [8, 16], "eps": 1e-5}, ("weight", "bias")),
    Probe("relu1", ("ln1",), "relu"),
    Probe("pool1", ("relu1",), "max_pool1d", {"kernel_size": 2}),
    Probe("conv2", ("pool1",), "conv1d", {"padding": 1}, ("weight", "bias")),
    Probe("act", ("conv2",), "gelu"),
    Probe("sum", ("act", "pool1"), "add"),
    Probe("flatten", ("sum",), "flatten", {"start_dim": 1}),
    Probe("mix", ("flatten",), "linear", {}, ("weight", "bias")),
    Probe("fc", ("mix",), "linear", {}, ("weight", "bias")),
    Probe("loss", ("fc", "label"), "cross_entropy"),
)
SHAPES = {
    ("conv1", "weight"): (8, 2, 3),
    ("conv1", "bias"): (8,),
    ("ln1", "weight"): (8, 16),
    ("ln1", "bias"): (8, 16),
    ("conv2", "weight"): (8, 8, 3),
    ("conv2", "bias"): (8,),
    ("mix", "weight"): (64, 64),
    ("mix", "bias"): (64,),
    ("fc", "weight"): (5, 64),
    ("fc", "bias"): (5,),
}
SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}
Array = Any


@dataclass(frozen=True)
class Wrong:
    """A mistake: hooks into the computation. Each gets what is right, and gives what is computed instead."""

    output: Mapping[str, Callable[..., Array]] = field(default_factory=dict)
    """probe → (y, inputs, parameters, sample) → y."""
    back: Mapping[str, Callable[..., Array]] = field(default_factory=dict)
    """probe → (gradient of its first input, inputs, gradient of its output, parameters) → that gradient."""
    gradient: Mapping[tuple[str, str], Callable[..., Array]] = field(default_factory=dict)
    """(probe, parameter) → (each sample's gradients, by parameter; that layer's inputs and output gradients) → one of them, a list."""
    lossgrad: Callable[..., Array] | None = None
    scale: Callable[..., Array] | None = None
    """(place, raw, batch) → scaled."""
    update: Callable[..., tuple[Array, Array]] | None = None
    """(place, w, g, v, settings, step) → (w, v)."""
    start: Callable[..., Array] | None = None
    """(place, w, step) → what the step begins with."""


HONEST = Wrong()


@dataclass(frozen=True)
class Run:
    """How a trace is made."""

    seed: int = 1
    batch: int = 4
    samples: int | None = 4
    """How many are recorded one by one; None: all together."""
    steps: int = 1
    dtype: str = "float32"
    jitter: bool = False
    """Round every layer's result from float64, as another order of summation would."""
    ties: str = "first"
    coarse: bool = False
    """Inputs of few bits, so that many windows have ties."""
    told: bool = True
    store: str = "npy"
    dead: float = 0.0
    """The gradient that relu hands on where its input is 0."""


class Mill:
    """The network at work."""

    def __init__(self, run: Run, wrong: Wrong) -> None:
        self.run, self.wrong = run, wrong
        rng = np.random.default_rng(run.seed)
        x = rng.standard_normal((run.batch, 2, 32))
        self.x = (np.round(x * 2) / 2 if run.coarse else x).astype(np.float32).astype(run.dtype)
        self.label = rng.integers(0, 5, run.batch)
        self.w = {}
        for (probe, name), shape in SHAPES.items():
            near = 1.0 if (probe, name) == ("ln1", "weight") else 0.0
            numbers = near + rng.standard_normal(shape) / np.sqrt(max(np.prod(shape[1:]), 1.0))
            self.w[probe, name] = (
                (np.round(numbers * 4) / 4 if run.coarse else numbers).astype(np.float32).astype(run.dtype)
            )
        self.v = {place: np.zeros_like(w) for place, w in self.w.items()}
        self.D = float64() if run.jitter or run.dtype == "float64" else float32()

    def write(self, folder) -> None:
        """Write the trace."""
        run = self.run
        recorded = None if run.samples is None else tuple(range(run.samples))
        manifest = Manifest(
            framework="mill", store=run.store, batch=run.batch, samples=recorded,
            probes=PROBES if run.told else tuple(Probe(p.name, p.parents, "", {}, p.parameters) for p in PROBES),
            optimizer=SGD if run.told else {},
        )  # fmt: skip
        writer = TraceWriter(folder, manifest)
        for step in range(run.steps):
            with writer.step(step) as sink:
                self._step(step, sink)

    # ── a step ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _step(self, step: int, sink) -> None:
        for place in self.w:
            if self.wrong.start:
                self.w[place] = self._as(self.wrong.start(place, self.w[place], step))
            sink(Event(place[0], "w_before", parameter=place[1], tensor=self.w[place]))
            if step:
                sink(Event(place[0], "opt_before", parameter=f"{place[1]}.momentum_buffer", tensor=self.v[place]))
        seen = [self._sample(s) for s in range(self.run.batch)]
        self._record(seen, sink)
        for place in self.w:
            layer = [one["back"][place[0]] for one in seen]
            parts = {name: [one["parts"][p, name] for one in seen] for p, name in self.w if p == place[0]}
            wrong = self.wrong.gradient.get(place)
            mine = wrong(parts, layer) if wrong else parts[place[1]]
            raw = mine[0]
            for part in mine[1:]:
                raw = self._as(raw + part)
            scaled = self.wrong.scale(place, raw, self.run.batch) if self.wrong.scale else raw / self.run.batch
            self._update(place, self._as(raw), self._as(scaled), step, sink)

    def _update(self, place, raw, g, step, sink) -> None:
        w, v = self.w[place], self.v[place]
        sink(Event(place[0], "grad_raw", parameter=place[1], tensor=raw))
        sink(Event(place[0], "grad_scaled", parameter=place[1], tensor=g))
        rule = self.wrong.update or sgd
        w, v = rule(place, w, g, v, SGD, step)
        self.w[place], self.v[place] = self._as(w), self._as(v)
        sink(Event(place[0], "w_after", parameter=place[1], tensor=self.w[place]))
        sink(Event(place[0], "opt_after", parameter=f"{place[1]}.momentum_buffer", tensor=self.v[place]))

    def _as(self, x) -> Array:
        return np.asarray(x).astype(self.run.dtype)

    # ── one sample ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _sample(self, s: int) -> dict[str, Any]:
        values = {"input": self.x[s : s + 1], "label": self.label[s : s + 1]}
        made = {}
        for probe in PROBES:
            reads = [values[name] for name in probe.parents]
            held = {name: self.w[probe.name, name] for name in probe.parameters}
            kind = region(probe.kind, probe.hyper, tuple(map(_type, reads)), {k: _type(w) for k, w in held.items()})
            found = evaluate(kind.graph, self.D, [*reads, *held.values()])
            y = np.asarray(self.D.array(found[kind.out]))
            if probe.name in self.wrong.output:
                y = self.wrong.output[probe.name](y, reads, held, s)
            values[probe.name] = self._as(y)
            made[probe.name] = (kind, found, reads, held)
        return {"values": values, **self._backward(made, s)}

    def _backward(self, made, s: int) -> dict[str, Any]:
        gradients: dict[str, Array] = {}
        parts, back = {}, {}
        for probe in reversed(PROBES):
            kind, found, reads, held = made[probe.name]
            seed = np.ones((), self.run.dtype) if probe.name == "loss" else gradients[probe.name]
            given = list(found)
            if probe.kind == "max_pool1d" and self.run.ties == "last":
                given = evaluate(kind.graph, self.D, [_last_of_ties(reads[0], probe.hyper["kernel_size"])])
            array: list[Any] = [None] * len(kind.graph)
            array[kind.out] = self.D.value(seed, kind.graph.types[kind.out])
            leaves = run_backward(compile_tape(kind.graph, self.D, given), array)
            back[probe.name] = (reads, seed)
            for k, name in enumerate(probe.parents):
                if leaves[k] is None:
                    continue
                part = np.asarray(self.D.array(leaves[k]))
                if probe.kind == "relu" and self.run.dead:
                    part = np.where(reads[0] == 0, self.run.dead * seed, part)
                if probe.name == "loss" and self.wrong.lossgrad:
                    part = self.wrong.lossgrad(part, reads, self.run.batch)
                if k == 0 and probe.name in self.wrong.back:
                    part = self.wrong.back[probe.name](part, reads, seed, held)
                if part is not None:
                    gradients[name] = self._as(gradients[name] + part) if name in gradients else self._as(part)
            for k, name in enumerate(probe.parameters, len(probe.parents)):
                parts[probe.name, name] = self._as(self.D.array(leaves[k]))
        return {"gradients": gradients, "parts": parts, "back": back}

    def _record(self, seen, sink) -> None:
        names = ["input", "label", *(probe.name for probe in PROBES)]
        back = [probe.name for probe in reversed(PROBES) if probe.name != "loss"]
        if self.run.samples is None:
            for name in names:
                whole = [one["values"][name] for one in seen]
                sink(
                    Event(
                        name,
                        "fwd",
                        tensor=np.mean(whole).astype(self.run.dtype) if name == "loss" else np.concatenate(whole),
                    )
                )
            sink(Event("loss", "lossgrad", tensor=np.concatenate([one["gradients"]["fc"] for one in seen])))
            for name in back:
                sink(Event(name, "agrad", tensor=np.concatenate([one["gradients"][name] for one in seen])))
            return
        for s, one in enumerate(seen[: self.run.samples]):
            for name in names:
                sink(Event(name, "fwd", sample=s, tensor=one["values"][name]))
            sink(Event("loss", "lossgrad", sample=s, tensor=one["gradients"]["fc"]))
            for name in back:
                sink(Event(name, "agrad", sample=s, tensor=one["gradients"][name]))


def sgd(place, w, g, v, settings, step):
    """v ← μ·v + g + λ·w; w ← w − η·v."""
    g = g + w * w.dtype.type(settings["weight_decay"])
    v = g if step == 0 else v * w.dtype.type(settings["momentum"]) + g
    return w - w.dtype.type(settings["lr"]) * v, v


def _type(x) -> Type:
    return Type("real" if x.dtype.kind == "f" else "int", tuple(x.shape))


def _last_of_ties(x, kernel: int):
    """The numbers with the last of equals in each window a little above the others."""
    found = np.array(x, dtype=np.float64)
    n = x.shape[2] // kernel * kernel
    windows = found[:, :, :n].reshape(*x.shape[:2], -1, kernel)
    last = kernel - 1 - np.argmax(windows[..., ::-1], axis=-1)
    top = np.take_along_axis(windows, last[..., None], -1)
    np.put_along_axis(windows, last[..., None], np.where(top == 0, 1e-30, top * (1 + np.sign(top) * 1e-6)), -1)
    return found


def grind(folder, run: Run = Run(), wrong: Wrong = HONEST):  # frozen
    """Write one trace, and give its folder."""
    Mill(run, wrong).write(folder)
    return folder
