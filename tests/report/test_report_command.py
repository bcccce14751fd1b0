"""bp report: what a run, a comparison and a sweep show on the page, and what is refused."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest

from backproof.cli import main
from backproof.trace import Event, Manifest, Probe, TraceWriter

torch = pytest.importorskip("torch")

import backproof.torch as bpt  # noqa: E402 # after torch is known to be there


def traced(folder, seed=0, wrong=False):
    """A linear layer and a ReLU; the wrong one forgets the bias."""
    random = np.random.default_rng(seed)
    x, w, b = (random.normal(size=shape).astype(np.float32) for shape in ((4, 3), (5, 3), (5,)))
    probes = (Probe("fc", ("input",), "linear", {}, ("weight", "bias")), Probe("act", ("fc",), "relu"))
    with TraceWriter(folder, Manifest(batch=4, probes=probes)).step(0) as sink:
        sink(Event("fc", "w_before", parameter="weight", tensor=w))
        sink(Event("fc", "w_before", parameter="bias", tensor=b))
        sink(Event("input", "fwd", tensor=x))
        y = x @ w.T + (0 if wrong else b)
        sink(Event("fc", "fwd", tensor=y.astype(np.float32)))
        sink(Event("act", "fwd", tensor=np.maximum(y, 0).astype(np.float32)))
    return str(folder)


def square(slope):
    """x², with a derivative of `slope`·x."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return slope * ctx.saved_tensors[0] * gradient

    return Square.apply


def recorded(folder, slope=2.0):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bpt.Recorder(model, optimizer, out=folder) as recorder, recorder.step():
        optimizer.zero_grad()
        square(slope)(model(torch.randn(4, 3))).sum().backward()
        optimizer.step()
    return str(folder)


def sections(path):
    text = path.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(data)


def titles(section):
    return [part["title"] for part in section["parts"]]


def test_a_run_that_holds_has_no_cause_and_every_equation_below_the_bound(tmp_path, capsys):
    out = tmp_path / "report.html"

    assert main(["report", recorded(tmp_path / "run"), "-o", str(out)]) == 0

    (section,) = sections(out)
    assert section["verdict"] == "holds"
    assert section["cause"] == []
    (curve,) = (part for part in section["parts"] if part["kind"] == "curve")
    ratios, bound = curve["lines"][0]["values"], curve["lines"][2]["values"]
    assert len(ratios) >= 5
    assert max(ratios) <= 1
    assert set(bound) == {1.0}
    assert "report.html: holds" in capsys.readouterr().out


def test_a_run_that_is_broken_shows_where(tmp_path):
    out = tmp_path / "report.html"

    assert main(["report", recorded(tmp_path / "run", slope=3.0), "-o", str(out)]) == 0

    (section,) = sections(out)
    assert section["verdict"] == "broken"
    assert dict(section["cause"])["equation"].startswith("gradient at ")
    assert section["parts"][0]["title"] == "What does not plainly hold"
    (curve,) = (part for part in section["parts"] if part["kind"] == "curve")
    assert max(curve["lines"][0]["values"]) > 1


def test_two_traces_that_agree_and_two_that_do_not(tmp_path):
    a, same, other = (traced(tmp_path / name, wrong=name == "other") for name in ("a", "same", "other"))
    out = tmp_path / "report.html"

    assert main(["report", a, same, "-o", str(out)]) == 0
    (agreed,) = sections(out)
    assert (agreed["verdict"], agreed["cause"]) == ("agree", [])

    assert main(["report", a, other, "-o", str(out)]) == 0
    (section,) = sections(out)
    assert section["verdict"] == "differ"
    cause = dict(section["cause"])
    assert (cause["place"], cause["wrong side"]) == ("fc.fwd", "b")
    assert "Every layer and phase" in titles(section)
    assert "Each side against its own mathematics" in titles(section)
    key = next(part["keys"][0] for part in section["parts"] if part["title"] == "Findings")
    detail = section["details"][key]
    assert detail["title"] == "fc.fwd"
    assert sum(detail["histogram"]["counts"]) + detail["histogram"]["exact"] == 20
    worst = [float(row[3]) for row in detail["rows"]]
    assert worst == sorted(worst, reverse=True)


def test_folders_of_batches_and_what_a_sweep_left(tmp_path, capsys):
    for side in ("a", "b"):
        for batch in (0, 1):
            (tmp_path / side).mkdir(exist_ok=True)
            traced(tmp_path / side / f"batch{batch}", seed=batch, wrong=side == "b" and batch == 1)
    out = tmp_path / "report.html"

    assert main(["report", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(out)]) == 0
    (section,) = sections(out)
    assert section["verdict"] == "differ"
    assert dict(section["cause"])["batch"] == "batch1"
    grid = next(part for part in section["parts"] if part["title"] == "Every tensor in every batch")
    row = grid["values"][grid["rows"].index("fc.fwd")]
    assert row[0] == 0
    assert row[1] > 0.01
    assert grid["wrong"][grid["rows"].index("fc.fwd")] == [False, True]

    copy = f"{sys.executable} -c \"import shutil; shutil.copytree(r'{tmp_path}/a/batch' + '{{index}}', r'{{out}}')\""
    command = copy.replace("{{", "{").replace("}}", "}")
    assert main(["sweep", "--a", command, "--b", command, "--batches", "2", "--out", str(tmp_path / "sweep")]) == 0
    assert main(["report", str(tmp_path / "sweep"), "-o", str(out)]) == 0
    (swept,) = sections(out)
    assert swept["verdict"] == "agree"
    assert [row[0] for row in swept["parts"][0]["rows"]] == ["batch0000", "batch0001"]


@pytest.mark.parametrize(
    ("names", "code", "says"),
    [
        (["nowhere"], 2, "there is no such folder"),
        (["empty"], 2, "is neither a recorded run"),
        (["a"], 3, "compared in twos"),
        (["a", "run"], 3, "compared in twos"),
        (["sweep"], 2, "not the result of a batch"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_nothing_is_lost(tmp_path, capsys, names, code, says):
    traced(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "run" / "step000000").mkdir(parents=True)
    (tmp_path / "run" / "step000000" / "step.json").write_text("{}")
    (tmp_path / "sweep" / "batch0").mkdir(parents=True)
    (tmp_path / "sweep" / "batch0" / "result.json").write_text('{"asked": 3}')
    out = tmp_path / "report.html"
    out.write_text("earlier")

    assert main(["report", *(str(tmp_path / name) for name in names), "-o", str(out)]) == code

    assert says in capsys.readouterr().err
    assert out.read_text() == "earlier"
