"""Where kernels round whose results have a half format (bfloat16, float16): one table, from what PyTorch documents and how it is built.

Every such kernel reads its operands as float32, adds up in float32, and stores its result in the half format. What differs is how much
of a function is one kernel:

* A function of FUSED is one: everything between reading and storing is float32, and is rounded once. (Elementwise functions, views,
  plain products, sums and choices, layer normalisation along rows.)
* Any other is several, or one that keeps its parts in the half format, as a recurrent cell its gates, attention and softmax their
  exponentials, a product with a bias the product, batch normalisation its statistics: each intermediate result may be rounded.
* Backward, no function is one kernel: what forward has saved (a softmax's own result, a mean) is as it was stored, and the product that
  a broadcast operand's gradient is the sum of is stored before it is added up.
* Gradients of what is read by index, and of the parameters of layer normalisation, are moreover added up in the half format itself;
  so are, in float16, those of convolutions, which take one sample after the other where a processor has no products of float16, and
  what transposed ones lay on top of each other.

In float32 and float64 all of it is one format, and nothing is to be told apart.
"""

from __future__ import annotations

from backproof.lowering import (
    ACTIVATIONS,
    ALGEBRA,
    ALONG,
    ARITHMETIC,
    DIAGONALS,
    FUNCTIONS,
    INDEXING,
    JOINS,
    ORDERS,
    RECURRENT,
    STRUCTURE,
    canonical,
)

HALVES = ("bfloat16", "float16")
_SEVERAL = {"pow", "float_power", "addmm", "addmv", "baddbmm", "addbmm", "addr", "lerp", "addcmul", "addcdiv", "einsum"}
_FAMILIES = (ARITHMETIC, FUNCTIONS, ALGEBRA, ORDERS, STRUCTURE, JOINS, INDEXING, ALONG, DIAGONALS)
FUSED = frozenset(
    {
        *(lowering.name for family in _FAMILIES for lowering in family),
        *("sum", "cumsum", "cummax", "cummin", "all", "any"),
        *("relu", "log_softmax", "layer_norm", "embedding", "pad"),
        *("seen_through", "written_through"),
        *ACTIVATIONS,
    }
    - _SEVERAL
)
ADDS_AS_STORED = frozenset(
    "layer_norm embedding embedding_bag gather index_select getitem take take_along_dim index_put index_add".split()
)

ADDS_AS_FLOAT16 = frozenset(f"conv{way}{rank}d" for way in ("", "_transpose") for rank in (1, 2, 3))
RECURRENCES = frozenset(lowering.name for lowering in RECURRENT)


def reads_in(op: str, autocast: str) -> str:
    """The half format to which autocast rounds what a function reads inside; nothing where it does not, or is a call of its own."""
    return autocast if autocast in HALVES and _name(op) in RECURRENCES else ""


def forward_in(op: str, dtype: str, autocast: str = "") -> tuple[str, str | None]:
    """The format that a function computes in, and the one in which it adds up (None: the same), by the format of its result."""
    dtype = reads_in(op, autocast) or dtype
    if dtype not in HALVES:
        return ("float64" if dtype == "float64" else "float32"), None
    if dtype == "float16" and _name(op).startswith("conv_transpose"):
        return dtype, dtype
    return (dtype, "float32") if _name(op) not in FUSED else ("float32", None)


def backward_in(op: str, dtype: str, autocast: str = "") -> tuple[str, str | None]:
    """The same for its derivative."""
    dtype = reads_in(op, autocast) or dtype
    if dtype not in HALVES:
        return forward_in(op, dtype)
    as_stored = _name(op) in ADDS_AS_STORED or (dtype == "float16" and _name(op) in ADDS_AS_FLOAT16)
    return dtype, (dtype if as_stored else "float32")


def _name(op: str) -> str:
    return canonical(op).removesuffix("_")
