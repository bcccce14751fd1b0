"""Framework-trace sidecars, read and judged: what cannot become a receipt is refused, with its place and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backproof.errors import InputError
from backproof.receipt import formats, reading
from backproof.receipt.document import Receipt
from backproof.receipt.validation import refuse, sidecar_deviations

MOST_BYTES = 8 * 1024 * 1024  # one sidecar file; a stream has no limit but that of a line
OPTIMIZERS = ("sgd", "sgd_momentum", "adam", "adamw")
SINGLE_FORMATS = tuple(name for name in formats.SIDECAR_FORMATS if not name.endswith("v0.2.0"))
STREAM_FORMATS = formats.SIDECAR_FORMATS[1:]
# Sidecar formats that exist for certain optimizers: a file with another one is mislabelled.
OPTIMIZERS_OF = {
    "framework-trace.v0.4.0": ("adam", "adamw"),
    "framework-trace.v0.5.0": ("sgd_momentum",),
    "framework-trace.v0.6.0": ("sgd_momentum",),
    "framework-trace.v0.8.0": ("sgd", "sgd_momentum"),
}


@dataclass(frozen=True)
class Sidecar:
    """One sidecar as read: its document and where it stood."""

    document: dict[str, Any]
    where: str


def single(content: bytes, where: str, framework: str) -> Sidecar:
    """The one sidecar of a file, refused in the order of the format's own checks."""
    if not content.strip():
        raise InputError(f"{where}: is empty; a sidecar is one JSON object")
    if len(content) > MOST_BYTES:
        raise InputError(f"{where}: {len(content)} bytes are more than a sidecar may have ({MOST_BYTES})")
    document = _parsed(content, where)
    said = document.get("format")
    if said == "framework-trace.v0.2.0":
        raise InputError(f"{where}: {said} is a stream's; 'bp import {framework} multi {where}' reads it")
    if said not in SINGLE_FORMATS:
        raise InputError(f"{where}: format {said!r} is not known; known are {', '.join(SINGLE_FORMATS)}")
    _judge(document, where)
    _judge_framework(document, where, framework)
    name = _mapping(document.get("optimizer")).get("name")
    wanted = OPTIMIZERS_OF.get(str(said))
    if wanted is not None and name not in wanted:
        raise InputError(f"{where}: {said} is for {' or '.join(wanted)}, but the optimizer is {name!r}: mislabelled")
    _judge_keys(document, where)
    return Sidecar(document, where)


def in_stream(line: bytes, place: str) -> Sidecar:
    """One line of a stream, judged by itself."""
    document = _parsed(line, place)
    _judge(document, place)
    said = document["format"]
    if said not in STREAM_FORMATS:
        raise InputError(f"{place}: {said} has no place in a stream; 'bp import FRAMEWORK FILE' reads it")
    _judge_keys(document, place)
    return Sidecar(document, place)


def judge_run(sidecar: Sidecar, first: Sidecar, framework: str, position: int) -> None:
    """What ties a sidecar to the first of its stream: framework, trace and its place in it."""
    place, document, began = sidecar.where, sidecar.document, first.document
    if sidecar is first:
        _judge_framework(document, place, framework)
    for key in ("name", "version"):
        said, wanted = document["source_framework"][key], began["source_framework"][key]
        if said != wanted:
            raise InputError(f"{place}: source_framework.{key} is {said!r}, the stream began with {wanted!r}")
    if document.get("trace_id") != began.get("trace_id"):
        said, wanted = document.get("trace_id"), began.get("trace_id")
        raise InputError(f"{place}: trace_id is {said!r}, the stream began with {wanted!r}; a stream is one trace")
    step = document.get("step_index")
    if (step is None) != ("step_index" not in began):
        raise InputError(f"{place}: some records have a step_index and others do not; give it to all or to none")
    if step is not None and step != position:
        raise InputError(f"{place}: step_index is {step}, its place in the stream is {position}")


def as_receipt(sidecar: Sidecar) -> Receipt:
    """A sidecar without its helper, as the columns take it. Who extracted it is in no equation."""
    kept = {key: value for key, value in sidecar.document.items() if key != "helper"}
    return Receipt(kept, where=sidecar.where)


def _parsed(content: bytes, where: str) -> dict[str, Any]:
    document = reading.parse(content.strip().removeprefix(b"\xef\xbb\xbf").strip(), where)
    if not isinstance(document, dict):
        raise InputError(f"{where}: is {type(document).__name__}, not an object; a sidecar is one JSON object")
    return document


def _judge(document: dict[str, Any], where: str) -> None:
    name = _mapping(document.get("optimizer")).get("name")
    if isinstance(name, str) and name not in OPTIMIZERS:
        raise InputError(f"{where}: optimizer {name!r} is not known; known are {', '.join(OPTIMIZERS)}")
    refuse(sidecar_deviations(document), where, "framework-trace sidecar")


def _judge_framework(document: Mapping[str, Any], where: str, framework: str) -> None:
    said = document["source_framework"]["name"]
    if said != framework:
        raise InputError(f"{where}: was recorded with {said}, not {framework}; 'bp import {said}' reads it")


def _judge_keys(document: Mapping[str, Any], where: str) -> None:
    """The parameters after the step are those of parameter_order, and a batch has its samples."""
    order, after = document["topology"]["parameter_order"], document["parameters_after"]
    if missing := [name for name in order if name not in after]:
        raise InputError(f"{where}: parameters_after.{missing[0]} is missing; parameter_order names it")
    if extra := [name for name in after if name not in order]:
        raise InputError(f"{where}: parameters_after.{extra[0]} is no parameter of parameter_order")
    if "batch" in document:
        samples = _mapping(document.get("per_sample"))
        if missing := [name for name in document["batch"]["sample_order"] if name not in samples]:
            raise InputError(f"{where}: per_sample.{missing[0]} is missing; batch.sample_order names it")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
