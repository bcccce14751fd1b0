"""Formats: validation, canonical bytes, JSON Schemas and digests, all from one description."""

from __future__ import annotations

import copy
import hashlib
import json

import pytest

from backproof.errors import InputError, UsageError
from backproof.receipt import (
    EmissionError,
    emit,
    hash_receipt,
    read_receipt,
    read_receipts,
    receipt_deviations,
    schema_of,
    sidecar_deviations,
    subject_digest,
    write_receipt,
    write_receipts,
)
from backproof.receipt.authoring import BUILTIN, author_mazur, author_step
from backproof.receipt.formats import NAMES


@pytest.fixture
def xor():
    return json.loads(emit(author_step(BUILTIN["xor"]())))


def test_an_authored_receipt_is_valid_and_stable(xor):
    assert receipt_deviations(xor) == []
    assert emit(json.loads(emit(xor))) == emit(xor)


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        (lambda d: d.pop("loss"), "", "must have required property 'loss'"),
        (lambda d: d.update(extra=1), "", "must NOT have additional properties"),
        (lambda d: d.update(step=0), "/step", "must be >= 1"),
        (lambda d: d.update(step=1.5), "/step", "must be integer"),
        (lambda d: d.update(learning_rate=0), "/learning_rate", "must be > 0"),
        (lambda d: d.update(trace_id="x"), "", "must have required property 'step_index'"),
        (lambda d: d["inputs"].update(x1="1"), "/inputs/x1", "must be number"),
        (lambda d: d["inputs"].update(x1=True), "/inputs/x1", "must be number"),
        (lambda d: d["updates"].clear(), "/updates", "must NOT have fewer than 1 items"),
        (lambda d: d["topology"].update(loss="x"), "/topology/loss", "must be equal to one of the allowed values"),
        (lambda d: d["topology"]["parameter_order"].append("b_output"), "/topology/parameter_order", "duplicate"),
        (lambda d: d["numeric_policy"].update(tolerance=1), "/numeric_policy/tolerance", "must be object"),
        (lambda d: d["fixture_status"].update(canonical=1), "/fixture_status/canonical", "must be boolean"),
    ],
)
def test_a_deviation_is_named_with_its_place(xor, change, path, message):
    change(xor)

    found = [(deviation.path, deviation.message) for deviation in receipt_deviations(xor)]

    assert any(p == path and message in m for p, m in found), found


def test_an_unknown_version_is_named_first(xor):
    xor["schema_version"] = "9.9.9"

    first = receipt_deviations(xor)[0]

    assert first.path == "/schema_version"
    assert "0.8.0" in first.message


def test_a_sidecar_of_no_format_is_no_sidecar():
    assert sidecar_deviations({"format": "framework-trace.v9"})
    assert sidecar_deviations(3)


def test_a_live_sidecar_needs_its_helper_unless_it_was_written_by_hand():
    by_hand = {"name": "pytorch", "version": "2", "extractor": {"name": "hand_authored", "version": "1"}}
    live = {"name": "pytorch", "version": "2"}
    missing = "must have required property 'helper'"

    def messages(source):
        found = sidecar_deviations({"format": "framework-trace.v0.7.0", "source_framework": source})
        return [deviation.message for deviation in found]

    assert missing in messages(live)
    assert missing not in messages(by_hand)


@pytest.mark.parametrize("missing", ["metadata", "post_update_loss", "fixture"])
def test_canonical_bytes_need_what_the_format_writes(xor, missing):
    del xor[missing]

    with pytest.raises(EmissionError, match=rf"{missing}.* is missing"):
        emit(xor)


def test_canonical_bytes_name_the_number_that_they_cannot_carry(xor):
    xor["inputs"]["x1"] = 1e9

    with pytest.raises(EmissionError, match=r"inputs\.x1: 1000000000\.0 has no nine-digit"):
        emit(xor)


def test_key_order_and_unknown_remarks_do_not_change_the_bytes(xor):
    mixed = dict(reversed(xor.items()))
    mixed["metadata"] = {**xor["metadata"], "reviewer": "nobody"}

    assert emit(mixed) == emit(xor)


def test_text_is_quoted_as_javascript_quotes_it(xor):
    xor["fixture"] = 'q"\\\n\x01\x7f é\u2028\ud800'

    assert b'"fixture":"q\\"\\\\\\n\\u0001\x7f \xc3\xa9\xe2\x80\xa8\\ud800"' in emit(xor)


def test_the_digest_of_a_receipt_is_the_digest_of_its_file(xor, tmp_path):
    file = tmp_path / "a.jsonl"
    write_receipt(xor, file)

    assert hash_receipt(xor) == hashlib.sha256(file.read_bytes()).hexdigest()
    assert read_receipt(file).document == xor
    assert read_receipt(file).is_canonical


def test_a_subject_digest_does_not_cover_itself(xor):
    signed = copy.deepcopy(xor) | {"schema_version": "0.4.0"}
    signed["attestor"] = {
        "computed_by": {"kind": "engine", "identity": "e"},
        "verified_by": {"kind": "engine", "identity": "e"},
        "differential_tolerance": {"atol": 0, "rtol": 0},
    }
    before = subject_digest(signed)

    signed["attestor"]["signed_subject_digest"] = before

    assert subject_digest(signed) == before
    assert hash_receipt(signed) != before.removeprefix("sha256:")


def test_a_bundle_is_written_whole_or_not_at_all(xor, tmp_path):
    file = tmp_path / "a.jsonl"

    with pytest.raises(InputError):
        write_receipts([xor, {"schema_version": "0.2.0"}], file)

    assert list(tmp_path.iterdir()) == []
    write_receipts([xor, xor], file)
    assert len(list(read_receipts(file))) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_json_schema_is_generated_for_every_format(name):
    schema = schema_of(name)

    assert schema["title"] == name
    assert json.loads(json.dumps(schema)) == schema


def test_the_json_schemas_agree_with_the_validation():
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(emit(author_mazur()))
    validator = jsonschema.Draft202012Validator(schema_of("receipt.v0.1.0"))
    assert validator.is_valid(document)
    for key in list(document):
        broken = {k: v for k, v in document.items() if k != key}
        assert validator.is_valid(broken) == (receipt_deviations(broken) == []), key


def test_an_unknown_schema_name_is_wrong_usage():
    with pytest.raises(UsageError, match=r"receipt\.v0\.1\.0"):
        schema_of("receipt.v9")


@pytest.mark.parametrize("value", [None, True, 3, "x", [], {}, [[]], {"a": {}}, float("nan"), float("inf")])
def test_wrong_types_everywhere_are_deviations_and_never_a_crash(xor, value):
    harmless = {"metadata", "fixture", "step"}  # which take any object, any text, and 3

    judged = {key: receipt_deviations({**xor, key: value}) for key in xor}

    assert {key for key, found in judged.items() if not found} <= harmless | {"inputs", "targets", "learning_rate"} | (
        {"parameters_before", "parameters_after", "forward"} if value == {} else set()
    )
