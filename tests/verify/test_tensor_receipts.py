"""Tensor receipts: whatever is changed in one, or in a tensor beside it, is found and named; an honest one holds anywhere."""

import base64
import json
import shutil

import numpy as np
import pytest
import torch

import backproof
import backproof.torch as bpt
from backproof.cli import main
from backproof.receipt.tensor import canonical


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    home = tmp_path_factory.mktemp("sealed")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(12, 8), torch.randint(0, 3, (12,))
    with bpt.Recorder(model, optimizer, out=home / "run") as recorder:
        for _ in range(3):
            with recorder.step():
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    assert main(["keygen", str(home / "key.pem")]) == 0
    assert main(["keygen", str(home / "other.pem")]) == 0
    assert main(["receipt", str(home / "run"), "--out", str(home / "plain.json")]) == 0
    assert (
        main(["receipt", str(home / "run"), "--out", str(home / "signed.json"), "--sign", str(home / "key.pem")]) == 0
    )
    return home


@pytest.fixture
def home(sealed, tmp_path):
    return shutil.copytree(sealed, tmp_path / "home")


def broken(path, **options):
    verdict = backproof.verify(path, **options)
    return [finding for step in verdict.steps for finding in step.findings if finding.verdict == "broken"]


@pytest.mark.parametrize("name", ["plain.json", "signed.json"])
def test_an_honest_receipt_holds_with_every_equation(home, name):
    shutil.rmtree(home / "run")
    verdict = backproof.verify(home / name, key=home / "key.pem.pub" if name == "signed.json" else None)

    assert verdict.verdict == "holds"
    assert verdict.holds_strictly
    assert all(step.equations["update"] for step in verdict.steps)


def test_without_its_tensors_the_chain_is_checked_and_the_rest_is_said_not_to_be(home):
    shutil.rmtree(home / "plain")

    verdict = backproof.verify(home / "plain.json")

    assert verdict.verdict == "holds"
    assert not verdict.holds_strictly
    assert all("every equation" in step.not_checked[-1].place for step in verdict.steps)


def test_every_byte_of_a_manifest_counts(home, tmp_path):
    path = home / "plain.json"
    shutil.rmtree(home / "plain")
    honest = path.read_bytes().rstrip(b"\n")
    places = np.random.default_rng(0).choice(len(honest), size=150, replace=False)
    for place in places:
        changed = bytearray(honest)
        changed[place] = changed[place] ^ 1
        path.write_bytes(changed)
        assert main(["verify", str(path)]) in (1, 2), place


def test_every_byte_of_a_tensor_counts_and_its_name_is_said(home):
    path = home / "plain" / "step000001" / "tensors.safetensors"
    honest = path.read_bytes()
    begin = 8 + int.from_bytes(honest[:8], "little")
    header = json.loads(honest[8:begin])
    for name, entry in list(header.items())[::5]:
        changed = bytearray(honest)
        changed[begin + entry["data_offsets"][0]] ^= 1
        path.write_bytes(changed)
        assert name in {finding.probe for finding in broken(home / "plain.json")}


def edited(path, change):
    """The manifest of a plain receipt changed, with its own digest made right again."""
    from backproof.receipt.tensor import digest

    data = json.loads(path.read_text())
    change(data)
    data["digest"] = digest({key: value for key, value in data.items() if key != "digest"})
    path.write_bytes(canonical(data))


FORGED = {
    "a tensor's digest": (lambda data: data["steps"][1]["tensors"]["v4"].update(sha256="0" * 64), "v4"),
    "a tensor taken out": (lambda data: data["steps"][1]["tensors"].pop("v4"), "v4"),
    "a tensor more": (lambda data: data["steps"][1]["tensors"].update(v999=data["steps"][1]["tensors"]["v4"]), "v999"),
    "the optimizer's rate": (lambda data: data["steps"][2]["optimizers"][0]["groups"][0].update(lr=0.5), "optimizers"),
    "the record": (lambda data: data["steps"][0].update(record="0" * 64), "record"),
    "the graph": (lambda data: data["steps"][0].update(graph="0" * 64), "graph"),
    "the step before": (lambda data: data["steps"][2].update(previous="0" * 64), "previous"),
    "a step taken out": (lambda data: data["steps"].pop(1), "previous"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_manifest_whose_own_digest_is_right_is_found(home, name):
    change, probe = FORGED[name]
    edited(home / "plain.json", change)

    assert probe in {finding.probe for finding in broken(home / "plain.json")}


def test_a_signature_binds(home):
    path, key = home / "signed.json", home / "key.pem.pub"
    assert not broken(path, key=key)
    assert [finding.place for finding in broken(path, key=home / "other.pem.pub")] == ["signature"]
    assert [finding.place for finding in broken(home / "plain.json", key=key)] == ["signature"]

    envelope = json.loads(path.read_text())
    payload = base64.b64decode(envelope["payload"])
    envelope["payload"] = base64.b64encode(payload.replace(b'"lr":0.001', b'"lr":0.002')).decode()
    path.write_bytes(canonical(envelope))
    assert "signature" in {finding.place for finding in broken(path, key=key)}
    assert "manifest" in {finding.place for finding in broken(path)}


def test_a_signature_that_nobody_checks_is_said(home):
    verdict = backproof.verify(home / "signed.json")

    assert verdict.verdict == "holds"
    assert any("signature" in entry.place and "--key" in entry.why for entry in verdict.steps[0].not_checked)


def test_the_envelope_is_what_others_read(home):
    """DSSE and in-toto, verified here by their own definitions."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    envelope = json.loads((home / "signed.json").read_text())
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    message = b" ".join([b"DSSEv1", b"%d" % len(kind), kind, b"%d" % len(payload), payload])
    public = load_pem_public_key((home / "key.pem.pub").read_bytes())

    public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), message)
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert [len(subject["digest"]["sha256"]) for subject in statement["subject"]] == [64, 64, 64]


def test_a_broken_equation_in_a_true_receipt_is_still_broken(home):
    """Digests say that the numbers are the recorded ones, not that they are right."""
    path = home / "run" / "step000000" / "tensors.safetensors"
    raw = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(raw[:8], "little")
    place = json.loads(raw[8:begin])["u0:after:parameter:0.weight"]["data_offsets"][0]
    raw[begin + place : begin + place + 4] = np.float32(9).tobytes()
    path.write_bytes(raw)
    assert main(["receipt", str(home / "run"), "--out", str(home / "new.json"), "--steps", "0"]) == 0

    assert {finding.equation for finding in broken(home / "new.json")} == {"update"}


WRONG = {
    "nothing is overwritten": (["receipt", "run", "--out", "plain.json"], 2),
    "a name without .json": (["receipt", "run", "--out", "x"], 3),
    "a public key cannot sign": (["receipt", "run", "--out", "y.json", "--sign", "key.pem.pub"], 3),
    "no key": (["verify", "signed.json", "--key", "nowhere.pem"], 2),
    "a key that is none": (["verify", "signed.json", "--key", "plain.json"], 2),
    "a key twice": (["keygen", "key.pem"], 3),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_told(home, monkeypatch, capsys, name):
    monkeypatch.chdir(home)
    arguments, code = WRONG[name]

    assert main(arguments) == code
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [b'{"digest":"x"}', b'{"payload":"!"}', b'{"payload":"e30="}', b'{"digest":1,"digest":2}', b'{"payload":"' + b"["],
)
def test_what_is_no_receipt_cannot_be_read(tmp_path, text, capsys):
    (tmp_path / "x.json").write_bytes(text)

    assert main(["verify", str(tmp_path / "x.json")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_steps_cannot_be_chosen_of_a_receipt(home, capsys):
    assert main(["verify", str(home / "plain.json"), "--steps", "1"]) == 3
    assert "a receipt is verified whole" in capsys.readouterr().err
