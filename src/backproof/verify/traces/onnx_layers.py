"""An ONNX model as a table of layers: one probe for each node, named by its weights (`conv1.weight`), or else by where the node stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backproof.errors import InputError, MissingToolError
from backproof.trace.manifest import Manifest, Probe
from backproof.trace.phases import INPUT

Attributes = Mapping[str, Any]
Told = tuple[str, dict[str, Any]]
UNTOLD: Told = "", {}


@dataclass(frozen=True)
class Node:
    """A node: its operation, attributes, and what is known of its inputs."""

    op: str
    attributes: Attributes
    constants: tuple[Any, ...]
    """For each input its numbers, where it is an initializer; else None."""


def _rank(node: Node) -> int:
    return int(node.constants[1].ndim) - 2


def _symmetric(node: Node, n: int) -> list[int] | None:
    """The padding of each axis, where it is the same on both sides."""
    pads = list(node.attributes.get("pads", [0] * (2 * n)))
    automatic = node.attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
    return None if automatic or pads[:n] != pads[n:] else pads[:n]


def _conv(node: Node) -> Told:
    if node.constants[1] is None:
        return UNTOLD
    n = _rank(node)
    padding = _symmetric(node, n)
    given = {"stride": "strides", "dilation": "dilations", "groups": "group"}
    hyper = {mine: node.attributes[theirs] for mine, theirs in given.items() if theirs in node.attributes}
    return UNTOLD if padding is None else (f"conv{n}d", {**hyper, "padding": padding})


def _pool(kind: str) -> Callable[[Node], Told]:
    def told(node: Node) -> Told:
        window = list(node.attributes["kernel_shape"])
        padding = _symmetric(node, len(window))
        if padding is None or any(step != 1 for step in node.attributes.get("dilations", ())):
            return UNTOLD
        stride = node.attributes.get("strides", [1] * len(window))
        hyper = {
            "kernel_size": window,
            "stride": stride,
            "padding": padding,
            "ceil_mode": bool(node.attributes.get("ceil_mode", 0)),
        }
        if kind == "avg_pool":
            hyper["count_include_pad"] = bool(node.attributes.get("count_include_pad", 0))
        return f"{kind}{len(window)}d", hyper

    return told


def _gemm(node: Node) -> Told:
    plain = node.attributes.get("alpha", 1.0) == 1 == node.attributes.get("beta", 1.0)
    right = plain and not node.attributes.get("transA", 0) and node.attributes.get("transB", 0)
    return ("linear", {}) if right and node.constants[1] is not None else UNTOLD


def _layer_norm(node: Node) -> Told:
    weight = node.constants[1]
    if weight is None:
        return UNTOLD
    return "layer_norm", {"normalized_shape": list(weight.shape), "eps": node.attributes.get("epsilon", 1e-5)}


def _gelu(node: Node) -> Told:
    return "gelu", {"approximate": node.attributes.get("approximate", b"none").decode()}


def _flatten(node: Node) -> Told:
    return ("flatten", {"start_dim": 1}) if node.attributes.get("axis", 1) == 1 else UNTOLD


def _reshape(node: Node) -> Told:
    shape = node.constants[1]
    if shape is None or 0 in shape[1:]:
        return UNTOLD
    sizes = [int(n) for n in shape]
    return "reshape", {"shape": sizes if -1 in sizes[1:] else [-1, *sizes[1:]]}


def _plain(kind: str, **renamed: str) -> Callable[[Node], Told]:
    return lambda node: (
        kind,
        {mine: node.attributes[theirs] for mine, theirs in renamed.items() if theirs in node.attributes},
    )


OPERATIONS: dict[str, Callable[[Node], Told]] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "LayerNormalization": _layer_norm,
    "MaxPool": _pool("max_pool"),
    "AveragePool": _pool("avg_pool"),
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Transpose": _plain("permute", dims="perm"),
    "Concat": _plain("cat", dim="axis"),
    "Softmax": lambda node: ("softmax", {"dim": node.attributes.get("axis", -1)}),
    "LogSoftmax": lambda node: ("log_softmax", {"dim": node.attributes.get("axis", -1)}),
    "LeakyRelu": lambda node: ("leaky_relu", {"negative_slope": node.attributes.get("alpha", 0.01)}),
    "Elu": lambda node: ("elu", {"alpha": node.attributes.get("alpha", 1.0)}),
    "Gelu": _gelu,
    **{
        op: _plain(op.lower())
        for op in ("Relu", "Sigmoid", "Tanh", "Add", "Sub", "Mul", "Div", "Exp", "Log", "Sqrt", "Erf", "Neg")
    },
    "Identity": _plain("identity"),
}
PARAMETERS = {"Conv": ("weight", "bias"), "Gemm": ("weight", "bias"), "LayerNormalization": ("weight", "bias")}


def load_onnx(path: str) -> Manifest:
    """The layers of a model. What has no kind here is a probe all the same, and compared without being derived."""
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ImportError:
        raise MissingToolError(f"{path}: reading ONNX needs the package onnx (pip install 'backproof[onnx]')") from None
    try:
        model = onnx.load(path, load_external_data=False)
        onnx.checker.check_model(model)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # noqa: BLE001 # the package has errors of several kinds for what is no model
        raise InputError(f"{path}: not an ONNX model: {str(error).splitlines()[0][:200]}") from None
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer if not one.external_data}
    for node in model.graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    made = {one.name: INPUT for one in model.graph.input if one.name not in constants}
    probes: list[Probe] = []
    names: dict[str, int] = {}
    for node in model.graph.node:
        if node.op_type == "Constant":
            continue
        given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        told = Node(node.op_type, given, tuple(constants.get(name) for name in node.input))
        kind, hyper = OPERATIONS[node.op_type](told) if node.op_type in OPERATIONS else UNTOLD
        name = _unique(_name(node, constants), names)
        parents = tuple(made.get(one, INPUT) for one in node.input if one not in constants and one)
        held = PARAMETERS.get(node.op_type, ()) if kind else ()
        probes.append(Probe(name, parents, kind, hyper, held[: sum(one in constants for one in node.input)]))
        made.update(dict.fromkeys(node.output, name))
    if not probes:
        raise InputError(f"{path}: the model has no nodes")
    return Manifest(probes=tuple(probes))


def _name(node: Any, constants: Mapping[str, Any]) -> str:
    """`conv1` of the weight `conv1.weight`; else of the node `/conv1/Conv`; else the node's own name, or its output's."""
    for one in node.input:
        if one in constants and one.endswith((".weight", ".bias")):
            return str(one.rpartition(".")[0])
    scope = re.fullmatch(r"/?(.+)/[^/]+", node.name or "")
    return scope[1].replace("/", ".") if scope else str(node.name or node.output[0])


def _unique(name: str, seen: dict[str, int]) -> str:
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else f"{name}#{seen[name]}"
