"""Receipts 1.0.0: the same model without its limits. Numbers are shortest round-trip decimals, bytes are RFC 8785.

What is new beside the numbers: any number of dense layers (`topology.layers`, `activations`), every activation of the
engine, batches with every optimizer. A hidden unit's contributions come from the layer above it.
"""

from __future__ import annotations

from backproof.receipt.formats import parts
from backproof.receipt.formats.parts import optional
from backproof.receipt.formats.receipts import FRAMEWORKS, attestor, fixture_status
from backproof.receipt.kinds import Anything, Field, Many, Map, Number, Record, Requires, Text, When, Whole

VERSION = "1.0.0"
INPUT_NAME = "topology-input.v1.0.0"
STATES = Text(among=("pending_engine_first_run", "filled"))


def _numeric_policy() -> Record:
    return Record(
        (
            Field("number_encoding", Text(const="decimal")),
            Field("rounding", Text(const="shortest_round_trip")),
            Field("computation_order", Text(const="schema_defined")),
        )
    )


def _topology() -> Record:
    parameter = Record(
        (
            Field("id", parts.ID),
            Field("role", Text(among=("weight", "bias"))),
            optional("from_unit", parts.ID),
            optional("to_unit", parts.ID),
            optional("applies_to_units", Many(parts.ID)),
        )
    )
    return Record(
        (
            Field("layers", Many(parts.ID, least=2, unique=True)),
            Field("unit_order", Map(Many(parts.ID, least=1), "layers")),
            Field("parameter_order", Many(parts.ID, least=1, unique=True)),
            Field("parameters", Many(parameter, least=1)),
            Field("activations", Map(parts.NAMED, "layers")),
            Field("loss", Text(among=("half_squared_error", "cross_entropy_softmax"))),
            Field("bias_sharing", Text(among=("per_layer", "per_neuron"))),
        )
    )


def _update() -> Record:
    classic = parts.update(8)
    fields = tuple(
        Field("layer_edge", parts.NAMED) if f.name == "layer_edge" else f._replace(needed=True) for f in classic.fields
    )
    return Record(fields, conditions=classic.conditions)


def _status() -> Record:
    return Record(fixture_status(8).fields[:3])


def _step() -> tuple[Field, ...]:
    """What a receipt and an input share."""
    return (
        Field("numeric_policy", _numeric_policy()),
        Field("bias_policy", parts.bias_policy(8)),
        Field("topology", _topology()),
        Field("learning_rate", parts.RATE),
        optional("optimizer_config", parts.optimizer_config(8)),
        optional("trace_id", parts.TRACE_ID),
        optional("step_index", Whole(least=0)),
        optional("batch", parts.batch(None)),
    )


def _metadata() -> Anything:
    return Anything(tuple(optional(key, Text()) for key in ("source", "url_reference", "gradient_convention")))


CONDITIONS: tuple[When | Requires, ...] = (
    Requires("step_index", "trace_id"),
    Requires("trace_id", "step_index"),
    *parts.optimizer_conditions(8, "optimizer_config"),
)

RECEIPT = Record(
    (
        Field("schema_version", Text(const=VERSION)),
        Field("fixture", Text()),
        Field("step", Whole(least=1)),
        Field("fixture_status", _status()),
        optional("source_framework", parts.source_framework(FRAMEWORKS)),
        optional("attestor", attestor()),
        Field("metadata", _metadata()),
        *_step(),
        Field("inputs", Map(Number(), "input")),
        Field("targets", Map(Number(), "output")),
        Field("parameters_before", Map(Number(), "parameters")),
        optional("per_sample", parts.per_sample(8)),
        Field("forward", Map(parts.NET_AND_OUT, "units")),
        Field("loss", parts.loss(8)),
        Field(
            "backward",
            Record(
                (
                    Field("output_error_signals", Map(parts.output_signal(8), "output")),
                    Field("hidden_error_signals", Map(parts.hidden_signal(), "hidden")),
                )
            ),
        ),
        Field("updates", Many(_update(), least=1)),
        Field("parameters_after", Map(Number(), "parameters")),
        Field("post_update_forward", Record((Field("status", STATES),), rest=parts.NET_AND_OUT, order="units")),
        Field(
            "post_update_loss",
            Record((Field("status", STATES), Field("per_output", Map(Number(), "output")), Field("total", Number()))),
        ),
    ),
    conditions=CONDITIONS,
)

_SAMPLE = Record((Field("inputs", Map(Number(), "input")), Field("targets", Map(Number(), "output"))))

INPUT = Record(
    (
        optional("fixture", Text()),
        optional("metadata", _metadata()),
        *_step(),
        optional("optimizer_state_before", Map(Record((), rest=Number()), "parameters")),
        optional("inputs", Map(Number(), "input")),
        optional("targets", Map(Number(), "output")),
        optional("per_sample", Map(_SAMPLE, "samples")),
        Field("parameters_before", Map(Number(), "parameters")),
    ),
    conditions=CONDITIONS,
)
