"""A table of layers from a file: YAML or JSON as people write it, or an ONNX model. What could be read in two ways is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from backproof.errors import InputError
from backproof.trace.manifest import FORMAT, Manifest, from_json
from backproof.verify.traces.onnx_layers import load_onnx

MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """YAML in which a number is one wherever JSON has it so: `1e-5`, which is text in YAML 1.1, is a number in JSON and in 1.2."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def load_layers(path: str) -> Manifest:
    """A table of layers: the keys of a manifest that tell the network, its batch, scales and optimizer. Or an ONNX model."""
    if path.endswith(".onnx"):
        return load_onnx(path)
    try:
        data = _read(path, Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: neither YAML nor JSON: {' '.join(str(error).split())[:200]}") from None
    if isinstance(data, list):
        data = {"probes": data}
    if not isinstance(data, dict):
        raise InputError(f"{path}: a table of layers is a list of probes, or an object with `probes`")
    return from_json({"format": FORMAT, **data}, path)


def _read(path: str, text: str) -> Any:
    """The data of a text. Keys are looked at before there are objects, which would keep the last of two."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _once(path, loader, node, set())
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _once(path: str, loader: _Loader, node: yaml.Node, seen: set[yaml.Node]) -> None:
    """Refuse a key that one object has twice. What is merged in by `<<` is no key of its own, and may be overruled."""
    if node in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(node)  # an alias leads to the same node again, and may lead in circles
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _once(path, loader, item, seen)
        return
    lines: dict[Any, int] = {}
    for key, item in node.value:
        _once(path, loader, item, seen)
        if isinstance(key, yaml.ScalarNode):
            line = key.start_mark.line + 1
            name = key.value if key.tag == MERGE else loader.construct_object(key)
            if name in lines:
                raise InputError(
                    f"{path}: line {line}: the key {str(key.value)[:80]!r} is there already, in line {lines[name]}; "
                    "which of the two holds nobody can tell: leave one out"
                )
            lines[name] = line
