"""The PyTorch helper observes, refuses what it does not know, and changes no bit of the training."""

import io
import json
import math
import uuid
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its helper cannot be tried")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from backproof.adapters.classic.pytorch_helper import (  # noqa: E402
    HelperError,
    HelperUnsupportedError,
    TraceDumper,
)
from backproof.receipt import sidecar_deviations  # noqa: E402

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.5),
    "coupled decay": lambda p: torch.optim.SGD(p, lr=0.5, weight_decay=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9),
    "momentum and decay": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9, nesterov=True),
    "dampening": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9, dampening=0.3),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
}
DTYPES = {"float64": torch.float64, "float32": torch.float32}
X, Y = [0.05, 0.10], [0.01, 0.99]


def half_squared_error(output, target):
    return 0.5 * ((output - target) ** 2).sum()


def network(dtype=torch.float64, hidden=None, output=None, sizes=(2, 2, 2), bias=True):
    torch.manual_seed(3)
    first, second = nn.Linear(*sizes[:2], bias=bias), nn.Linear(*sizes[1:], bias=bias)
    return nn.Sequential(first, hidden or nn.Sigmoid(), second, output or nn.Sigmoid()).to(dtype)


class Net(nn.Module):
    """Two layers with whatever functions between and behind them."""

    def __init__(self, hidden, output=torch.sigmoid):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second = nn.Linear(2, 3).double(), nn.Linear(3, 2).double()
        self.hidden, self.output = hidden, output

    def forward(self, x):
        return self.output(self.second(self.hidden(self.first(x))))


def train(model, optimizer, steps=1, x=X, y=Y, loss_fn=half_squared_error, around=None, **said):
    """Some steps; with `around`, a dumper, each is recorded. Gives the sidecars."""
    dtype = next(model.parameters()).dtype
    inputs, targets = torch.tensor(x, dtype=dtype), torch.as_tensor(y)
    targets = targets.to(dtype) if targets.is_floating_point() else targets
    for _ in range(steps):

        def step():
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()

        if around is None:
            step()
        else:
            with around.step(**({"inputs": inputs, "targets": targets} | said)):
                step()


def record(model, optimizer, steps=1, loss="half_squared_error", trace_id=None, **named):
    stream = io.StringIO()
    loss_fn = named.get("loss_fn", half_squared_error)
    dumper = TraceDumper(model, optimizer, loss_fn, out=stream, topology_loss=loss, trace_id=trace_id)
    train(model, optimizer, steps, around=dumper, **named)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_recorded_and_unrecorded_training_are_bitwise_equal(name, dtype):
    plain, recorded = network(DTYPES[dtype]), network(DTYPES[dtype])
    optimizers = [OPTIMIZERS[name](model.parameters()) for model in (plain, recorded)]

    train(plain, optimizers[0], steps=4)
    record(recorded, optimizers[1], steps=4)

    for a, b in zip(plain.parameters(), recorded.parameters(), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a.grad, b.grad)
        states = optimizers[0].state[a], optimizers[1].state[b]
        assert states[0].keys() == states[1].keys()
        assert all(torch.equal(states[0][k], states[1][k]) for k in states[0] if states[0][k] is not None)
    assert not any(module._forward_hooks for module in recorded.modules())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_sidecar_is_valid_and_says_what_the_framework_computed(name, dtype):
    model = network(DTYPES[dtype])

    sidecars = record(model, OPTIMIZERS[name](model.parameters()), steps=3, trace_id=uuid.uuid4().hex)

    assert [s["step_index"] for s in sidecars] == [0, 1, 2]
    for before, after in pairwise(sidecars):
        assert before["parameters_after"] == after["parameters_before"]
    for sidecar in sidecars:
        assert sidecar_deviations(sidecar) == []
        decayed = "decay" in name
        assert sidecar["format"] == f"framework-trace.v0.{8 if decayed else 7}.0"
    last = sidecars[-1]["parameters_after"]
    assert last["w_i2_h1"] == model[0].weight[0, 1].item()
    assert last["b_o2"] == model[2].bias[1].item()
    entry = next(u for u in sidecars[-1]["updates"] if u["parameter_id"] == "w_h2_o1")
    assert entry["gradient"] == -model[2].weight.grad[0, 1].item()


def test_the_signals_are_the_frameworks_own_and_not_derived_from_the_forward_pass():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(out := torch.sigmoid(x))
            return out

        @staticmethod
        def backward(ctx, gradient):
            (out,) = ctx.saved_tensors
            return gradient * out * (1 - out) * 3.0

    model = Net(Wrong.apply)

    (sidecar,) = record(model, sgd(model))

    signal = sidecar["backward"]["hidden_error_signals"]["h1"]
    product = signal["backpropagated_sum"] * signal["activation_derivative"]
    assert signal["signal_value"] == pytest.approx(3.0 * product, rel=1e-12)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (torch.sigmoid, "sigmoid"),
        (F.relu, "relu"),
        (lambda x: x, "identity"),
        (lambda x: 1 / (1 + torch.exp(-x)), "sigmoid"),
        (lambda x: x.unsqueeze(0).relu().squeeze(0), "relu"),
    ],
)
def test_functional_activations_are_recognised_by_what_they_did(function, name):
    model = Net(function)

    (sidecar,) = record(model, sgd(model))

    assert sidecar["topology"]["activation_hidden"] == name


def test_an_activation_in_place_is_seen_in_a_batch_and_refused_where_it_hides():
    model = Net(nn.ReLU(inplace=True))

    (sidecar,) = record(model, sgd(model), x=[X], y=[Y])

    assert sidecar["topology"]["activation_hidden"] == "relu"
    with pytest.raises(HelperUnsupportedError, match="inplace=True"):
        record(model, sgd(model))


@pytest.mark.parametrize(
    "function",
    [
        torch.tanh, F.gelu, F.silu, F.elu, F.softplus, F.hardsigmoid, F.relu6, F.leaky_relu, F.celu,
        lambda x: F.dropout(x, 0.5), lambda x: 2 * torch.sigmoid(x),
        lambda x: torch.softmax(x, -1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_an_unknown_activation_is_refused_even_where_it_looks_like_a_known_one(function, shift):
    model = Net(function)
    with torch.no_grad():
        model.first.bias += shift  # every net positive: relu, leaky relu and identity agree there

    with pytest.raises(HelperUnsupportedError, match=r"backproof\.torch\.Recorder"):
        record(model, sgd(model))


def test_nothing_is_written_when_the_block_raises_and_the_next_step_has_its_number():
    model, stream = network(), io.StringIO()
    optimizer = sgd(model)
    dumper = TraceDumper(model, optimizer, half_squared_error, out=stream, trace_id="a" * 32)

    def interrupted():
        with dumper.step(inputs=X, targets=Y):
            train(model, optimizer)
            raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError, match="the user's own"):
        interrupted()
    assert stream.getvalue() == ""
    train(model, optimizer, around=dumper)

    assert json.loads(stream.getvalue())["step_index"] == 0


def test_t_and_the_learning_rate_are_read_from_the_optimizer():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train(model, optimizer, steps=7)
    optimizer.param_groups[0]["lr"] = 0.002

    (sidecar,) = record(model, optimizer)

    assert sidecar["optimizer"]["t"] == 8
    assert sidecar["learning_rate"] == sidecar["optimizer"]["learning_rate"] == 0.002
    assert {u["optimizer"]["learning_rate"] for u in sidecar["updates"]} == {0.002}
    assert all(u["optimizer"]["state_before"]["v"] > 0.0 for u in sidecar["updates"])


def test_a_momentum_buffer_is_dampened_from_the_second_gradient_on_as_pytorch_does():
    model = network()
    first, second, third = record(model, OPTIMIZERS["dampening"](model.parameters()), steps=3)

    assert "dampening" not in first["optimizer"]
    assert second["optimizer"]["dampening"] == third["optimizer"]["dampening"] == 0.3
    for sidecar in (first, second, third):
        kept = 1.0 - sidecar["optimizer"].get("dampening", 0.0)
        for update in sidecar["updates"]:
            before, after = (update["optimizer"][k]["buffer"] for k in ("state_before", "state_after"))
            assert after == pytest.approx(0.9 * before + kept * update["gradient"], rel=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_batch_is_recorded_with_its_samples_and_its_reduction(reduction):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 4)).double()
    x = torch.randn(5, 9, dtype=torch.float64).tolist()

    (sidecar,) = record(
        model, sgd(model), x=x, y=[2, 0, 1, 3, 1], loss="cross_entropy_softmax",
        loss_fn=nn.CrossEntropyLoss(reduction=reduction),
    )  # fmt: skip

    assert sidecar_deviations(sidecar) == []
    assert sidecar["batch"] == {
        "size": 5,
        "sample_order": [f"s{k}" for k in range(5)],
        "reduction": reduction,
    }
    share = 5 if reduction == "mean" else 1
    assert sidecar["loss"]["total"] == pytest.approx(sum(sidecar["loss"]["per_sample"].values()) / share, rel=1e-12)
    signal = sidecar["backward"]["output_error_signals"]["o1"]
    assert signal["signal_value"] == pytest.approx(signal["factors"][0]["value"], rel=1e-12)
    assert sidecar["updates"][0]["optimizer"]["factors"][0]["name"] == "batch_reduced_gradient"


def test_the_softmax_may_be_in_the_model_or_in_the_loss():
    kinds = [
        (nn.Softmax(-1), lambda p, y: -(y * p.log()).sum()),
        (nn.LogSoftmax(-1), lambda p, y: -(y * p).sum()),
    ]
    kinds.append((nn.Identity(), nn.CrossEntropyLoss()))
    found = []
    for output, loss_fn in kinds:
        model = network(output=output)
        (sidecar,) = record(model, sgd(model), y=[1.0, 0.0], loss="cross_entropy_softmax", loss_fn=loss_fn)
        found.append(sidecar["forward"]["o1"]["out"])
        assert sidecar["topology"]["activation_output"] == "softmax"

    assert found == pytest.approx([found[0]] * 3, rel=1e-14)


def test_a_trace_id_given_to_a_step_is_honoured_and_counts_for_itself():
    model, stream = network(), io.StringIO()
    optimizer = sgd(model)
    dumper = TraceDumper(model, optimizer, half_squared_error, out=stream, trace_id="a" * 32)
    for trace_id in (None, "b" * 32, None, "b" * 32):
        train(model, optimizer, around=dumper, trace_id=trace_id)

    said = [(s["trace_id"][0], s["step_index"]) for s in map(json.loads, stream.getvalue().splitlines())]

    assert said == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    with pytest.raises(HelperError, match="32 lower-case"):
        dumper.step(targets=Y, trace_id="run-001")


def test_absent_or_frozen_biases_are_constant():
    for model in (network(bias=False), network()):
        for layer in (model[0], model[2]):
            if layer.bias is not None:
                layer.bias.requires_grad_(False)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)

        (sidecar,) = record(model, optimizer)

        assert sidecar["bias_policy"]["mode"] == "constant"
        assert {u["kind"] for u in sidecar["updates"]} == {"weight"}
        assert sidecar["parameters_before"]["b_h1"] == sidecar["parameters_after"]["b_h1"]


def refused(change):
    """The message with which one change of an honest step is refused."""
    model = network()
    case = {"model": model, "optimizer": sgd(model), "named": {}} | change(model)
    with pytest.raises(HelperUnsupportedError) as error:
        record(case["model"], case["optimizer"], **case["named"])
    return str(error.value)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda m: {"model": nn.Sequential(m, nn.Linear(2, 2).double())}, "3 nn.Linear"),
        (lambda m: {"optimizer": torch.optim.RMSprop(m.parameters())}, "RMSprop"),
        (lambda m: {"optimizer": torch.optim.NAdam(m.parameters())}, "NAdam"),
        (lambda m: {"optimizer": torch.optim.Adam(m.parameters(), amsgrad=True)}, "amsgrad"),
        (lambda m: {"optimizer": torch.optim.SGD(m.parameters(), lr=1.0, maximize=True)}, "maximize"),
        (lambda m: {"optimizer": torch.optim.SGD(m.parameters(), differentiable=True)}, "differentiable"),
        (lambda m: {"optimizer": torch.optim.Adam(m.parameters(), weight_decay=0.1)}, "AdamW"),
        (lambda m: {"optimizer": torch.optim.SGD([{"params": m[k].parameters()} for k in (0, 2)])}, "groups"),
        (lambda m: {"optimizer": torch.optim.SGD(m[2].parameters(), lr=1.0)}, "exactly the two"),
        (lambda _: {"named": {"loss_fn": lambda o, t: ((o - t) ** 2).sum()}}, "differentiated"),
        (lambda _: {"named": {"loss": "hinge"}}, "hinge"),
        (lambda _: {"named": {"loss": "cross_entropy_softmax"}}, "logits or a softmax"),
        (lambda m: {"model": m.half(), "optimizer": torch.optim.SGD(m.parameters(), lr=1.0)}, "float16"),
    ],
)  # fmt: skip
def test_what_a_classic_receipt_cannot_carry_is_refused_by_name(change, names):
    assert names in refused(change)


def recorded(model, optimizer, body):
    with TraceDumper(model, optimizer, half_squared_error, out=io.StringIO()).step(targets=Y):
        body()


def test_accumulated_gradients_closures_and_autocast_are_refused():
    model = network()
    optimizer = sgd(model)
    x, y = torch.tensor(X, dtype=torch.float64), torch.tensor(Y, dtype=torch.float64)

    def backward():
        loss = half_squared_error(model(x), y)
        loss.backward()
        return loss

    def accumulate():
        half_squared_error(model(x), y).backward(retain_graph=True)
        torch.autograd.backward([p.sum() for p in model.parameters()])
        optimizer.step()

    def lower_precision():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half_squared_error(model.float()(x.float()).float(), y.float()).backward()

    with pytest.raises(HelperUnsupportedError, match="backward ran 2 times"):
        recorded(model, optimizer, accumulate)
    with pytest.raises(HelperUnsupportedError, match="closure"):
        recorded(model, optimizer, lambda: optimizer.step(backward))
    with pytest.raises(HelperUnsupportedError, match="ran 2 times in this block"):
        recorded(model, optimizer, lambda: (backward(), backward(), optimizer.step()))
    with pytest.raises(HelperError, match=r"optimizer\.step\(\) ran 0 times"):
        recorded(model, optimizer, backward)
    with pytest.raises(HelperUnsupportedError, match="autocast"):
        recorded(model.float(), sgd(model), lower_precision)


def test_what_is_said_is_compared_with_what_was_seen():
    model = network()
    linear = network(output=nn.Identity())
    with pytest.raises(HelperError, match="was told the inputs"):
        record(model, sgd(model), inputs={"i1": 0.05, "i2": 0.2})
    with pytest.raises(HelperError, match="the units are o1, o2"):
        record(model, sgd(model), targets={"o1": 0.05})
    with pytest.raises(HelperError, match="was told the targets"):
        record(linear, sgd(linear), loss_fn=nn.MSELoss(), targets=[0.5, 0.5])
    with pytest.raises(HelperError, match="needs targets"):
        TraceDumper(model, sgd(model), half_squared_error, out=io.StringIO()).step(inputs=X)


def test_a_loss_module_shows_its_targets():
    model, stream = network(), io.StringIO()
    optimizer, loss = sgd(model), nn.MSELoss()  # the mean over two outputs is the half squared error
    dumper = TraceDumper(model, optimizer, loss, out=stream)

    with dumper.step():
        loss(model(torch.tensor(X).double()), torch.tensor(Y).double()).backward()
        optimizer.step()

    assert json.loads(stream.getvalue())["targets"] == pytest.approx({"o1": 0.01, "o2": 0.99}, rel=1e-7)


def test_a_diverged_step_names_the_number_that_is_not_finite():
    model = network(hidden=nn.Identity(), output=nn.Identity())
    optimizer = torch.optim.SGD(model.parameters(), lr=math.inf)

    with pytest.raises(HelperError, match="learning_rate is not a finite number"):
        record(model, optimizer)


def test_evaluation_under_no_grad_inside_a_step_is_set_aside():
    model, stream = network(), io.StringIO()
    optimizer = sgd(model)
    dumper = TraceDumper(model, optimizer, half_squared_error, out=stream)

    with dumper.step(targets=Y):
        with torch.no_grad():
            model(torch.zeros(3, 2, dtype=torch.float64))
        train(model, optimizer)

    assert json.loads(stream.getvalue())["inputs"] == pytest.approx({"i1": 0.05, "i2": 0.1})
