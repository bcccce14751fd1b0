"""A recorded run as a folder: read again anywhere, in any number of processes; every number once; and hostile in every way."""

import json
import os
import shutil
import struct
import sys

import numpy as np
import pytest
import torch

import backproof
import backproof.torch as bpt
from backproof.cli import main
from backproof.errors import InputError
from backproof.trace.folder import read

STEPS = 4


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 3)
    )
    frozen = model[0].weight.requires_grad_(False)  # noqa: F841
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    x, y = torch.randn(24, 16), torch.randint(0, 3, (24,))
    out = tmp_path_factory.mktemp("runs") / "run"
    with bpt.Recorder(model, optimizer, out=out) as recorder:
        for _ in range(STEPS):
            with recorder.step():
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    return out


@pytest.fixture
def run(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "run")


def verdict_of(run, *flags, capsys):
    code = main(["verify", str(run), "--json", *flags])
    return code, json.loads(capsys.readouterr().out)


# ── what is written ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_did_not_change_is_written_once(honest):
    first, last = read(honest / "step000000"), read(honest / "step000003")
    frozen, there = (
        f"v{next(v.id for v in found.step.values.values() if v.name == '0.weight')}" for found in (last, first)
    )

    assert frozen not in last.tensors.own
    assert last.tensors.shared[frozen][0] == "step000000"  # three steps before
    assert np.array_equal(last.tensors[frozen], first.tensors[there])
    assert {step for step, *_ in last.tensors.shared.values()} <= {"step000000", "step000002", "step000003"}


def test_a_change_in_what_another_step_refers_to_is_found(run, capsys):
    shared = json.loads((run / "step000002" / "shared.json").read_text())
    step, name, _ = next(entry for entry in shared.values() if entry[0] == "step000001")
    change(run / step / "tensors.safetensors", name)

    code, found = verdict_of(run, "--steps", "2", capsys=capsys)

    assert code == 1
    assert any("sha256" in finding["because"] for finding in found["steps"][0]["findings"])


def change(path, name):
    raw = bytearray(path.read_bytes())
    length = struct.unpack("<Q", raw[:8])[0]
    raw[8 + length + json.loads(raw[8 : 8 + length])[name]["data_offsets"][0]] ^= 1
    path.write_bytes(raw)


# ── one process, many, a cluster; a folder, a URL ───────────────────────────────────────────────────────────────────


def test_processes_and_a_cluster_say_what_one_process_says(run, capsys):
    change(
        run / "step000001" / "tensors.safetensors", "g16" if "g16" in read(run / "step000001").tensors.own else "g12"
    )
    one = verdict_of(run, capsys=capsys)
    assert verdict_of(run, "--workers", "2", capsys=capsys) == one

    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, processes=True) as cluster:
        assert verdict_of(run, "--cluster", cluster.scheduler_address, capsys=capsys) == one


def test_an_address_where_no_scheduler_is_is_said(run, capsys):
    assert main(["verify", str(run), "--cluster", "tcp://127.0.0.1:9"]) == 3
    assert "scheduler" in capsys.readouterr().err


def test_steps_are_chosen(run, capsys):
    code, found = verdict_of(run, "--steps", "1,3-3", capsys=capsys)
    assert (code, [step["step"] for step in found["steps"]]) == (0, [1, 3])
    assert main(["verify", str(run), "--steps", "7"]) == 3
    assert main(["verify", str(run), "--steps", "x"]) == 3


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_a_run_behind_a_url(run, scheme):
    import fsspec

    url = f"file://{run}"
    if scheme == "memory":
        url = "memory://bucket/run"
        fsspec.filesystem("memory").put(str(run), "/bucket/run", recursive=True)

    assert backproof.verify(url).to_json()["steps"] == backproof.verify(run).to_json()["steps"]


def test_the_verdict_as_data_and_at_the_prompt_are_one(run, capsys):
    _, found = verdict_of(run, capsys=capsys)
    verdict = backproof.verify(run)

    assert {**verdict.to_json(), "ok": True} == found
    assert verdict.holds
    assert (
        str(verdict)
        == f"holds: all {sum(step['equations']['checked'] for step in found['steps'])} equations of 4 steps"
    )
    assert verdict.verdict == found["verdict"] == "holds"
    step = found["steps"][0]
    assert set(step) >= {"step", "verdict", "equations", "findings", "suspect", "not_checked"}
    assert set(step["equations"]) == {"checked", "holds", "noise", "flip", "broken", "not_checked"}


KEYS = "equation place probe phase parameter verdict ratio slope claimed derived bound cause cascades_from".split()


def test_a_file_that_is_no_run_is_told_where_to_go(tmp_path):
    (tmp_path / "mazur.jsonl").write_text("{}")

    with pytest.raises(InputError, match=r"mazur\.jsonl: a file, and no folder of recorded steps; .*verify_receipt"):
        backproof.verify(tmp_path / "mazur.jsonl")


def test_a_finding_has_its_keys(run, capsys):
    change_number(run / "step000001" / "tensors.safetensors", "u0:after:parameter:3.weight")

    code, found = verdict_of(run, "--steps", "1", capsys=capsys)

    (finding,) = found["steps"][0]["findings"]
    assert code == 1
    assert set(finding) >= set(KEYS)
    assert (finding["equation"], finding["place"], finding["parameter"]) == ("update", "3.weight", "3.weight")
    assert finding["cascades_from"] is None


def change_number(path, name):
    raw = bytearray(path.read_bytes())
    length = struct.unpack("<Q", raw[:8])[0]
    begin, end = json.loads(raw[8 : 8 + length])[name]["data_offsets"]
    numbers = np.frombuffer(bytes(raw[8 + length + begin : 8 + length + end]), dtype=np.float32).copy()
    numbers[0] *= 1.01
    raw[8 + length + begin : 8 + length + end] = numbers.tobytes()
    path.write_bytes(raw)


# ── causes and consequences ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_derivative_of_a_wrong_kernel_is_folded_under_it(tmp_path, capsys):
    from planted import planted

    planted()["tanh-GELU for erf-GELU"].record(tmp_path / "run", True)

    _, found = verdict_of(tmp_path / "run", capsys=capsys)
    main(["verify", str(tmp_path / "run")])

    first, *rest = found["steps"][0]["findings"]
    assert (first["equation"], first["cascades_from"]) == ("forward", None)
    assert "tanh" in first["cause"]
    assert [(entry["equation"], entry["cascades_from"]) for entry in rest] == [("gradient", 0)]
    assert "1 more follows from it" in capsys.readouterr().out


def test_a_wrong_kernel_and_a_wrong_gradient_elsewhere_are_two_causes(run, capsys):
    change_number(run / "step000001" / "tensors.safetensors", "u0:after:parameter:3.weight")
    change_number(run / "step000001" / "tensors.safetensors", "u0:after:parameter:3.bias")

    _, found = verdict_of(run, "--steps", "1", capsys=capsys)

    assert [entry["cascades_from"] for entry in found["steps"][0]["findings"]] == [None, None]


def test_drift_is_reported_and_not_judged(run, capsys):
    code, found = verdict_of(run, "--drift", "--steps", "0", capsys=capsys)

    drift = found["steps"][0]["drift"]
    assert code == 0
    assert 0 < drift["loss"] <= drift["explained"] < 1e-5
    assert 0 < drift["gradients"] < 1e-5


def test_a_record_that_spends_the_slack_of_its_bands_shows_in_its_drift(run, capsys):
    """Every value a little off to one side, each within its band."""
    _, honest = verdict_of(run, "--drift", "--steps", "0", capsys=capsys)
    path = run / "step000000" / "tensors.safetensors"
    raw = bytearray(path.read_bytes())
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    header, recorded = json.loads(raw[8:begin]), read(run / "step000000").step
    made = {
        f"v{output}" for call in recorded.calls for output in call.outputs if recorded.values[output].dtype == "float32"
    }
    for name in made:
        place = slice(*(begin + offset for offset in header[name]["data_offsets"]))
        numbers = np.frombuffer(bytes(raw[place]), dtype=np.float32)
        raw[place] = (numbers * np.float32(1 + 3e-7)).tobytes()
    path.write_bytes(raw)

    _, forged = verdict_of(run, "--drift", "--steps", "0", capsys=capsys)

    assert forged["steps"][0]["drift"]["explained"] > 2 * honest["steps"][0]["drift"]["explained"]


def test_whichever_number_is_changed_the_step_no_longer_holds(run):
    """One element of each tensor that the step wrote, moved by a twentieth of the largest, or an index by one."""
    path = run / "step000001" / "tensors.safetensors"
    raw = path.read_bytes()
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    header, random = json.loads(raw[8:begin]), np.random.default_rng(0)
    header.pop("__metadata__", None)
    missed = []
    for name, entry in header.items():
        place = slice(*(begin + offset for offset in entry["data_offsets"]))
        numbers = np.frombuffer(raw[place], dtype={"F32": np.float32, "I64": np.int64}[entry["dtype"]]).copy()
        at = random.integers(numbers.size)
        most = abs(numbers).max()
        numbers[at] += (most / 20 or 1.0) if entry["dtype"] == "F32" else 1 if numbers[at] < most else -1
        path.write_bytes(raw[: place.start] + numbers.tobytes() + raw[place.stop :])

        if backproof.verify(run, steps=[0, 1]).verdict != "broken":
            missed.append((name, int(at)))
    assert len(header) > 30
    assert missed == []


# ── hostile folders ─────────────────────────────────────────────────────────────────────────────────────────────────


def edited(change, step="step000001"):
    def edit(run):
        path = run / step / "step.json"
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    return edit


def header(change):
    def edit(run):
        path = run / "step000001" / "tensors.safetensors"
        raw = path.read_bytes()
        length = struct.unpack("<Q", raw[:8])[0]
        text = change(raw[8 : 8 + length].decode())
        path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + raw[8 + length :])

    return edit


def file(name, content):
    return lambda run: (run / "step000001" / name).write_bytes(content)


def cut(name, keep):
    def edit(run):
        path = run / "step000001" / name
        path.write_bytes(path.read_bytes()[:keep])

    return edit


def linked(run):
    target = run.parent / "outside"
    shutil.move(run / "step000001", target)
    (run / "step000001").symlink_to(target)


def piped(run):
    (run / "step000001" / "tensors.safetensors").unlink()
    os.mkfifo(run / "step000001" / "tensors.safetensors")


def shared_elsewhere(run):
    (run / "step000001" / "shared.json").write_text(json.dumps({"v0": ["../../etc", "v0", ""]}))


HOSTILE = {
    "cut in the tensors": cut("tensors.safetensors", 3000),
    "cut in the header": cut("tensors.safetensors", 30),
    "empty": cut("tensors.safetensors", 0),
    "cut in the JSON": cut("step.json", 1000),
    "a pickle": file("tensors.safetensors", b"\x80\x04\x95" + b"x" * 400),
    "a header of ten gigabytes": file("tensors.safetensors", struct.pack("<Q", 10_000_000_000) + b"{}"),
    "no tensors at all": lambda run: (run / "step000001" / "tensors.safetensors").unlink(),
    "a name twice": header(lambda text: text.replace('"v8"', '"v9"', 1)),
    "a shape that does not fit": header(lambda text: text.replace('"shape":[24,32]', '"shape":[24,33]', 1)),
    "a shape of another value": header(lambda text: text.replace('"shape":[24,32]', '"shape":[32,24]', 1)),
    "a negative offset": header(lambda text: text.replace('"data_offsets":[0', '"data_offsets":[-8', 1)),
    "a format that is none": header(lambda text: text.replace('"F32"', '"F33"', 1)),
    "a format of another value": header(lambda text: text.replace('"F32"', '"I32"', 1)),
    "a key twice": lambda run: (run / "step000001" / "step.json").write_text(
        (run / "step000001" / "step.json").read_text().replace('"index"', '"index": 1, "index"', 1)
    ),
    "JSON that is no step": file("step.json", b"[1, 2]"),
    "JSON without an end": file("step.json", b"[" * 100_000),
    "another version": edited(lambda step: step.update(format="backproof.step.v9")),
    "an id out of range": edited(lambda step: step["calls"][0]["args"].__setitem__(0, {"value": 10**9})),
    "an id that is no number": edited(lambda step: step["calls"][0]["args"].__setitem__(0, {"value": "v0"})),
    "an output out of range": edited(lambda step: step["calls"][0].update(outputs=[-1])),
    "a call without an output": edited(lambda step: step["calls"][0].update(outputs=[])),
    "a region out of range": edited(lambda step: step["calls"][0].update(region=5)),
    "a seed out of range": edited(lambda step: step["backwards"][0].update(seed=99999)),
    "a negative shape": edited(lambda step: step["values"][0].update(shape=[-1])),
    "a shape of words": edited(lambda step: step["values"][0].update(shape=["a"])),
    "groups that are words": edited(lambda step: step["updates"][0].update(groups="Adam")),
    "a parameter in two groups": edited(
        lambda step: step["updates"][0]["groups"].append(step["updates"][0]["groups"][0])
    ),
    "a state twice": edited(lambda step: step["updates"][0]["state"]["3.bias"].append("exp_avg")),
    "a gradient out of range": edited(lambda step: step["updates"][0]["grads"].update({"3.bias": 999})),
    "a value twice": edited(lambda step: step["values"].append(step["values"][0])),
    "a key that is none": edited(lambda step: step["calls"][0].update(outptus=[1])),
    "a key that is missing": edited(lambda step: step["calls"][0].pop("outputs")),
    "a flag that is a word": edited(lambda step: step["calls"][0].update(grad="yes")),
    "facts that are none": edited(lambda step: step["facts"].update(world="two")),
    "a link out of the run": linked,
    "a pipe": piped,
    "tensors from outside": shared_elsewhere,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_is_refused_with_its_place(name, run, capsys):
    HOSTILE[name](run)

    code = main(["verify", str(run)])

    said = capsys.readouterr().err
    assert code == 2, said
    assert "step000001" in said
    assert "Traceback" not in said


MISSPELT = [None, True, -1, 10**30, 1e308, "", "../../etc/passwd", [], {}, [[]], {"a": 1}]


def places_in(item, at=()):
    """Every place in a document of JSON, from the outside in."""
    if at:
        yield at
    for key in item if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ():
        yield from places_in(item[key], (*at, key))


def test_whatever_a_record_says_it_is_verified_or_refused_with_a_message(run, capsys):
    """The record of a step, changed in one place at random: never an error that nobody wrote."""
    path = run / "step000001" / "step.json"
    text = path.read_text()
    everywhere = list(places_in(json.loads(text)))
    random = np.random.default_rng(0)
    codes = set()
    for _ in range(120):
        document = json.loads(text)
        *before, last = everywhere[random.integers(len(everywhere))]
        parent = document
        for key in before:
            parent = parent[key]
        if random.integers(3):
            parent[last] = MISSPELT[random.integers(len(MISSPELT))]
        else:
            del parent[last]
        path.write_text(json.dumps(document))

        codes.add(main(["verify", str(run), "--steps", "1"]))

        said = capsys.readouterr()
        assert "bp: " in said.err or "step 1" in said.out, (before, last)
    assert codes == {0, 1, 2}


def test_a_state_that_was_not_recorded_is_not_checked(run, capsys):
    edited(lambda step: step["updates"][0]["state"]["3.bias"].remove("exp_avg_sq"), "step000000")(run)

    code, found = verdict_of(run, "--steps", "0", capsys=capsys)

    assert code == 0
    (entry,) = found["steps"][0]["not_checked"]
    assert entry["place"] == "state exp_avg_sq of 3.bias"


def test_what_no_bound_speaks_of_is_not_checked(run, capsys):
    """With an epsilon beyond float32 nothing is known of the quotient: that is no pass."""
    edited(lambda step: step["updates"][0]["groups"][0].update(eps=1e308))(run)

    code, found = verdict_of(run, "--steps", "1", capsys=capsys)

    assert code == 0
    (step,) = found["steps"]
    assert "update" not in step["kinds"]
    assert {entry["place"] for entry in step["not_checked"]} >= {"update at 3.weight", "update at 3.bias"}
    assert all("nothing is known of them" in entry["why"] for entry in step["not_checked"])


def test_a_half_written_step_is_said_and_the_whole_ones_are_verified(run, capsys):
    (run / "step000003").rename(run / "step000003.part")

    code, found = verdict_of(run, capsys=capsys)

    assert code == 0
    assert [step["step"] for step in found["steps"]] == [0, 1, 2]
    assert any("half written" in note for note in found["notes"])


def test_numbers_that_are_none_are_broken_and_not_an_error(run, capsys):
    path = run / "step000001" / "tensors.safetensors"
    raw = bytearray(path.read_bytes())
    length = struct.unpack("<Q", raw[:8])[0]
    begin, _ = json.loads(raw[8 : 8 + length])["g14" if "g14" in raw[8 : 8 + length].decode() else "g12"][
        "data_offsets"
    ]
    raw[8 + length + begin : 8 + length + begin + 4] = np.float32("nan").tobytes()
    path.write_bytes(raw)

    code, found = verdict_of(run, capsys=capsys)

    assert code == 1
    assert found["verdict"] == "broken"


def test_an_empty_folder_and_one_that_is_not_there(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 2
    assert main(["verify", str(tmp_path / "nothing")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_progress_is_shown_where_somebody_looks_and_nowhere_else(tmp_path, monkeypatch, capsys):
    record_two(tmp_path / "run")

    assert main(["verify", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().err == ""

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["verify", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert "step 1 of 2: 40%" in said
    assert "step 2 of 2: " in said
    assert said.endswith("\r\x1b[K")


def test_a_verification_that_is_interrupted_leaves_the_run_as_it_is(tmp_path, monkeypatch):
    record_two(tmp_path / "run")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("backproof.verify.step.check_gradient", interrupted)
    assert main(["verify", str(tmp_path / "run")]) == 130
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_step_that_is_interrupted_leaves_nothing(tmp_path):
    model = torch.nn.Linear(3, 2)
    recorder = bpt.Recorder(model, out=tmp_path / "run")

    def interrupted():
        with recorder.step():
            model(torch.randn(4, 3)).sum().backward()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    recorder.close()
    assert not list((tmp_path / "run").iterdir())


def record_two(out):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bpt.Recorder(model, optimizer, out=out) as recorder:
        for _ in range(2):
            with recorder.step():
                optimizer.zero_grad()
                model(torch.randn(4, 3)).square().mean().backward()
                optimizer.step()
