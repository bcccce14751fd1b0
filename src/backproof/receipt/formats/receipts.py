"""Receipts 0.1.0 (Mazur's 2-2-2 network) to 0.8.0 (one hidden layer, four optimizers, batches, imports)."""

from __future__ import annotations

from backproof.receipt.formats import parts
from backproof.receipt.formats.parts import dropped, optional, written
from backproof.receipt.kinds import (
    Anything,
    Field,
    Flag,
    Kind,
    Many,
    Map,
    Number,
    Record,
    Requires,
    Text,
    When,
    Whole,
)

AUTHORING_STATES = ("hand_derived", "engine_generated", "deliberately_corrupted")
VERIFICATION_STATES = (
    "pending_engine_reproduction",
    "engine_reproduced_byte_equal",
    "expected_to_fail_reconciliation",
)
IMPORT_STATES = (
    "engine_recompute_matched_within_tolerance",
    "engine_recompute_disagreed",
    "engine_recompute_skipped_with_basis",
)
SKIP_BASES = (
    "hardware_nondeterminism",
    "framework_op_unsupported",
    "distributed_only_field",
    "attested_third_party",
)
FRAMEWORKS = ("pytorch", "jax", "tensorflow", "hand_derived", "backprop_trace_engine")
POST_STATES = Text(among=("pending_engine_first_run", "filled"))

# The wiring that 0.1.0 leaves unsaid: Mazur's network.
MAZUR_UNITS = {"input": ("i1", "i2"), "hidden": ("h1", "h2"), "output": ("o1", "o2")}
MAZUR_PARAMETERS = ("w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "b1", "b2")


def receipt_format(n: int) -> Record:
    """The format of receipts of schema_version 0.n.0."""
    return _mazur() if n == 1 else _general(n)


def fixture_status(n: int) -> Record:
    """What the file says about itself: who wrote it and how far it was checked."""
    general = ("engine_generated_general",) if n >= 2 else ()
    imported = ("external_imported",) if n >= 4 else ()
    authors = (*AUTHORING_STATES, *general, *imported)
    states = (*VERIFICATION_STATES, *(IMPORT_STATES if n >= 4 else ()))
    return Record(
        (
            Field("authoring_state", Text(among=authors)),
            Field("verification_state", Text(among=states)),
            Field("canonical", Flag()),
            dropped("promote_to", Text()),
            dropped("describes_in", Text()),
            dropped("blockers_to_promotion", Many(Text())),
        )
    )


def attestor() -> Record:
    """Who computed the numbers, who checked them, what they were imported from, and digests."""
    identity = Record(
        (
            Field("kind", Text(among=("framework", "engine", "hand_derivation"))),
            Field("identity", parts.NAMED),
        )
    )
    provenance = Record(
        (
            Field("source_format", parts.NAMED),
            Field("source_hash", parts.SHA256),
            optional("import_timestamp", parts.NAMED),
        )
    )
    return Record(
        (
            Field("computed_by", identity),
            Field("verified_by", identity),
            Field("differential_tolerance", parts.HYBRID_TOLERANCE),
            optional("import_provenance", provenance),
            optional("skip_basis", Text(among=SKIP_BASES)),
            optional("signed_subject_digest", parts.SHA256),
            optional("bundle_root_digest", parts.SHA256),
        )
    )


def _metadata(url_needed: bool) -> Anything:
    url = written if url_needed else optional
    return Anything((written("source", Text()), url("url_reference", Text()), written("gradient_convention", Text())))


def _head(n: int) -> tuple[Field, ...]:
    imported = (
        optional("source_framework", parts.source_framework(FRAMEWORKS)),
        optional("attestor", attestor()),
    )
    return (
        Field("schema_version", Text(const=f"0.{n}.0")),
        Field("fixture", Text()),
        Field("step", Whole(least=1)),
        Field("fixture_status", fixture_status(n)),
        *(imported if n >= 4 else ()),
        written("metadata", _metadata(url_needed=n == 1)),
        Field("numeric_policy", parts.numeric_policy(n)),
        Field("bias_policy", parts.bias_policy(n)),
    )


def _post_loss(per_output: Kind) -> Record:
    return Record(
        (
            Field("status", POST_STATES),
            dropped("required_before_promotion", Flag()),
            dropped("fields_required", Many(Text())),
            dropped("drift_check_against_published", Anything(())),
            dropped("note", Text()),
            written("per_output", per_output),
            written("total", Number()),
        )
    )


def _post_forward(units: tuple[Field, ...], rest: Kind | None) -> Record:
    return Record(
        (
            Field("status", POST_STATES),
            dropped("required_before_promotion", Flag()),
            dropped("fields_required", Many(Text())),
            dropped("fill_specification", Text()),
            dropped("note", Text()),
            *units,
        ),
        rest=rest,
        order="units" if rest else None,
    )


def _mazur() -> Record:
    def numbers(*names: str) -> Record:
        return Record(tuple(Field(name, Number()) for name in names))

    def units(*names: str) -> Record:
        return Record(tuple(Field(name, parts.NET_AND_OUT) for name in names))

    hidden, output = MAZUR_UNITS["hidden"], MAZUR_UNITS["output"]
    per_output = numbers(*output)
    topology = Record(
        (
            Field("layers", Many(Text())),
            *(Field(f"{layer}_size", Whole(least=1)) for layer in ("input", "hidden", "output")),
            Field("activation", Text(among=("sigmoid",))),
            Field("loss", Text(among=("half_squared_error",))),
            written("bias_sharing", Text(among=("per_layer", "per_neuron"))),
        )
    )
    backward = Record(
        (
            Field("output_error_signals", Record(tuple(Field(u, parts.output_signal(1)) for u in output))),
            Field("hidden_error_signals", Record(tuple(Field(u, parts.hidden_signal()) for u in hidden))),
        )
    )
    post_units = tuple(written(unit, parts.NET_AND_OUT) for unit in (*hidden, *output))
    return Record(
        (
            *_head(1),
            Field("topology", topology),
            Field("learning_rate", parts.RATE),
            dropped("unit_order", Anything(())),
            dropped("parameter_order", Many(Text())),
            Field("inputs", numbers(*MAZUR_UNITS["input"])),
            Field("targets", numbers(*output)),
            Field("parameters_before", numbers(*MAZUR_PARAMETERS)),
            Field("forward", units(*hidden, *output)),
            Field("loss", Record((Field("per_output", per_output), Field("total", Number())))),
            Field("backward", backward),
            Field("updates", Many(parts.update(1), least=1)),
            Field("parameters_after", numbers(*MAZUR_PARAMETERS)),
            written("post_update_forward", _post_forward(post_units, rest=None)),
            written("post_update_loss", _post_loss(Record(tuple(written(u, Number()) for u in output)))),
        )
    )


def _general(n: int) -> Record:
    config = (optional("optimizer_config", parts.optimizer_config(n)),) if n >= 5 else ()
    most_samples = 10_000 if n >= 5 else None
    samples = (optional("per_sample", parts.per_sample(n)),) if n >= 4 else ()
    backward = Record(
        (
            Field("output_error_signals", Map(parts.output_signal(n), "output")),
            Field("hidden_error_signals", Map(parts.hidden_signal(), "hidden")),
        )
    )
    conditions: tuple[When | Requires, ...] = (
        Requires("step_index", "trace_id"),
        Requires("trace_id", "step_index"),
        *(parts.optimizer_conditions(n, "optimizer_config") if n >= 5 else ()),
    )
    return Record(
        (
            *_head(n),
            Field("topology", parts.topology(n)),
            Field("learning_rate", parts.RATE),
            *config,
            optional("trace_id", parts.TRACE_ID),
            optional("step_index", Whole(least=0)),
            *((optional("batch", parts.batch(most_samples)),) if n >= 4 else ()),
            Field("inputs", Map(Number(), "input")),
            Field("targets", Map(Number(), "output")),
            Field("parameters_before", Map(Number(), "parameters")),
            *samples,
            Field("forward", Map(parts.NET_AND_OUT, "units")),
            Field("loss", parts.loss(n)),
            Field("backward", backward),
            Field("updates", Many(parts.update(n), least=1)),
            Field("parameters_after", Map(Number(), "parameters")),
            written("post_update_forward", _post_forward((), rest=parts.NET_AND_OUT)),
            written("post_update_loss", _post_loss(Map(Number(), "output"))),
        ),
        conditions=conditions,
    )
