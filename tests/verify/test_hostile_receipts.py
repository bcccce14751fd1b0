"""Whatever stands in a file, the answer is a verdict or an InputError: no traceback, and never a pass by accident."""

from __future__ import annotations

import copy
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backproof.errors import InputError
from backproof.receipt import emit
from backproof.receipt.authoring import BUILTIN, as_lossless, author_batch, author_input, author_mazur, author_step
from backproof.receipt.document import as_receipt
from backproof.verify import verify_receipts

XOR = BUILTIN["xor"]()
CLASSIFIER = {  # two classes of the same inputs
    **XOR,
    "targets": {"y": 1.0, "z": 0.0},
    "parameters_before": {**XOR["parameters_before"], "w_h1_z": 0.4, "w_h2_z": -0.2},
    "topology": {
        **XOR["topology"],
        "output_size": 2,
        "unit_order": {**XOR["topology"]["unit_order"], "output": ["y", "z"]},
        "parameter_order": [*XOR["topology"]["parameter_order"], "w_h1_z", "w_h2_z"],
        "parameters": [
            *(
                {**p, "applies_to_units": ["y", "z"]} if p["id"] == "b_output" else p
                for p in XOR["topology"]["parameters"]
            ),
            {"id": "w_h1_z", "role": "hidden_to_output_weight", "from_unit": "h1", "to_unit": "z"},
            {"id": "w_h2_z", "role": "hidden_to_output_weight", "from_unit": "h2", "to_unit": "z"},
        ],
        "activation_output": "softmax",
        "loss": "cross_entropy_softmax",
    },
}
STATUS = {"authoring_state": "external_imported", "verification_state": "engine_recompute_disagreed", "canonical": True}
IMPORTED = {"fixture_status": STATUS, "schema_version": "0.4.0"}
ADAM = {"name": "adam", "learning_rate": 0.5, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "t": 1}
STATES = {name: {"m": 0.0, "v": 0.0} for name in XOR["topology"]["parameter_order"]}
SAMPLES = {name: {"inputs": XOR["inputs"], "targets": XOR["targets"]} for name in ("s0", "s1")}
BATCH = {"size": 2, "sample_order": ["s0", "s1"], "reduction": "mean"}
DOCUMENTS = [
    json.loads(emit(document))
    for document in (
        author_mazur(),
        author_step(XOR),
        author_step(XOR, optimizer_config=ADAM, state_before=STATES),
        author_batch(XOR, BATCH, SAMPLES),
        author_input(as_lossless(XOR)),
        author_step(CLASSIFIER),
        author_step(CLASSIFIER) | IMPORTED,
        author_input(as_lossless(CLASSIFIER)),
    )
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["net", "h1", "x1", "from", "value", "units", "zz"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


PATHS = [[path for path in paths(document) if path] for document in DOCUMENTS]


@settings(max_examples=200)
@given(st.data())
def test_anything_anywhere_is_judged(data):
    which = data.draw(st.integers(0, len(DOCUMENTS) - 1))
    document = copy.deepcopy(DOCUMENTS[which])
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(PATHS[which]))
        held = document
        try:
            for key in path[:-1]:
                held = held[key]
            held[path[-1]] = data.draw(JSON)
        except (KeyError, IndexError, TypeError):
            continue

    verdict = verify_receipts([as_receipt(document)], bundle=data.draw(st.booleans()))

    assert isinstance(verdict.holds, bool)


@given(JSON)
def test_any_json_is_judged_or_refused(value):
    try:
        verdict = verify_receipts([as_receipt(value)], bundle=True)
    except InputError:
        return

    assert not verdict.holds


@pytest.mark.parametrize("size", [1e300, -1e300, 1e-300])
def test_a_number_that_overflows_every_bound_is_not_a_pass(size):
    for key, unit in (("inputs", "x1"), ("parameters_before", "w_x1_h1"), ("targets", "y")):
        document = copy.deepcopy(DOCUMENTS[1])
        document[key][unit] = size

        assert not verify_receipts([as_receipt(document)], bundle=False).holds


@pytest.mark.parametrize("side", ["input", "hidden", "output"])
@pytest.mark.parametrize("document", DOCUMENTS[1:], ids=range(1, len(DOCUMENTS)))
def test_a_network_without_units_is_judged(document, side):
    document = copy.deepcopy(document)
    units = document["topology"]["unit_order"]
    units[side if side in units else next(iter(units))] = []

    assert not verify_receipts([as_receipt(document)], bundle=False).holds


@pytest.mark.parametrize("document", [DOCUMENTS[1], DOCUMENTS[4]], ids=["classic", "1.0.0"])
def test_a_small_file_cannot_ask_for_a_large_network(document):
    document = copy.deepcopy(document)
    units = document["topology"]["unit_order"]
    document["topology"]["unit_order"] = {layer: [f"{layer}{k}" for k in range(2000)] for layer in units}

    begin = time.perf_counter()
    verdict = verify_receipts([as_receipt(document)], bundle=False)

    assert "more edges than" in str([finding.because for finding in verdict.findings])
    assert time.perf_counter() - begin < 5.0  # four million edges, each looked at, take minutes


def test_a_batch_names_at_most_as_many_samples_as_the_format_allows():
    document = copy.deepcopy(DOCUMENTS[3])
    document["batch"]["sample_order"] = ["s0"] * 10_001

    (finding, *_) = (
        f for f in verify_receipts([as_receipt(document)], bundle=False).findings if "more than" in f.because
    )

    assert (finding.rule, finding.path) == (19, "batch.sample_order")


def test_a_batch_without_samples_is_judged():
    document = copy.deepcopy(DOCUMENTS[3])
    document["batch"]["sample_order"] = []

    assert not verify_receipts([as_receipt(document)], bundle=False).holds


def test_nothing_checked_is_not_a_pass():
    assert not verify_receipts([], bundle=True).holds
    assert not verify_receipts([as_receipt({})], bundle=False).holds


def test_reordered_truncated_and_spliced_bundles_are_rejected():
    steps = [json.loads(emit(author_step({**BUILTIN["xor"](), "trace_id": "a" * 32, "step_index": 0})))]
    for index in (1, 2):
        given = {**BUILTIN["xor"](), "trace_id": "a" * 32, "step_index": index}
        given["parameters_before"] = steps[-1]["parameters_after"]
        steps.append(json.loads(emit(author_step(given))))

    def holds(documents):
        return verify_receipts(map(as_receipt, documents), bundle=True).holds

    assert holds(steps)
    assert not holds([steps[0], steps[2]])
    assert not holds([steps[1], steps[0], steps[2]])
    assert not holds([steps[1], steps[2]])
    assert not holds([steps[0], steps[0]])
    cut = verify_receipts(map(as_receipt, steps[:2]), bundle=True)
    assert any("cut off its end" in note for note in cut.notes)
