"""The layers that an ONNX model tells, with which traces that tell nothing are derived all the same."""

import numpy as np
import pytest
from mill import SHAPES, Run, grind
from mistakes import PLANTED

from backproof.errors import InputError
from backproof.verify.traces.compare import Options, compare
from backproof.verify.traces.table import load_layers

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import TensorProto, helper  # noqa: E402 # after the skip


def _model(path, names=None):
    held = [
        helper.make_tensor(f"{probe}.{name}", TensorProto.FLOAT, shape, np.zeros(int(np.prod(shape)), np.float32))
        for (probe, name), shape in SHAPES.items()
    ]
    nodes = [
        helper.make_node("AveragePool", ["x"], ["pool0"], "pool0", kernel_shape=[2], strides=[2]),
        helper.make_node(
            "Conv", ["pool0", "conv1.weight", "conv1.bias"], ["conv1"], "/conv1/Conv", kernel_shape=[3], pads=[1, 1]
        ),
        helper.make_node(
            "LayerNormalization", ["conv1", "ln1.weight", "ln1.bias"], ["ln1"], "/ln1/LN", axis=-2, epsilon=1e-5
        ),
        helper.make_node("Relu", ["ln1"], ["relu1"], "/relu1/Relu"),
        helper.make_node("MaxPool", ["relu1"], ["pool1"], "/pool1/MaxPool", kernel_shape=[2], strides=[2]),
        helper.make_node(
            "Conv", ["pool1", "conv2.weight", "conv2.bias"], ["conv2"], "c", kernel_shape=[3], pads=[1, 1]
        ),
        helper.make_node("Gelu", ["conv2"], ["act"], "/act/Gelu"),
        helper.make_node("Add", ["act", "pool1"], ["sum"], "sum"),
        helper.make_node("Flatten", ["sum"], ["flatten"], "flatten"),
        helper.make_node("Gemm", ["flatten", "mix.weight", "mix.bias"], ["mix"], "m", transB=1),
        helper.make_node("Gemm", ["mix", "fc.weight", "fc.bias"], ["fc"], "f", transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 32])
    y = helper.make_tensor_value_info("fc", TensorProto.FLOAT, ["n", 5])
    graph = helper.make_graph(nodes, "net", [x], [y], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path)
    return str(path)


def test_every_layer_of_the_model_is_told(tmp_path):
    found = load_layers(_model(tmp_path / "net.onnx")).by_name

    assert list(found) == ["pool0", "conv1", "ln1", "relu1", "pool1", "conv2", "act", "sum", "flatten", "mix", "fc"]
    assert found["sum"].parents == ("act", "pool1")
    assert found["ln1"].hyper["normalized_shape"] == [8, 16]
    assert found["conv1"].parameters == ("weight", "bias")
    assert all(probe.kind for probe in found.values())


@pytest.mark.parametrize(
    "name", ["layer norm, epsilon 1e-4", "layer norm backward without the mean", "the last sample left out"]
)
def test_a_mistake_is_blamed_by_the_models_mathematics(tmp_path, name):
    planted = next(planted for planted in PLANTED if planted.name == name)
    good, bad = grind(tmp_path / "a", Run(told=False)), grind(tmp_path / "b", Run(told=False), planted.wrong)
    layers = load_layers(_model(tmp_path / "net.onnx"))

    found = compare(good, bad, Options(layers=layers))

    assert (found.first.place.column, found.first.side) == (planted.first, "b")
    assert compare(good, good, Options(layers=layers)).exit_code(strict=True) == 0


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "x.onnx").write_bytes(b"not a model")
    with pytest.raises(InputError, match=r"x\.onnx"):
        load_layers(str(tmp_path / "x.onnx"))
    with pytest.raises(InputError, match=r"y\.onnx"):
        load_layers(str(tmp_path / "y.onnx"))
