"""The verbs on receipts, from their command line to their exit code."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import subprocess
import sys

import pytest

from backproof.cli import main
from backproof.receipt import emit
from backproof.receipt.authoring import BUILTIN, author_mazur, author_step


@pytest.fixture
def bp(capsys, monkeypatch):
    def call(*arguments, given=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def mazur(tmp_path):
    file = tmp_path / "mazur.jsonl"
    file.write_bytes(emit(author_mazur()))
    return file


@pytest.fixture
def broken(tmp_path):
    document = json.loads(emit(author_mazur()))
    document["updates"][4]["gradient"] *= 1.001
    file = tmp_path / "broken.jsonl"
    file.write_text(json.dumps(document))
    return file


@pytest.fixture
def run(tmp_path):
    given, lines = {**BUILTIN["xor"](), "trace_id": "a" * 32}, []
    for index in range(3):
        document = author_step({**given, "step_index": index})
        given["parameters_before"] = document["parameters_after"]
        lines.append(emit(document))
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"".join(lines))
    return file


@pytest.mark.parametrize("name", ["mazur", "xor", "iris"])
def test_generate_check_finds_the_published_bytes(bp, name):
    assert bp("generate", name, "--check", "--json") == (0, '{"ok":true}\n', "")


def test_generate_writes_what_verify_reads(bp, tmp_path):
    file = tmp_path / "out.jsonl"

    assert bp("generate", "xor", "--out", file)[0] == 0
    assert bp("verify", file)[0] == 0
    assert bp("verify", "general", file)[0] == 0
    assert bp("reconcile", "receipt", file) == (0, "", "")
    assert bp("validate", file) == (0, "valid\n", "")


def test_a_scaffold_generates_the_built_in_receipt(bp, tmp_path):
    config, out = tmp_path / "in.json", tmp_path / "out.jsonl"

    assert bp("scaffold", "topology", "--topology", "iris", "--out", config)[0] == 0
    assert bp("validate-input", config) == (0, "valid\n", "")
    assert bp("generate", "from-config", config, "--out", out)[0] == 0

    assert hashlib.sha256(out.read_bytes()).hexdigest().startswith("fe0ca041e7089636")
    assert bp("generate", "from-config", config, "--out", out, "--check")[0] == 0
    out.write_bytes(out.read_bytes().replace(b"iris", b"Iris"))
    code, text, _ = bp("generate", "from-config", config, "--out", out, "--check", "--json")
    assert code == 1
    assert json.loads(text)["drift_offset"] > 0


@pytest.mark.parametrize(
    ("layers", "activations", "optimizer"),
    [
        ("1-1", "softplus", "sgd"),
        ("2-3-2-1-2", "gelu,tanh,silu,softmax", "adamw"),
        ("3-2-2", "relu,identity", "adam"),
        ("2-2-2-2-2-2", "mish,elu,softsign,tanhshrink,logsigmoid", "sgd_momentum"),
    ],
)
def test_a_network_of_any_depth_is_made_and_verified_in_a_shell(bp, tmp_path, layers, activations, optimizer):
    config, out = tmp_path / "in.json", tmp_path / "out.jsonl"
    asked = ["--layers", layers, "--activations", activations, "--optimizer", optimizer]

    assert bp("scaffold", "topology", *asked, "--out", config) == (0, "", "")
    assert bp("validate-input", config) == (0, "valid\n", "")
    assert bp("generate", "from-config", config, "--out", out)[0] == 0
    for verb in (["verify"], ["verify", "general"], ["verify", "multi"], ["validate"], ["show"]):
        assert bp(*verb, out)[0] == 0

    document = json.loads(out.read_bytes())
    assert document["schema_version"] == "1.0.0"
    moved = next(update for update in document["updates"] if update["update"])
    moved["update"] *= -1
    out.write_text(json.dumps(document))
    assert bp("verify", out)[0] == 1


@pytest.mark.parametrize(
    "asked",
    [
        ["--layers", "2"],
        ["--layers", "2-0"],
        ["--layers", "2-x"],
        ["--layers", "2-99999"],
        ["--layers", "2-2", "--activations", "softmax,relu"],
        ["--layers", "2-2-2", "--activations", "softmax,relu"],
        ["--layers", "2-2", "--activations", "swish"],
        ["--layers", "2-2", "--optimizer", "lion"],
        ["--topology", "xor", "--optimizer", "adam"],
    ],
)
def test_a_network_that_cannot_be_is_refused(bp, asked):
    code, out, err = bp("scaffold", "topology", *asked)

    assert (code, out) == (3, "")
    assert err.startswith("bp: ")


def test_verify_mazur_judges_the_built_in_receipt_by_default(bp, mazur):
    for arguments in (["verify", "mazur", "--json"], ["verify", "mazur", mazur, "--json", "--strict"]):
        code, out, _ = bp(*arguments)
        report = json.loads(out)["report"]
        assert code == 0
        assert report["overall"] == "pass"
        assert [check["name"] for check in report["checks"]] == [
            "schema",
            "reconcile",
            "engine-reproduce",
            "byte-equal-vs-golden",
            "fixture-status",
            "published-anchor-drift",
        ]


def test_a_broken_gradient_is_the_first_cause_and_the_rest_follows(bp, broken):
    code, out, _ = bp("verify", broken, "--json")

    failures = json.loads(out)["failures"]
    assert code == 1
    assert (failures[0]["rule"], failures[0]["field_path"]) == (4, "updates[4].gradient")
    assert all("cascade_of_rule" in failure for failure in failures[1:])


@pytest.mark.parametrize("verb", [["verify"], ["verify", "mazur"], ["reconcile", "receipt"]])
def test_a_failure_is_readable(bp, broken, verb):
    code, out, err = bp(*verb, broken)

    assert code == 1
    assert "updates[4].gradient" in out + err
    assert "Traceback" not in err


def test_a_run_is_verified_as_a_chain(bp, run, tmp_path):
    assert bp("verify", run)[0] == 0
    code, out, _ = bp("verify", "multi", run, "--json")
    assert (code, json.loads(out)["report"]["record_count"]) == (0, 3)

    gap = tmp_path / "gap.jsonl"
    lines = run.read_bytes().splitlines(keepends=True)
    gap.write_bytes(lines[0] + lines[2])
    code, out, _ = bp("verify", "multi", gap, "--json")
    rules = {row["rule"] for row in json.loads(out)["report"]["cross_record_checks"][0]["evidence"]}
    assert code == 1
    assert {9, 10} <= rules


def test_standard_input_is_a_file(run, mazur):
    for kind, file in (([], run), (["multi"], run), (["mazur"], mazur)):
        command = [sys.executable, "-m", "backproof", "verify", *kind, "-"]
        assert subprocess.run(command, input=file.read_bytes(), capture_output=True, check=False).returncode == 0


def test_validation_names_every_deviation(bp, tmp_path):
    document = json.loads(emit(author_mazur()))
    del document["loss"]
    document["step"] = 0
    file = tmp_path / "a.json"
    file.write_text(json.dumps(document))

    code, out, _ = bp("validate", file, "--json")

    assert code == 1
    assert [e["keyword"] for e in json.loads(out)["errors"]] == ["required", "minimum"]
    assert "error at /step: must be >= 1" in bp("validate", file)[2]


@pytest.mark.parametrize(
    "verb", [["verify"], ["verify", "multi"], ["validate"], ["reconcile", "receipt"], ["validate-input"]]
)
def test_what_cannot_be_read_is_exit_2_in_both_modes(bp, verb, tmp_path):
    code, _, err = bp(*verb, tmp_path / "nowhere.json")
    assert (code, err.startswith("bp: ")) == (2, True)

    code, out, _ = bp(*verb, tmp_path / "nowhere.json", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "ENOENT")


@pytest.mark.parametrize(
    "arguments", [["verify"], ["verify", "general"], ["generate"], ["scaffold", "topology"], ["explain", "99"]]
)
def test_wrong_usage_is_exit_3(bp, arguments):
    assert bp(*arguments)[0] == 3


def test_a_sidecar_is_pointed_at_import(bp, tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"format": "framework-trace.v0.1.0"}')

    code, _, err = bp("verify", file)

    assert code == 2
    assert "bp import" in err


def test_what_is_not_canonical_is_a_warning_and_with_strict_a_failure(bp, tmp_path, mazur):
    file = tmp_path / "pretty.json"
    file.write_text(json.dumps(json.loads(mazur.read_text()), indent=1))

    assert bp("verify", file)[0] == 0
    assert bp("verify", file, "--strict")[0] == 1


def test_the_tables_print(bp):
    assert bp("rules")[1].count("\n") == len(json.loads(bp("rules", "--json")[1]))
    assert "replay" in bp("explain", "14")[1]
    assert bp("explain", "replay")[1] == bp("explain", "14")[1]
    assert json.loads(bp("schema", "receipt.v0.5.0")[1])["title"] == "receipt.v0.5.0"
    assert "framework-trace.v0.8.0" in bp("schema")[1]


def test_flags_may_stand_before_the_command(bp, mazur):
    after = bp("verify", "mazur", mazur, "--json")

    assert bp("--json", "verify", "mazur", mazur) == after
    assert "\x1b[32mPASS" in bp("--color", "always", "verify", "mazur", mazur)[2]
    assert "\x1b" not in bp("--color=auto", "verify", "mazur", mazur)[2]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["reconcile", "receipt"], "MISSING_FILE_ARG"),
        (["verify"], "MISSING_FILE_ARG"),
        (["verify", "x", "--jsn"], "INVALID_FLAG"),
        (["scaffold", "topology"], "MISSING_TOPOLOGY_ARG"),
        (["scaffold", "topology", "--topology", "mnist"], "INVALID_TOPOLOGY_ARG"),
        (["bogus"], "USAGE"),
    ],
)
def test_wrong_usage_is_an_envelope_in_json_mode(bp, arguments, code):
    exit_code, out, err = bp(*arguments, "--json")

    assert (exit_code, err) == (3, "")
    assert json.loads(out)["error"]["code"] == code


def test_a_flag_is_not_guessed_from_its_beginning_but_suggested(bp, mazur):
    code, _, err = bp("verify", "mazur", mazur, "--stric")

    assert code == 3
    assert "did you mean --strict?" in err


def test_a_failed_product_comes_with_its_factors(bp, broken):
    failures = json.loads(bp("reconcile", "receipt", broken, "--json")[1])["failures"]

    assert [factor["name"] for factor in failures[0]["factors"]] == ["output_error_signal", "upstream_activation"]
    assert failures[0]["product_order"] == "left_to_right"
    assert all("factors" not in failure for failure in failures if failure["rule"] in {5, 6, 7})


HOSTILE = "\x1b]0;x\x07\ud800"
VERBS = [
    ["verify"],
    ["verify", "general"],
    ["verify", "multi"],
    ["reconcile", "receipt"],
    ["validate"],
    ["validate-input"],
    ["import", "pytorch"],
    ["import", "pytorch", "multi"],
    ["show"],
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("place", ["fixture", "key", "unit", "state"])
def test_texts_of_a_file_cannot_steer_the_terminal(bp, tmp_path, verb, place):
    document = json.loads(emit(author_step(BUILTIN["xor"]())))
    if place == "key":
        document[HOSTILE] = document["forward"][HOSTILE] = 1
    elif place == "unit":
        document = json.loads(json.dumps(document).replace('"h1"', json.dumps(HOSTILE)))
    elif place == "state":
        document["fixture_status"]["verification_state"] = HOSTILE
    else:
        document["fixture"] = HOSTILE
        document["updates"][0]["update"] = 7.0
    file = tmp_path / "hostile.jsonl"
    file.write_text(json.dumps(document) + "\n")

    for more in ([], ["--json"], ["--verbose"]):
        if verb == ["show"] and more:
            continue
        code, out, err = bp(*verb, file, *more)
        assert code in {0, 1, 2}
        assert "\x1b" not in out + err
        (out + err).encode()


@pytest.mark.parametrize("key", ["metadata", "numeric_policy", "topology", "updates", "inputs"])
@pytest.mark.parametrize("value", ["x", [[1]], None, 1e300, {"a": None}], ids=repr)
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_a_block_of_another_kind_is_a_message(bp, tmp_path, verb, key, value):
    document = {**json.loads(emit(author_step(BUILTIN["xor"]()))), key: value}
    file = tmp_path / "wrong.jsonl"
    file.write_text(json.dumps(document) + "\n")

    code, out, err = bp(*verb, file)
    assert code in ({1, 2} if verb[0] in {"verify", "show"} else {0, 1, 2})
    assert out or err or code == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("verb", [["verify", "mazur", "--json"], ["generate", "mazur"], ["rules"]])
def test_a_result_that_cannot_be_written_is_no_success(verb, unbuffered, tmp_path):
    command = [sys.executable, "-m", "backproof", *verb]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}

    with open("/dev/full", "w") as full, (tmp_path / "out").open("w") as file:  # noqa: PTH123 - a device
        lost = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, check=False)
        kept = subprocess.run(command, env=environment, stdout=file, stderr=subprocess.PIPE, check=False)

    assert lost.returncode == 2
    assert lost.stderr.startswith(b"bp: ")
    assert b"No space left" in lost.stderr
    assert b"Traceback" not in lost.stderr
    assert kept.returncode == 0
    assert (tmp_path / "out").read_bytes()


def test_a_bundle_that_is_read_ahead_of_a_failure_gives_its_place(bp, tmp_path, mazur):
    lines = [mazur.read_bytes()] * 40
    file = tmp_path / "bundle.jsonl"
    file.write_bytes(b"".join([*lines, b'{"schema_version": NaN}\n', *lines]))

    code, _, said = bp("verify", "multi", file)

    assert code == 2
    assert "line 41" in said


def test_a_command_that_is_given_again_leaves_no_more_behind(bp, mazur):
    bp("verify", mazur)
    before = gc.get_freeze_count()

    assert bp("verify", mazur)[0] == 0
    assert gc.get_freeze_count() == before
