"""Sidecars: what a framework observed of a step, in the formats framework-trace v0.1.0 to v0.8.0."""

from __future__ import annotations

from backproof.receipt.formats import parts
from backproof.receipt.formats.parts import MOST_ENTRIES, optional
from backproof.receipt.formats.receipts import POST_STATES
from backproof.receipt.kinds import Field, Flag, Many, Map, Number, Record, Requires, Text, When, Whole

FRAMEWORKS = ("pytorch", "jax", "tensorflow", "hand_derived")
LIVE = ("pytorch", "jax", "tensorflow")


def sidecar_format(m: int) -> Record:
    """The format framework-trace.v0.m.0."""
    # The receipt version that speaks of optimizers as this sidecar does.
    n = {4: 5, 5: 6, 6: 7, 7: 7, 8: 8}.get(m, 4 if m == 3 else 3)
    signals = Record(
        (
            Field("output_error_signals", Map(parts.output_signal(n, MOST_ENTRIES), "output")),
            Field("hidden_error_signals", Map(parts.hidden_signal(MOST_ENTRIES), "hidden")),
        )
    )
    loss = parts.loss(n, MOST_ENTRIES)
    return Record(
        (
            Field("format", Text(const=f"framework-trace.v0.{m}.0")),
            Field("source_framework", parts.source_framework(FRAMEWORKS)),
            *((optional("helper", helper()),) if m >= 7 else ()),
            *((optional("trace_id", parts.TRACE_ID), optional("step_index", Whole(least=0))) if m >= 2 else ()),
            Field("topology", parts.topology(n)),
            Field("learning_rate", parts.RATE),
            *((optional("optimizer", parts.optimizer_config(n)),) if m >= 4 else ()),
            optional("numeric_policy", parts.numeric_policy(n)),
            optional("bias_policy", parts.bias_policy(n)),
            *((optional("batch", parts.batch(None)),) if m >= 3 else ()),
            Field("inputs", _numbers("input")),
            Field("targets", _numbers("output")),
            Field("parameters_before", _numbers("parameters")),
            *((optional("per_sample", parts.per_sample(n, MOST_ENTRIES)),) if m >= 3 else ()),
            Field("forward", Map(parts.NET_AND_OUT, "units", MOST_ENTRIES)),
            Field("loss", loss),
            Field("backward", signals),
            Field("updates", Many(parts.update(n, MOST_ENTRIES), least=1, most=MOST_ENTRIES)),
            Field("parameters_after", _numbers("parameters")),
            optional(
                "post_update_forward",
                Record((Field("status", POST_STATES),), rest=parts.NET_AND_OUT, order="units"),
            ),
            optional("post_update_loss", _post_loss()),
        ),
        conditions=_conditions(m, n),
    )


def helper() -> Record:
    """Which helper extracted the step, in which framework, on which machine."""
    deterministic = Record(
        (
            *(
                optional(name, Flag())
                for name in ("torch_use_deterministic_algorithms", "cudnn_deterministic", "cudnn_benchmark")
            ),
            optional("seed", Whole(least=0)),
        )
    )
    framework = Record(
        (
            Field("name", Text(among=LIVE)),
            Field("version", parts.NAMED),
            optional("commit", Text(pattern=r"^[0-9a-f]{7,40}$")),
        )
    )
    runtime = Record(
        (
            Field("python_version", Text(pattern=r"^\d+\.\d+\.\d+")),
            optional("torch_version", parts.NAMED),
            optional("deterministic_mode", deterministic),
        )
    )
    moment = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$"
    extraction = Record(
        (
            Field("timestamp", Text(pattern=moment)),
            optional("duration_ms", Whole(least=0)),
            Field("device", Text(among=("cpu", "cuda", "mps", "xla"))),
        )
    )
    return Record(
        (
            Field("name", parts.NAMED),
            Field("version", parts.NAMED),
            Field("distribution", Text(among=("repo-script", "pypi", "vendored"))),
            Field("source_hash", parts.SHA256),
            optional("source_uri", parts.NAMED),
            Field("framework", framework),
            Field("runtime", runtime),
            Field("extraction", extraction),
        )
    )


def _numbers(order: str) -> Map:
    return Map(Number(), order, MOST_ENTRIES)


def _post_loss() -> Record:
    return Record(
        (
            Field("status", POST_STATES),
            optional("per_output", _numbers("output")),
            optional("total", Number()),
        )
    )


def _conditions(m: int, n: int) -> tuple[When | Requires, ...]:
    conditions: list[When | Requires] = []
    if m >= 2:
        conditions.append(Requires("step_index", "trace_id"))
    if m >= 7:
        conditions.append(Requires("trace_id", "step_index"))
    if m >= 4:
        conditions += parts.optimizer_conditions(n, "optimizer")
    if m >= 7:
        by_hand = (("source_framework", "extractor", "name"), "hand_authored")
        conditions.append(When(("source_framework", "name"), LIVE, needs=("helper",), unless=by_hand))
    return tuple(conditions)
