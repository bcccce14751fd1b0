"""All fixtures of the npm package, through both command lines."""

import json
from pathlib import Path

from exit_differences import DIFFERENCES
from npm_peer import ours

from backproof.receipt import emit
from backproof.receipt.document import as_receipt
from backproof.verify import verify_receipts


def goldens(peer):
    return [f for f in peer.fixtures if not f.is_bad and not f.is_sidecar and "rule14-only" not in f.name]


def rules_of(documents):
    """The rules that fail, whatever the formats say: (single receipts also as a bundle of one)."""
    verdict = verify_receipts(map(as_receipt, documents), bundle=len(documents) > 1)
    return {finding.rule for finding in verdict.findings}


def test_the_peer_has_the_fixtures_that_we_know(peer):
    assert (len(peer.fixtures), sum(f.is_bad for f in peer.fixtures), len(goldens(peer))) == (129, 83, 26)


def test_every_golden_is_accepted(peer):
    refused = {f.name: ours(f.verify).err for f in goldens(peer) if ours(f.verify).exit != 0}

    assert refused == {}


def test_every_golden_is_emitted_again_byte_for_byte(peer):
    changed = [f.name for f in goldens(peer) if b"".join(map(emit, f.documents)) != f.path.read_bytes()]

    assert changed == []


def test_every_bad_receipt_is_rejected_by_the_rule_that_it_names(peer):
    missed = {}
    for fixture in (f for f in peer.fixtures if f.is_bad and not f.is_sidecar):
        failing = rules_of(fixture.documents)
        if ours(fixture.verify).exit != 1 or fixture.named_rule not in failing:
            missed[fixture.name] = (fixture.named_rule, sorted(failing))

    assert missed == {}


def test_every_bad_sidecar_is_refused_and_its_receipt_rejected_by_the_rule_that_it_names(peer):
    missed = {}
    for fixture in (f for f in peer.fixtures if f.is_bad and f.is_sidecar):
        imported = ours(["import", fixture.framework, str(fixture.path)])
        failing = rules_of([json.loads(imported.out)])
        if imported.exit != 1 or fixture.named_rule not in failing:
            missed[fixture.name] = (imported.exit, fixture.named_rule, sorted(failing))

    assert missed == {}


def test_every_sidecar_with_a_golden_is_imported_byte_for_byte(peer):
    by_name = {f.name: f for f in peer.fixtures}
    pairs = [(f, by_name.get(f.name.replace(".sidecar", ".golden"))) for f in peer.fixtures if f.is_sidecar]
    pairs = [(sidecar, golden) for sidecar, golden in pairs if golden is not None and golden is not sidecar]

    different = [sidecar.name for sidecar, golden in pairs if imported_as(sidecar, golden) != golden.path.read_text()]

    assert len(pairs) == 14
    assert different == []


def imported_as(sidecar, golden):
    """Our receipt of a sidecar, at the moment and under the label of the golden one."""
    first = golden.documents[0]
    label = first["fixture"].removesuffix("-step-0") if golden.is_multi else first["fixture"]
    moment = first["attestor"]["import_provenance"]["import_timestamp"]
    return ours([*sidecar.commands[0], "--timestamp", moment, "--fixture", label]).out


def test_receipts_of_each_are_accepted_by_the_other(peer, tmp_path):
    sidecars = [f for f in peer.fixtures if f.is_sidecar and not f.is_bad]
    commands, verify = [], []
    for fixture in sidecars:
        path = tmp_path / (fixture.name.replace("/", "-") + ".jsonl")
        path.write_text(ours(fixture.commands[0]).out, encoding="utf-8")
        verify.append(["verify", "multi" if fixture.is_multi else "general", str(path)])
        commands.append(fixture.commands[0])
    for name in ("mazur", "xor", "iris"):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(ours(["generate", name]).out, encoding="utf-8")
        verify.append(["verify", "mazur" if name == "mazur" else "general", str(path)])
        commands.append(["generate", name])

    theirs = peer.run([*verify, *commands])
    judged, made = theirs[: len(verify)], theirs[len(verify) :]

    assert [command for command, answer in zip(verify, judged, strict=True) if answer.exit != 0] == []
    rejected = []
    for command, answer in zip(verify, made, strict=True):
        path = tmp_path / "theirs.jsonl"
        path.write_text(answer.out, encoding="utf-8")
        if (verdict := ours([*command[:2], str(path)])).exit != 0:
            rejected.append((command, verdict.err))
    assert rejected == []


def test_every_exit_code_is_the_peers_but_for_the_listed_differences(peer):
    commands = [(f, command) for f in peer.fixtures for command in f.commands]
    answers = peer.run([command for _, command in commands])
    found = {}
    for (fixture, command), theirs in zip(commands, answers, strict=True):
        own = ours(command).exit
        if own != theirs.exit:
            found[fixture.name, " ".join(command[:-1])] = (theirs.exit, own)

    assert found == {place: codes[:2] for place, codes in DIFFERENCES.items()}


def test_every_difference_is_explained_in_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text(encoding="utf-8")

    assert [fixture for fixture, _ in DIFFERENCES if fixture.split("/")[-1] not in text] == []
