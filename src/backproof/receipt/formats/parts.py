"""What formats share: policies, topologies, signals, updates. `n` is a receipt format's minor version."""

from __future__ import annotations

from backproof.receipt.kinds import Field, Flag, Kind, Many, Map, Number, OneOf, Record, Text, When, Whole

ID = Text(pattern=r"^[a-zA-Z][a-zA-Z0-9_]*$")
TRACE_ID = Text(pattern=r"^[0-9a-f]{32}$")
SHA256 = Text(pattern=r"^sha256:[0-9a-f]{64}$")
NAMED = Text(least=1)
LEFT_TO_RIGHT = Text(const="left_to_right")
RATE = Number(above=0)
REDUCTIONS = ("mean", "sum", "none")
MOST_ENTRIES = 4096  # in any collection of a sidecar

ADAM_STATE = Record((Field("m", Number()), Field("v", Number(least=0))))
MOMENTUM_STATE = Record((Field("buffer", Number()),))

HYBRID_TOLERANCE = Record((Field("atol", Number(least=0, most=1e-5)), Field("rtol", Number(least=0, most=1e-3))))
NET_AND_OUT = Record((Field("net", Number()), Field("out", Number())))


def optional(name: str, kind: Kind) -> Field:
    """A key that may be absent, and is written when it is there."""
    return Field(name, kind, needed=False, emitted="if present")


def written(name: str, kind: Kind) -> Field:
    """A key that the format lets be absent, but that canonical bytes cannot do without."""
    return Field(name, kind, needed=False)


def dropped(name: str, kind: Kind) -> Field:
    """A key that may be there, and that canonical bytes leave out."""
    return Field(name, kind, needed=False, emitted="never")


def optimizers(n: int) -> tuple[str, ...]:
    """The optimizers that a receipt of version 0.n.0 knows."""
    return ("sgd", *(("adam", "adamw") if n >= 5 else ()), *(("sgd_momentum",) if n >= 6 else ()))


def numeric_policy(n: int) -> Record:
    """How numbers are written, and the tolerance that the file asks for (which no verdict uses)."""
    byte_output = Record(
        (
            written("format", Text(const="jsonl")),
            written("json_key_order", Text(const="schema_defined")),
            written("trailing_zero_policy", Text(const="pad_to_significant_digits")),
            written("indent", Text(const="none")),
        )
    )
    tolerance = OneOf((HYBRID_TOLERANCE, Number(least=0, most=1e-5))) if n >= 2 else Number(const=1e-9)
    return Record(
        (
            Field("number_encoding", Text(const="decimal")),
            Field("precision_significant_digits", Whole(least=1) if n >= 2 else Whole(const=9)),
            Field("rounding", Text(const="round_half_to_even")),
            Field("tolerance", tolerance),
            written("computation_order", Text(const="schema_defined")),
            written("byte_output", byte_output),
        )
    )


def bias_policy(n: int) -> Record:
    """Whether biases take part in the update."""
    free_text = optional if n >= 2 else written
    return Record(
        (
            Field("mode", Text(among=("constant", "sgd"))),
            free_text("reason", Text()),
            Field("updated_in_step", Flag()),
            free_text("reconciliation", Text()),
        )
    )


def topology(n: int) -> Record:
    """The network: its layers, units, parameters, activations and loss (0.2.0 and later)."""
    ids = Many(ID, least=1)
    parameter = Record(
        (
            Field("id", ID),
            Field(
                "role",
                Text(among=("input_to_hidden_weight", "hidden_to_output_weight", "hidden_bias", "output_bias")),
            ),
            optional("from_unit", ID),
            optional("to_unit", ID),
            optional("applies_to_units", Many(ID)),
        )
    )
    activations = ("sigmoid", "identity", "relu")
    return Record(
        (
            Field("layers", Many(Text())),
            *(Field(f"{layer}_size", Whole(least=1, most=64)) for layer in ("input", "hidden", "output")),
            Field("unit_order", Record(tuple(Field(layer, ids) for layer in ("input", "hidden", "output")))),
            Field("parameter_order", Many(ID, least=1, unique=True)),
            Field("parameters", Many(parameter, least=1)),
            Field("activation_hidden", Text(among=activations)),
            Field("activation_output", Text(among=(*activations, *(("softmax",) if n >= 3 else ())))),
            Field("loss", Text(among=("half_squared_error", *(("cross_entropy_softmax",) if n >= 3 else ())))),
            Field("bias_sharing", Text(among=("per_layer", "per_neuron"))),
        )
    )


def factors(n: int, most: int | None = None) -> Many:
    """The factors of a product, each with its name and, where it has one, the place it was read from."""
    factor = Record((Field("name", Text()), optional("from", Text()), Field("value", Number())))
    return Many(factor, least=1 if n >= 2 else 2, most=most)


def output_signal(n: int, most: int | None = None) -> Record:
    """The error signal of an output unit; with softmax also its long form over the Jacobian."""
    fields = [
        Field("factors", factors(n, most)),
        Field("product_order", LEFT_TO_RIGHT),
        Field("signal_value", Number()),
    ]
    if n >= 3:
        term = Record((Field("target_unit", ID), Field("factors", factors(n, most)), Field("term_value", Number())))
        dual = Record(
            (
                Field("jacobian_terms", Many(term, least=1)),
                Field("product_order", LEFT_TO_RIGHT),
                Field("summation_order", Many(Text(), least=1, most=most)),
                Field("summed_value", Number()),
            )
        )
        fields.append(optional("dual_form", dual))
    return Record(tuple(fields))


def hidden_signal(most: int | None = None) -> Record:
    """The error signal of a hidden unit and what flows into it from the layer above."""
    contribution = Record(
        (
            Field("from", Text()),
            Field("downstream_signal", Number()),
            Field("via_weight", Text()),
            Field("weight_value", Number()),
            Field("value", Number()),
        )
    )
    return Record(
        (
            Field("downstream_contributions", Many(contribution, least=1)),
            Field("summation_order", Many(Text(), least=1, most=most)),
            Field("backpropagated_sum", Number()),
            Field("activation_derivative", Number()),
            Field("product_order", LEFT_TO_RIGHT),
            Field("signal_value", Number()),
        )
    )


def update(n: int, most: int | None = None) -> Record:
    """The update of one parameter."""
    state: Kind = OneOf((ADAM_STATE, MOMENTUM_STATE)) if n >= 6 else ADAM_STATE
    states = (optional("state_before", state), optional("state_after", state)) if n >= 5 else ()
    stateful = tuple(name for name in optimizers(n) if name != "sgd")
    optimizer = Record(
        (
            Field("name", Text(among=optimizers(n))),
            Field("learning_rate", RATE),
            Field("factors", factors(n, most)),
            Field("product_order", LEFT_TO_RIGHT),
            *states,
        )
    )
    needs_state = When(("optimizer", "name"), stateful, inside=("optimizer",), needs=("state_before", "state_after"))
    return Record(
        (
            Field("parameter_id", Text()),
            Field("kind", Text(among=("weight", "bias"))),
            written("layer_edge", Text(among=("input_to_hidden", "hidden_to_output", "bias_to_layer"))),
            written("parameter_role", Text()),
            written("from_unit", Text()),
            written("to_unit", Text()),
            Field("weight_before", Number()),
            Field("optimizer", optimizer),
            Field("gradient", Number()),
            Field("update", Number()),
            Field("weight_after", Number()),
        ),
        conditions=(needs_state,) if stateful else (),
    )


def optimizer_config(n: int) -> Record:
    """The optimizer's settings. `n` is the minor version of the receipt format that first had them so."""
    betas = Number(above=0, below=1)
    fields = [
        Field("name", Text(among=optimizers(n))),
        Field("learning_rate", RATE),
        optional("beta1", betas),
        optional("beta2", betas),
        optional("epsilon", RATE),
        optional("weight_decay", Number(least=0)),
        optional("t", Whole(least=1)),
    ]
    if n >= 6:
        fields += [
            optional("momentum", betas),
            Field("nesterov", Flag(const=False) if n == 6 else Flag(), needed=False, emitted="if true"),
            Field(
                "dampening",
                Number(const=0) if n == 6 else Number(least=0, below=1),
                needed=False,
                emitted="if not zero",
            ),
        ]
    return Record(tuple(fields))


def optimizer_conditions(n: int, key: str) -> tuple[When, ...]:
    """What each optimizer needs of its settings under `key`."""
    name, inside = (key, "name"), (key,)
    adam = ("name", "learning_rate", "beta1", "beta2", "epsilon", "t")
    conditions = [
        When(name, ("adam", "adamw"), inside, needs=adam),
        When(name, ("adamw",), inside, needs=(*adam, "weight_decay")),
    ]
    if n >= 6:
        conditions.append(When(name, ("sgd_momentum",), inside, needs=("name", "learning_rate", "momentum")))
    if n in {6, 7}:
        conditions.append(When(name, ("sgd_momentum",), inside, forbids=("weight_decay",)))
    if n >= 7:
        conditions.append(When((key, "nesterov"), (True,), inside, narrows=(("dampening", Number(const=0)),)))
    return tuple(conditions)


def source_framework(names: tuple[str, ...]) -> Record:
    """Who computed the numbers."""
    extractor = Record((Field("name", NAMED), Field("version", NAMED)))
    return Record(
        (
            Field("name", Text(among=names)),
            Field("version", NAMED),
            optional("information_uri", NAMED),
            optional("extractor", extractor),
        )
    )


def batch(most: int | None) -> Record:
    """How many samples a step saw, in which order, and how they were reduced."""
    return Record(
        (
            Field("size", Whole(least=1, most=most)),
            Field("sample_order", Many(ID, least=1, most=most, unique=True)),
            Field("reduction", Text(among=REDUCTIONS)),
        )
    )


def loss(n: int, most: int | None = None) -> Record:
    """The loss of each output, of each sample, and in total."""
    samples = (
        (
            optional("per_sample", Map(Number(), "samples", most)),
            optional("reduction", Text(among=REDUCTIONS)),
        )
        if n >= 4
        else ()
    )
    return Record((Field("per_output", Map(Number(), "output", most)), *samples, Field("total", Number())))


def per_sample(n: int, most: int | None = None) -> Map:
    """Each sample's own inputs, targets, forward pass and loss."""
    sample = Record(
        (
            Field("inputs", Map(Number(), "input", most)),
            Field("targets", Map(Number(), "output", most)),
            Field("forward", Map(NET_AND_OUT, "units", most)),
            Field("loss", loss(n, most)),
        )
    )
    return Map(sample, "samples")
