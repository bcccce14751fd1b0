"""examples/js: a training program in another language writes a trace by the documented format, and its mistakes are named."""

import shutil
import subprocess
from pathlib import Path

import pytest

from backproof.trace import open_trace
from backproof.trace.event import Place
from backproof.verify.traces.compare import compare

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "js"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

PLANTED = {
    "bias forgotten": ("let sum = b[o];", "let sum = 0;", "fc1.fwd"),
    "gradient of a sum": ("(2 * (v - t[i])) / y.length", "2 * (v - t[i])", "loss.lossgrad"),
    "tanh's derivative without its square": ("1 - a[i] * a[i]", "1 - a[i]", "fc1.agrad"),
    "weight's gradient of the wrong input": ("d * x[n * ins + i]", "d * x[(n * ins + i + 1) % x.length]", "fc2.grad_raw.weight"),
    "bias's gradient of the last sample": ("db[o] += d", "db[o] = d", "fc2.grad_raw.bias"),
    "rate a tenth too large": ("-= RATE *", "-= 1.1 * RATE *", "fc1.w_after.weight"),
}  # fmt: skip


def traced(folder, old="", new=""):
    """The example, with one edit, and what it wrote."""
    folder.mkdir()
    shutil.copy(EXAMPLE / "trace.mjs", folder)
    text = (EXAMPLE / "train.mjs").read_text()
    assert not old or text.count(old) == 1
    (folder / "train.mjs").write_text(text.replace(old, new))
    subprocess.run([NODE, folder / "train.mjs", folder / "trace", "2"], check=True, capture_output=True)
    return folder / "trace"


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return traced(tmp_path_factory.mktemp("js") / "honest")


def test_everything_in_it_follows_from_its_own_inputs(honest):
    found = compare(honest, honest)

    assert found.all_findings == []
    assert [step.unchecked for step in found.steps] == [{"a": {}, "b": {}}] * 2
    assert sum(seen.locals[0] is not None for step in found.steps for seen in step.seen.values()) == 46


@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_is_named_at_its_tensor_and_its_side(honest, tmp_path, name):
    old, new, first = PLANTED[name]

    found = compare(honest, traced(tmp_path / "planted", old, new))

    assert (found.first.kind, found.first.place.column, found.first.side) == ("bug", first, "b")
    assert found.exit_code(strict=False) == 1


def test_it_agrees_with_the_same_network_in_pytorch(honest, tmp_path):
    torch = pytest.importorskip("torch")
    import backproof.torch as bpt

    step = open_trace(honest).steps[0]

    def numbers(*place):
        return torch.from_numpy(step.tensor(Place(*place)).copy())

    model = torch.nn.Sequential()
    for name, layer in (("fc1", torch.nn.Linear(3, 6)), ("act", torch.nn.Tanh()), ("fc2", torch.nn.Linear(6, 2))):
        model.add_module(name, layer)
    model.load_state_dict({f"{n}.{p}": numbers(n, "w_before", p) for n in ("fc1", "fc2") for p in ("weight", "bias")})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, t = numbers("input", "fwd").requires_grad_(), numbers("label", "fwd")
    with bpt.trace(model, tmp_path / "torch", optimizer=optimizer):
        torch.nn.functional.mse_loss(model(x), t).backward()
        optimizer.step()
    shutil.copytree(honest, tmp_path / "js")
    shutil.rmtree(tmp_path / "js" / "step001")
    told = (tmp_path / "js" / "trace.json").read_text()
    (tmp_path / "js" / "trace.json").write_text(told[: told.index(',{"index":1')] + "]}")

    found = compare(tmp_path / "js", tmp_path / "torch")

    assert [one.says for one in found.all_findings] == []
    assert found.compared == 27


def test_a_name_that_is_no_file_name_is_refused(tmp_path):
    shutil.copy(EXAMPLE / "trace.mjs", tmp_path)
    (tmp_path / "try.mjs").write_text(
        'import { traceWriter } from "./trace.mjs";\n'
        'traceWriter("t", {})(0, { "../up.fwd": [new Float32Array(1), [1]] });\n'
    )

    done = subprocess.run([NODE, "try.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert "../up.fwd: write other characters as %" in done.stderr
    assert not (tmp_path / "up.fwd.npy").exists()
