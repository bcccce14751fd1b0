"""Bundles for the tests of the fast reader, and the native parts compiled for them."""

import copy
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

import backproof
from backproof.receipt.authoring import BUILTIN, author_step
from backproof.receipt.bundle import read_columns
from backproof.receipt.columns import columns_of
from backproof.receipt.document import read_documents
from backproof.receipt.emission import emit

PACKAGE = Path(backproof.__file__).parent
SCAN, SCREEN = PACKAGE / "receipt/native/scan.c", PACKAGE / "verify/native/screen.c"
STRICT = (
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pedantic",
    "-Wconversion",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
)


def compiled(source: Path, folder: Path, *flags: str) -> Path:
    """A library of one source; without a compiler the test is skipped."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc): the native reader is not tested")
    library = folder / f"{source.stem}.so"
    subprocess.run([compiler, *STRICT, *flags, str(source), "-o", str(library), "-lm"], check=True)
    return library


def bundle(name: str, steps: int, config: dict | None = None, **changes: object) -> list[dict]:
    """Some steps of a run, each from the numbers that the step before it wrote."""
    given = {**copy.deepcopy(BUILTIN[name]()), "trace_id": "0123456789abcdef0123456789abcdef", **changes}
    given["topology"].update(changes.get("activations", {}))
    given.pop("activations", None)
    state, documents = None, []
    for index in range(steps):
        config = {**config, "t": index + 1} if config and "beta1" in config else config
        if config and "learning_rate" in config and state is None and config["name"] != "sgd":
            keys = ("m", "v") if "beta1" in config else ("buffer",)
            names = [p["id"] for p in given["topology"]["parameters"] if "applies_to_units" not in p]
            state = {name: dict.fromkeys(keys, 0.0) for name in names}
        step = author_step({**given, "step_index": index}, optimizer_config=config, state_before=state)
        document = json.loads(emit(step))
        given["parameters_before"] = document["parameters_after"]
        if state is not None:
            state = {u["parameter_id"]: u["optimizer"]["state_after"] for u in document["updates"]}
        documents.append(document)
    return documents


def imported(documents: list[dict]) -> list[dict]:
    """The same as a framework's, bound by a digest."""
    from backproof.receipt.digests import bundle_digest

    digest = "sha256:" + "0" * 64
    for document in documents:
        document["schema_version"] = "0.4.0"
        document["fixture_status"]["authoring_state"] = "external_imported"
        document["fixture_status"]["verification_state"] = "engine_recompute_matched_within_tolerance"
        document["source_framework"] = {"name": "pytorch", "version": "2.6.0"}
        document["attestor"] = {
            "computed_by": {"kind": "framework", "identity": "pytorch@2.6.0"},
            "verified_by": {"kind": "engine", "identity": "engine@1"},
            "differential_tolerance": {"atol": 1e-9, "rtol": 1e-6},
            "import_provenance": {"source_format": "framework-trace.v0.2.0", "source_hash": digest},
            "bundle_root_digest": digest,
        }
    root = bundle_digest(documents)
    for document in documents:
        document["attestor"]["bundle_root_digest"] = root
    return documents


SOFTMAX = {"activation_hidden": "relu", "activation_output": "softmax", "loss": "cross_entropy_softmax"}
MOMENTUM = {"name": "sgd_momentum", "learning_rate": 0.5, "momentum": 0.9}
ADAM = {"name": "adam", "learning_rate": 0.5, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
BUNDLES = {
    "mazur": bundle("mazur", 4),
    "softmax": bundle("iris", 3, activations=SOFTMAX),
    "momentum": bundle("mazur", 4, MOMENTUM),
    "adam": bundle("mazur", 3, ADAM),
    "imported": imported(bundle("mazur", 4)),
}
LINES = {name: [emit(document) for document in documents] for name, documents in BUNDLES.items()}


def outcome(read) -> list | str:
    """What a reader makes of a bundle, record by record; or how it refuses it."""
    found = []
    try:
        for columns in read():
            shape, deviations = columns.shape, dict.fromkeys(range(columns.size), ())
            for row, deviation in columns.deviations:
                deviations[row] += (deviation,)
            found += [
                (
                    repr(shape.template),
                    shape.paths,
                    columns.numbers[row].tobytes(),
                    columns.texts[row],
                    columns.positions[row],
                    deviations[row],
                    columns.is_canonical(row),
                )
                for row in range(columns.size)
            ]
    except backproof.BackproofError as error:
        return f"{type(error).__name__}: {error}"
    return found


def both(content: bytes) -> tuple[list | str, list | str]:
    """The outcome of the strict reader, and of the fast one."""
    strict = outcome(lambda: columns_of(read_documents(io.BytesIO(content))))
    return strict, outcome(lambda: read_columns(io.BytesIO(content)))
