"""The input of `bp generate from-config`: a network, its numbers and policies, before any step."""

from __future__ import annotations

from backproof.receipt.formats import parts
from backproof.receipt.formats.parts import optional
from backproof.receipt.kinds import Anything, Field, Map, Number, Record, Requires, Text, Whole

DIALECT = "https://json-schema.org/draft/2020-12/schema"

TOPOLOGY_INPUT = Record(
    (
        optional("$schema", Text(const=DIALECT)),
        optional("fixture", Text()),
        optional("metadata", Anything(())),
        Field("numeric_policy", parts.numeric_policy(2)),
        Field("bias_policy", parts.bias_policy(2)),
        Field("topology", parts.topology(2)),
        Field("learning_rate", parts.RATE),
        optional("trace_id", parts.TRACE_ID),
        optional("step_index", Whole(least=0)),
        Field("inputs", Map(Number(), "input")),
        Field("targets", Map(Number(), "output")),
        Field("parameters_before", Map(Number(), "parameters")),
    ),
    conditions=(Requires("step_index", "trace_id"), Requires("trace_id", "step_index")),
)
