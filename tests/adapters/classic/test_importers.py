"""Imports: what a framework recorded honestly is matched, whatever else is not, and the bytes are reproducible."""

import copy
import io
import json
import subprocess
import sys

import pytest

from backproof.adapters.classic import templates
from backproof.adapters.classic.importers import Request, import_sidecar, import_stream
from backproof.errors import InputError
from backproof.receipt import bundle_digest, emit, receipt_deviations
from backproof.receipt.document import as_receipt
from backproof.verify import verify_receipts

torch = pytest.importorskip("torch", reason="PyTorch is not installed: there is nothing to record with")
from test_pytorch_helper import OPTIMIZERS, network, record, sgd  # noqa: E402
from torch import nn  # noqa: E402

REQUEST = Request("pytorch", timestamp="2026-01-01T00:00:00Z")
LOSSLESS = Request("pytorch", timestamp="2026-01-01T00:00:00Z", lossless=True)
TRACE = "ab" * 16


def line(sidecar):
    return json.dumps(sidecar).encode() + b"\n"


def imported(sidecar, request=REQUEST):
    return import_sidecar(line(sidecar), request)[1]


def streamed(sidecars, request=REQUEST):
    out = io.BytesIO()
    result = import_stream(io.BytesIO(b"".join(map(line, sidecars))), request, out)
    return out.getvalue(), result


def receipts_of(sidecars, **options):
    """The receipts of a stream, which the importer finds to match."""
    lines, result = streamed(sidecars, Request("pytorch", timestamp="2026-01-01T00:00:00Z", **options))
    assert result.matched, result.disagreements
    return [json.loads(text) for text in lines.splitlines()]


def recorded(name="sgd", steps=1, dtype=torch.float64, trace_id=TRACE):
    model = network(dtype)
    return record(model, OPTIMIZERS[name](model.parameters()), steps=steps, trace_id=trace_id)


def classifier(steps=3, batch=None):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 4)).double()
    x = torch.randn(*([batch] if batch else []), 9, dtype=torch.float64).tolist()
    y = [k % 4 for k in range(batch)] if batch else [0.0, 1.0, 0.0, 0.0]
    said = {"loss": "cross_entropy_softmax", "loss_fn": nn.CrossEntropyLoss(), "trace_id": TRACE}
    return record(model, sgd(model), steps=steps, x=x, y=y, **said)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_honest_step_matches_within_what_its_own_format_rounds(name, dtype):
    sidecars = recorded(name, steps=4, dtype=dtype)

    lines, result = streamed(sidecars)

    assert result.matched, result.disagreements
    documents = [json.loads(text) for text in lines.splitlines()]
    assert [receipt_deviations(document) for document in documents] == [[]] * 4
    assert b"".join(map(emit, documents)) == lines
    assert {d["attestor"]["bundle_root_digest"] for d in documents} == {bundle_digest(documents)} == {result.digest}
    assert all(imported(sidecar).matched for sidecar in sidecars)


@pytest.mark.parametrize("batch", [None, 5])
def test_the_classifier_matches_alone_and_in_batches(batch):
    assert streamed(classifier(batch=batch))[1].matched


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif isinstance(value, float):
        yield path, value


def changed(sidecar, path, value):
    other = copy.deepcopy(sidecar)
    held = other
    for key in path[:-1]:
        held = held[key]
    held[path[-1]] = value
    return other


@pytest.mark.parametrize("name", ["momentum and decay", "adamw"])
def test_changing_any_one_number_is_noticed(name):
    _, sidecar = recorded(name, steps=2)  # in the first step momentum meets no buffer
    sidecar = {key: value for key, value in sidecar.items() if key not in {"trace_id", "step_index"}}
    unnoticed = []
    for path, value in leaves(sidecar):
        for other in (value * 1.001 + 1e-6, -value if value else 1e-3):
            try:
                if imported(changed(sidecar, path, other)).matched:
                    unnoticed.append((path, value, other))
            except InputError:
                continue

    assert unnoticed == []


def test_missing_extra_and_repeated_entries_are_noticed():
    (sidecar,) = recorded()
    without, twice, ghost = (copy.deepcopy(sidecar) for _ in range(3))
    del without["updates"][3]
    twice["updates"].append(twice["updates"][3])
    ghost["forward"]["h9"] = {"net": 0.0, "out": 0.5}
    signal = copy.deepcopy(sidecar)
    del signal["backward"]["hidden_error_signals"]["h1"]["downstream_contributions"][0]

    for broken in (without, twice, ghost, signal):
        assert not imported(broken).matched
    paths = [entry.path for entry in imported(without).disagreements[0]]
    assert "updates[w_i2_h2].gradient" in paths


@pytest.mark.parametrize("factor", [-1.0, 0.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_an_update_far_below_the_declared_tolerance_is_compared_all_the_same(dtype, factor):
    model = network(dtype)
    (sidecar,) = record(model, torch.optim.SGD(model.parameters(), lr=1e-6))
    (document,) = receipts_of([sidecar])
    seen = [
        k
        for k, update in enumerate(sidecar["updates"])  # more than what the addition of two float32 numbers rounds
        if abs(update["update"]) > torch.finfo(dtype).eps * abs(update["weight_before"])
    ]

    for k in seen:
        update = sidecar["updates"][k]
        forged = imported(changed(sidecar, ("updates", k, "update"), update["update"] * factor))
        judged = verify_receipts([as_receipt(moved(document, k, factor))], bundle=False)

        assert abs(update["update"]) < 1e-6
        assert f"updates[{update['parameter_id']}].update" in [entry.path for entry in forged.disagreements[0]]
        assert 5 in [finding.rule for finding in judged.findings]
    assert seen
    assert verify_receipts([as_receipt(document)], bundle=False).holds


def moved(document, k, factor):
    """A receipt with one update that is another, and everything after it as if it were right."""
    document = copy.deepcopy(document)
    entry = document["updates"][k]
    entry["update"] *= factor
    entry["weight_after"] = entry["weight_before"] + entry["update"]
    document["parameters_after"][entry["parameter_id"]] = entry["weight_after"]
    return document


def test_blocks_after_the_update_are_taken_and_compared_where_the_sidecar_has_them():
    (sidecar,) = recorded()
    receipt = json.loads(import_sidecar(line(sidecar), REQUEST)[0])
    own = {**sidecar, **{key: receipt[key] for key in ("post_update_forward", "post_update_loss")}}

    assert imported(own).matched
    own["post_update_loss"]["total"] *= 1.01
    assert [entry.path for entry in imported(own).disagreements[0]] == ["post_update_loss.total"]


def test_without_a_compiler_the_bytes_are_the_same(monkeypatch):
    sidecars = [*recorded("adam", steps=3), *[{**s, "step_index": s["step_index"] + 3} for s in recorded("adam", 2)]]
    native_lines = streamed(sidecars)[0]

    monkeypatch.setattr(templates, "library", lambda: None)

    assert streamed(sidecars)[0] == native_lines


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s[1].update(trace_id="cd" * 16), "trace_id"),
        (lambda s: s[1].update(step_index=2), "its place in the stream is 1"),
        (lambda s: s[2]["source_framework"].update(version="0.1"), "source_framework.version"),
        (lambda s: s[2]["updates"][0]["optimizer"].update(learning_rate=-1.0), "line 3"),
        (lambda s: s[2]["parameters_after"].pop("w_i1_h1"), "parameters_after.w_i1_h1"),
        (lambda s: s[1].update(format="framework-trace.v0.1.0"), "line 2"),
        (lambda s: s.clear(), "is empty"),
    ],
)
def test_a_stream_that_is_not_one_run_is_refused_with_its_line(change, says):
    sidecars = recorded(steps=3)
    change(sidecars)

    with pytest.raises(InputError, match=says):
        streamed(sidecars)


def test_a_stream_without_a_trace_gets_the_one_of_its_own_digest():
    sidecars = recorded(steps=2, trace_id=None)

    lines, result = streamed(sidecars)

    first, second = (json.loads(text) for text in lines.splitlines())
    assert result.matched
    assert first["trace_id"] == second["trace_id"] == first["attestor"]["import_provenance"]["source_hash"][7:39]
    assert (first["step_index"], second["step_index"], second["fixture"][-7:]) == (0, 1, "-step-1")


def test_one_wrong_record_among_many_is_named_and_the_others_match():
    sidecars = recorded(steps=5)
    sidecars[3]["loss"]["total"] += 0.01

    lines, result = streamed(sidecars)

    assert list(result.disagreements) == [3]
    states = [json.loads(text)["fixture_status"]["verification_state"] for text in lines.splitlines()]
    assert [state.endswith("disagreed") for state in states] == [False, False, False, True, False]


def test_a_number_that_the_format_cannot_carry_is_named_and_written_without_loss():
    model = network()
    (sidecar,) = record(model, torch.optim.Adam(model.parameters(), lr=0.01), x=[1e-7, 0.0])

    with pytest.raises(InputError, match=r"state_after\.v.*--lossless"):
        imported(sidecar)

    written, result = import_sidecar(line(sidecar), LOSSLESS)
    document = json.loads(written)
    assert result.matched
    assert document["schema_version"] == "1.0.0"
    assert emit(document) == written
    assert receipt_deviations(document) == []
    kept, said = ([u["optimizer"]["state_after"]["v"] for u in d["updates"]] for d in (document, sidecar))
    assert kept == said
    assert verify_receipts([as_receipt(document)], bundle=False).holds
    document["updates"][0]["optimizer"]["state_after"]["v"] *= 1.0 + 1e-12
    assert not verify_receipts([as_receipt(document)], bundle=False).holds


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_stream_is_written_without_loss_and_bound_by_its_digest(name, dtype):
    written, result = streamed(recorded(name, steps=3, dtype=dtype), LOSSLESS)
    documents = [json.loads(text) for text in written.splitlines()]

    assert result.matched
    assert b"".join(map(emit, documents)) == written
    assert [d["attestor"]["bundle_root_digest"] for d in documents] == [result.digest] * 3
    assert result.digest == bundle_digest(documents)
    assert verify_receipts(map(as_receipt, documents), bundle=True).holds
    for broken in (documents[:2], documents[::-1]):
        assert 17 in {f.rule for f in verify_receipts(map(as_receipt, broken), bundle=True).findings}
    documents[1]["metadata"]["source"] += "x"
    assert [f.rule for f in verify_receipts(map(as_receipt, documents), bundle=True).findings] == [17]


def test_dampening_may_begin_in_the_second_step_and_only_there():
    first, second, third = documents = receipts_of(recorded("dampening", steps=3))

    def rules(changed):
        return {finding.rule for finding in verify_receipts(map(as_receipt, changed), bundle=True).findings}

    assert [d["schema_version"] for d in documents] == ["0.6.0", "0.7.0", "0.7.0"]
    assert rules(documents) == set()
    later = copy.deepcopy(second)  # dampening that begins in the third step, whose buffers are no longer 0
    del later["optimizer_config"]["dampening"]
    later["schema_version"] = "0.6.0"
    assert {21, 26} <= rules([first, later, third])
    ended = copy.deepcopy(third)
    del ended["optimizer_config"]["dampening"]
    ended["schema_version"] = "0.6.0"
    assert {21, 26, 36} <= rules([first, second, ended])
    renamed = {**copy.deepcopy(second), "schema_version": "0.8.0"}
    assert 36 in rules([first, renamed, third])


SATURATED = {  # what float32 cannot hold beside 1, or at all
    "one class": ({"x": [30.0, -40.0], "y": 1}, "sgd"),
    "a batch": ({"x": [[30.0, -40.0], [0.05, 0.1], [-9.0, 9.0]], "y": [1, 0, 1]}, "sgd"),
    "moments": ({"x": [30.0, -40.0], "y": 1}, "adam"),
    "moments and decay": ({"x": [30.0, -40.0], "y": 1}, "adamw"),
}


@pytest.mark.parametrize("scale", [1.0, 8.0, 40.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", SATURATED)
def test_saturated_classifiers_are_matched_and_hold_and_what_is_wrong_in_them_is_found(case, dtype, scale):
    data, name = SATURATED[case]
    model = network(dtype, hidden=nn.Identity(), output=nn.Identity())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    loss = {"loss": "cross_entropy_softmax", "loss_fn": nn.CrossEntropyLoss()}
    sidecars = record(model, OPTIMIZERS[name](model.parameters()), steps=4, trace_id=TRACE, **loss, **data)

    documents = receipts_of(sidecars, lossless=True)

    verdict = verify_receipts(map(as_receipt, documents), bundle=True)
    assert [(f.rule, f.record, f.path, f.said, f.found, f.bound) for f in verdict.findings] == []
    assert verdict.holds
    for path in (
        ("backward", "output_error_signals", "o1", "signal_value"),
        ("loss", "per_output", "o2"),
        ("loss", "total"),
        ("updates", 0, "update"),
        ("parameters_after", "w_i1_h1"),
    ):
        value = dict(leaves(documents[3])).get(path, 0.0)  # 0 and 1 are written as whole numbers
        broken = changed(documents[3], path, value * 1.01 + 1e-3)
        assert not verify_receipts(map(as_receipt, [*documents[:3], broken]), bundle=True).holds, path


def test_pipes_and_exit_codes(tmp_path):
    sidecars = recorded(steps=2)
    bp = [sys.executable, "-m", "backproof", "import", "pytorch", "multi", "-", "--json"]
    environment = {"SOURCE_DATE_EPOCH": "0", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    text = b"".join(map(line, sidecars))

    runs = [subprocess.run(bp, input=text, capture_output=True, check=False, env=environment) for _ in range(2)]

    assert runs[0].stdout == runs[1].stdout
    assert b'"import_timestamp":"1970-01-01T00:00:00.000Z"' in runs[0].stdout
    assert json.loads(runs[0].stderr)["ok"]
    plain = [part for part in bp if part != "multi"]
    assert subprocess.run(plain, input=text, capture_output=True, check=True, env=environment).stdout == runs[0].stdout
    sidecars[1]["loss"]["total"] = 9.0
    text = b"".join(map(line, sidecars))
    wrong = subprocess.run(bp, input=text, capture_output=True, check=False, env=environment)
    assert (wrong.returncode, json.loads(wrong.stderr)["differential"]["disagreed_step_indices"]) == (1, [1])
    none = subprocess.run(bp, input=b"{", capture_output=True, check=False, env=environment)
    assert (none.returncode, json.loads(none.stderr)["error"]["kind"]) == (2, "IMPORT_STREAM_FAILED")
