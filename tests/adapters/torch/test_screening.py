"""A step that is only screened: large products are projected, and a mistake in one is found; of its honest twin nothing is said."""

import json
import math
import shutil

import numpy as np
import pytest
import torch

import backproof.torch as bpt
from backproof.cli import main
from backproof.diagnose import verify
from backproof.engine.bounded import Bounded
from backproof.engine.domain import float64
from backproof.engine.evaluate import evaluate
from backproof.engine.projected import Projection
from backproof.ir.build import Builder
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.types import real
from backproof.trace.folder import Recorded, folders, read
from backproof.verify.equation import Total
from backproof.verify.origin import Origin
from backproof.verify.run import open_run, verify_at
from backproof.verify.screening import DIGESTED, PROBES, Screening
from backproof.verify.step import Options, verify_step


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two linear layers and a convolution, large enough to be screened."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(8, 48, 3, padding=1),
        torch.nn.Tanh(),
        torch.nn.Conv2d(48, 6, 3),
        torch.nn.Flatten(),
        torch.nn.Linear(600, 384),
        torch.nn.GELU(),
        torch.nn.Linear(384, 384),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    out = tmp_path_factory.mktemp("screened") / "run"
    with bpt.Recorder(model, optimizer, out=out) as recorder:
        for _ in range(2):
            x = torch.randn(256, 8, 12, 12)
            with recorder.step():
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
    return out


class Edited:
    """A step's tensors, some of them other than recorded."""

    def __init__(self, tensors, changes):
        self.tensors, self.changes = tensors, changes

    def __contains__(self, key):
        return key in self.tensors

    def __iter__(self):
        return iter(self.tensors)

    def __getitem__(self, key):
        return self.changes.get(key, self.tensors[key])

    def __getattr__(self, name):
        return getattr(self.tensors, name)


def transposed(a):
    return a.T.copy()


def one_wrong_row(a):
    a[3] *= 1.01
    return a


def one_wrong_element(a):
    at = np.unravel_index(np.argmax(abs(a)), a.shape)
    a[at] *= 1.5
    return a


def a_scaled_block(a):
    a[: len(a) // 4] *= (
        1.005  # of the convolution's weights 1.001 is a few thresholds, and missed once in two hundred times
    )
    return a


MISTAKES = [transposed, one_wrong_row, one_wrong_element, a_scaled_block]


def products(recorded):
    """The recorded result, input gradient and weight gradient of the last linear layer, and of the second convolution."""
    step = recorded.step
    calls = {
        "linear": next(call for call in reversed(step.calls) if call.op.endswith("linear")),
        "conv": next(call for call in reversed(step.calls) if "conv" in call.op),
    }
    found = {}
    for name, call in calls.items():
        x, weight = (item["value"] for item in call.args[:2])
        found |= {
            (name, "forward"): f"v{call.outputs[0]}",
            (name, "input gradient"): f"g{x}",
            (name, "weight gradient"): f"g{weight}",
        }
    return found


def test_what_is_honest_holds_and_the_verdict_says_how_it_was_looked_at(run):
    whole = verify_step(read(folders(run)[1]))
    found = verify_step(read(folders(run)[1]), Options(screen=True))

    assert found.verdict == whole.verdict == "holds"
    assert found.counts == whole.counts
    assert found.screen["projected"] >= 8
    assert found.screen["sampled"] > 0
    assert found.screen["in_full"] > 0
    assert sum(found.screen[way] for way in ("projected", "sampled", "in_full")) == found.counts["checked"]
    assert whole.screen is None


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("which", ["forward", "input gradient", "weight gradient"])
@pytest.mark.parametrize("layer", ["linear", "conv"])
def test_a_mistake_in_a_large_product_is_found(run, layer, which, mistake):
    recorded = read(folders(run)[1])
    key = products(recorded)[layer, which]
    right = recorded.tensors[key]
    if mistake is transposed and (right.ndim != 2 or right.shape[0] != right.shape[1]):
        pytest.skip("it would have another shape")
    wrong = mistake(right.copy())
    assert not np.array_equal(wrong, right)

    found = verify_step(Recorded(recorded.step, Edited(recorded.tensors, {key: wrong})), Options(screen=True))

    equation = "forward" if which == "forward" else "gradient"
    assert (equation, key[1:]) in {(result.equation, result.probe) for result in found.broken}


@pytest.mark.parametrize("rho", [1.5, 3.0, 8.0])
def test_a_mistake_is_missed_as_often_as_is_said(rho):
    """One wrong element of a product without rounding errors, as many thresholds large as rho."""
    rng = np.random.default_rng(0)
    x, weight = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((64, 32), (32, 48)))
    claimed, tried = x @ weight, 3000
    screening = Screening(seed=1)
    origin = Origin(composed(x.shape, weight.T.shape), lambda: [x, weight.T.copy()], 2)
    total = Total()
    total.add(None, origin)
    graph, leaves, output = origin.derivation()
    shadow = Projection(graph, Bounded("float32"), leaves, rng.standard_normal((48, PROBES))).shadow(output, 1)
    wrong = claimed.copy()
    wrong[5, 7] += np.float32(rho * shadow.growth * shadow.size[5, 0])

    missed = sum(screening.look(wrong, total, "float32") is not None for _ in range(tried))

    expected = math.erf(1 / (rho * math.sqrt(2))) ** PROBES
    assert expected <= (0.9 / rho) ** PROBES
    assert abs(missed / tried - expected) <= 5 * math.sqrt(expected / tried) + 5 / tried
    assert screening.look(claimed, total, "float32").ratio < 1e-8


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    """A table, a layer norm, a GELU and logits, large enough to be sampled; and a loss of them all."""
    torch.manual_seed(0)
    vocabulary, width = 6000, 64

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(vocabulary, width)
            self.norm = torch.nn.LayerNorm(width)
            self.wide = torch.nn.Linear(width, 4 * width)
            self.narrow = torch.nn.Linear(4 * width, width)

        def forward(self, ids):
            x = self.table(ids)
            x = self.narrow(torch.nn.functional.gelu(self.wide(self.norm(x)))).transpose(0, 1)
            return torch.nn.functional.linear(x.contiguous(), self.table.weight)

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    out = tmp_path_factory.mktemp("screened") / "language"
    with bpt.Recorder(model, optimizer, out=out) as recorder:
        for _ in range(2):
            ids = torch.randint(0, vocabulary, (8, 100))
            with recorder.step():
                optimizer.zero_grad()
                logits = model(ids)
                torch.nn.functional.cross_entropy(logits.view(-1, vocabulary), ids.T.reshape(-1)).backward()
                optimizer.step()
    return out


def output_of(step, op):
    return f"v{next(call.outputs[0] for call in step.calls if call.op.split('.')[-1] == op)}"


WRONG = {
    "a loss of three rows in a hundred too many": (
        "forward",
        lambda step: output_of(step, "cross_entropy"),
        lambda a: a * 0.97,
    ),
    "an activation of another kind": ("forward", lambda step: output_of(step, "gelu"), lambda a: a + 1e-4),
    "a norm of another epsilon": ("forward", lambda step: output_of(step, "layer_norm"), lambda a: a * 1.00002),
    "one number lost where they are only moved": ("forward", lambda step: output_of(step, "contiguous"), one_wrong_row),
    "a state of another decay": (
        "state",
        lambda step: "u0:after:exp_avg:table.weight",
        lambda a: a * 1.0001,
    ),
    "an update half as far": ("update", lambda step: "u0:after:parameter:table.weight", lambda a: a + 5e-4),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_in_many_places_is_found_in_few(language, what):
    equation, key_of, mistake = WRONG[what]
    recorded = read(folders(language)[1])
    key = key_of(recorded.step)
    wrong = mistake(recorded.tensors[key].copy()).astype(np.float32)

    honest = verify_step(recorded, Options(screen=True))
    found = verify_step(Recorded(recorded.step, Edited(recorded.tensors, {key: wrong})), Options(screen=True))

    assert honest.verdict == "holds"
    assert set(honest.screen["places"]) <= {"1024", *(str(k) for k in range(2, 33))}
    assert 0 < honest.screen["share"] < 1
    assert equation in {result.equation for result in found.broken}


@pytest.mark.parametrize(("name", "places", "part"), [("softmax", 32, 1 / 8), ("exp", 1024, 1 / 512)])
def test_a_mistake_in_a_part_of_the_places_is_missed_as_often_as_is_said(name, places, part):
    """(1 − f)^k: of 512 rows where they matter, of all numbers where they do not."""
    x = np.random.default_rng(0).standard_normal((512, 512), np.float32)
    b = Builder()
    leaf = b.leaf(real(*x.shape))
    graph = b.graph(COMPOSITIONS["softmax"].function(leaf, 1) if name == "softmax" else b.exp(leaf))
    wrong = evaluate(graph, float64(), [x])[graph.outputs[0]].astype(np.float32)
    count = int(part * x.size)
    wrong.reshape(-1)[:count] *= np.float32(1.001)
    total, screening, tried = Total(), Screening(seed=2), 1000
    total.add(None, Origin(graph, lambda: [x], graph.outputs[0]))

    missed = sum(screening.look(wrong, total, "float32") is not None for _ in range(tried))

    expected = (1 - part) ** places
    assert screening.places.keys() == {places}
    assert abs(missed / tried - expected) <= 5 * math.sqrt(expected / tried)


@pytest.mark.parametrize("drawn", [True, False])
def test_of_earlier_tensors_some_digests_are_compared(run, tmp_path, monkeypatch, drawn):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    path = copy / "step000000" / "tensors.safetensors"
    data = bytearray(path.read_bytes())
    shared = json.loads((copy / "step000001" / "shared.json").read_text())
    name = next(at for step, at, *_ in shared.values() if step == "step000000" and at.endswith("bias"))
    begin, _ = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])[name]["data_offsets"]
    data[8 + int.from_bytes(data[:8], "little") + begin] ^= 1  # the last bit of a number
    path.write_bytes(data)
    monkeypatch.setattr("random.random", lambda: 0.0 if drawn else 0.99)

    found = verify_at(open_run(str(copy)), 1, Options(screen=True))

    changed = [result for result in found.broken if "changed since" in result.because]
    assert bool(changed) == drawn
    assert found.screen["digested"] == DIGESTED


def composed(*shapes):
    b = Builder()
    return b.graph(COMPOSITIONS["linear"].function(*(b.leaf(real(*shape)) for shape in shapes)))


def test_what_two_errors_cancel_in_signs_is_found(run):
    """Two errors of one size in a row: half of all draws of ±1 would not see them."""
    recorded = read(folders(run)[1])
    key = products(recorded)["linear", "weight gradient"]
    wrong = recorded.tensors[key].copy()
    wrong[5, 7] += abs(wrong).max()
    wrong[5, 8] += abs(wrong).max()
    edited = Recorded(recorded.step, Edited(recorded.tensors, {key: wrong}))

    for _ in range(20):
        assert verify_step(edited, Options(screen=True)).verdict == "broken"


def test_the_command_and_the_function_say_so(run, capsys):
    assert main(["verify", str(run), "--screen"]) == 0
    said = capsys.readouterr().out
    assert "screened: " in said
    assert "May miss" in said

    assert main(["verify", str(run), "--screen", "--json"]) == 0
    (first, _) = json.loads(capsys.readouterr().out)["steps"]
    assert set(first["screen"]) == {
        *("projected", "sampled", "in_full", "probes", "share", "places", "digested", "missed"),
    }

    assert verify(run, screen=True).verdict == "holds"
    assert verify(run).steps[0].screen is None
