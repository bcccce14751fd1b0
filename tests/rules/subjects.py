"""One good receipt of each kind, for the mutations that the rules say they catch."""

from __future__ import annotations

import json
import random
from functools import cache

from honest import batch_of, given, network, read_back, steps

from backproof.receipt import bundle_digest, emit, subject_digest
from backproof.receipt.authoring import author_mazur


def _start(seed=7, *, softmax=False, per_neuron=False, rate=0.5, activation="sigmoid", output="sigmoid"):
    r = random.Random(seed)
    topology = network(
        r,
        2,
        2,
        3 if softmax else 2,
        activation=activation,
        output="softmax" if softmax else output,
        loss="cross_entropy_softmax" if softmax else "half_squared_error",
        per_neuron=per_neuron,
    )
    start = given(r, topology, rate=rate, short=True)
    start["inputs"] = {"x1": 0.75, "x2": 0.4}
    return start


def _run(name="none", count=1, seed=7, **kind):
    return [read_back(document) for document in steps(_start(seed, **kind), name, random.Random(seed), count)]


def _momentum(**settings):
    from backproof.receipt.authoring import author_step

    start = _start()
    config = {"name": "sgd_momentum", "learning_rate": 0.5, "momentum": 0.9, **settings}
    learning = [p["id"] for p in start["topology"]["parameters"] if "from_unit" in p]
    state = {name: {"buffer": 0.05} for name in learning}
    return [read_back(author_step(start, optimizer_config=config, state_before=state))]


def imported():
    """A receipt as an importer writes it."""
    (document,) = _run()
    provenance = {
        "source_format": "framework-trace.v0.7.0",
        "source_hash": "sha256:" + "0" * 64,
        "import_timestamp": "2026-01-01T00:00:00Z",
    }
    document |= {
        "schema_version": "0.4.0",
        "fixture_status": {
            "authoring_state": "external_imported",
            "verification_state": "engine_recompute_matched_within_tolerance",
            "canonical": True,
        },
        "source_framework": {"name": "pytorch", "version": "2.5.1"},
        "attestor": {
            "computed_by": {"kind": "framework", "identity": "pytorch@2.5.1"},
            "verified_by": {"kind": "engine", "identity": "backproof@0.1.0"},
            "differential_tolerance": {"atol": 1e-6, "rtol": 1e-4},
            "import_provenance": provenance,
        },
    }
    return [read_back(document)]


def _signed():
    (document,) = imported()
    document["attestor"]["signed_subject_digest"] = subject_digest(document)
    return [document]


def _signed_bundle():
    documents = []
    for plain in _run(count=3):
        (like,) = imported()
        documents.append(
            {**plain, **{k: like[k] for k in ("schema_version", "fixture_status", "source_framework", "attestor")}}
        )
    digest = bundle_digest(documents)
    for document in documents:
        document["attestor"] = {**document["attestor"], "bundle_root_digest": digest}
    return [json.loads(emit(document)) for document in documents]


SUBJECTS = {
    "mazur": lambda: [read_back(author_mazur())],
    "sgd": _run,
    "tiny-rate": lambda: _run(rate=1e-6),
    "decay": lambda: _run("sgd"),
    "bias": lambda: [
        read_back(d)
        for d in steps(
            {**_start(per_neuron=True), "bias_policy": {"mode": "sgd", "updated_in_step": True}},
            "none",
            random.Random(1),
            1,
        )
    ],
    "relu": lambda: _run(seed=3, activation="relu", output="identity"),
    "softmax": lambda: _run(softmax=True),
    "momentum": _momentum,
    "nesterov": lambda: _momentum(nesterov=True),
    "adam": lambda: _run("adam"),
    "adamw": lambda: _run("adamw"),
    "batch": lambda: [read_back(batch_of(random.Random(5), _start(softmax=True), 3, "mean"))],
    "imported": imported,
    "signed": _signed,
    "bundle": lambda: _run(count=3),
    "adam-bundle": lambda: _run("adam", count=3),
    "signed-bundle": _signed_bundle,
}


@cache
def _frozen(name):
    return json.dumps(SUBJECTS[name]())


def subject(name):
    """A fresh copy of the documents of a subject."""
    return json.loads(_frozen(name))
