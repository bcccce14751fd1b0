"""Real training steps of real models: recorded without changing a bit, verified, and found where they are broken."""

import json
import math
import os

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np
import pytest
import torch
import transformers as hf

import backproof.torch as bpt
from backproof.adapters.torch import claims
from backproof.errors import InputError, UsageError
from backproof.verify.run import verify_run

IDS = torch.arange(32).reshape(2, 16) * 7 % 100
TEXT = {"input_ids": IDS, "labels": IDS}
IMAGES = {
    "pixel_values": torch.linspace(-2, 2, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32).sin(),
    "labels": torch.tensor([0, 1]),
}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}

ZOO = {
    "gpt2": (
        lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(
                n_layer=2,
                n_embd=32,
                n_head=4,
                vocab_size=100,
                n_positions=32,
                resid_pdrop=0,
                embd_pdrop=0,
                attn_pdrop=0,
            )
        ),
        TEXT,
    ),
    "llama": (lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, num_key_value_heads=2, vocab_size=100)), TEXT),
    "bert": (
        lambda: hf.BertForMaskedLM(
            hf.BertConfig(**SMALL, vocab_size=100, hidden_dropout_prob=0, attention_probs_dropout_prob=0)
        ),
        TEXT,
    ),
    "vit": (lambda: hf.ViTForImageClassification(hf.ViTConfig(**SMALL, image_size=32, patch_size=8)), IMAGES),
    "resnet": (
        lambda: hf.ResNetForImageClassification(hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])),
        IMAGES,
    ),
}
OPTIMIZERS = {
    "gpt2": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "llama": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "bert": lambda p: torch.optim.Adam(p, lr=1e-3, amsgrad=True),
    "vit": lambda p: torch.optim.RMSprop(p, lr=1e-3),
    "resnet": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4),
}


def train(model, optimizer, inputs, steps, recorder=None):
    from contextlib import nullcontext

    for _ in range(steps):
        with recorder.step() if recorder else nullcontext():
            optimizer.zero_grad()
            model(**inputs).loss.backward()
            optimizer.step()


def built(name):
    torch.manual_seed(0)
    model = ZOO[name][0]().train()
    return model, OPTIMIZERS[name](model.parameters())


def recorded(tmp_path, model, optimizer, step, steps=2):
    with bpt.Recorder(model, optimizer, out=tmp_path / "run") as recorder:
        for _ in range(steps):
            with recorder.step():
                step()
    return list(verify_run(tmp_path / "run"))


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.filterwarnings("ignore")
def test_an_honest_step_of_a_real_model_holds_in_every_equation(name, tmp_path):
    model, optimizer = built(name)
    with bpt.Recorder(model, optimizer, out=tmp_path / "run") as recorder:
        train(model, optimizer, ZOO[name][1], 2, recorder)

    verdicts = list(verify_run(tmp_path / "run"))

    assert [v.verdict for v in verdicts] == ["holds", "holds"], verdicts[0].broken[:3]
    assert [v.not_checked for v in verdicts] == [[], []]
    assert {result.equation for result in verdicts[1].results} >= {"forward", "gradient", "update", "chain"}


@pytest.mark.filterwarnings("ignore")
def test_recording_does_not_change_a_bit_of_the_training(tmp_path):
    plain, first = built("gpt2")
    train(plain, first, TEXT, 3)
    watched, second = built("gpt2")

    with bpt.Recorder(watched, second, out=tmp_path / "run") as recorder:
        train(watched, second, TEXT, 3, recorder)

    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))


# ── planted ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def network(width=16):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, width), torch.nn.LayerNorm(width), torch.nn.GELU(), torch.nn.Linear(width, 3)
    )


def step_of(model, optimizer, x, y, between=lambda: None):
    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        between()
        optimizer.step()

    return step


@pytest.fixture
def data():
    torch.manual_seed(1)
    return torch.randn(12, 8), torch.randint(0, 3, (12,))


def spoiled(name, wrong):
    """Have a function of PyTorch compute something else than its name says."""
    right = getattr(torch.nn.functional, name)

    class Spoiled(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return wrong(func, *args, **(kwargs or {})) if func is right else func(*args, **(kwargs or {}))

    return Spoiled()


def test_a_function_that_computes_something_else_is_broken_at_its_call_and_nowhere_else(data, tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tanh_for_erf = lambda func, x, *_, **__: func(x, approximate="tanh")

    with spoiled("gelu", tanh_for_erf):
        (verdict,) = recorded(tmp_path, model, optimizer, step_of(model, optimizer, *data), steps=1)

    assert verdict.verdict == "broken"
    first = verdict.broken[0]
    assert (first.equation, first.place) == ("forward", "2: gelu")
    assert sum(r.equation == "forward" for r in verdict.broken) == 1


def test_a_wrong_epsilon_is_found(data, tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    other = lambda func, x, shape, weight, bias, eps: func(x, shape, weight, bias, 1e-6)

    with spoiled("layer_norm", other):
        (verdict,) = recorded(tmp_path, model, optimizer, step_of(model, optimizer, *data), steps=1)

    assert (verdict.broken[0].equation, verdict.broken[0].place) == ("forward", "1: layer_norm")


def wrong_adam(optimizer):
    """Adam whose ε stands inside of the root."""

    def step():
        for group in optimizer.param_groups:
            for p in group["params"]:
                state = optimizer.state[p]
                if not state:
                    state.update(step=torch.tensor(0.0), exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                state["exp_avg"].lerp_(p.grad, 0.1)
                state["exp_avg_sq"].mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                t = state["step"].item()
                v = state["exp_avg_sq"] / (1 - 0.999**t)
                p.data.sub_(group["lr"] * (state["exp_avg"] / (1 - 0.9**t)) / (v + 1e-8).sqrt())

    return step


def test_an_optimizer_with_another_rule_is_broken_in_its_updates_and_in_nothing_else(data, tmp_path):
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rule = wrong_adam(optimizer)

    class Planted(torch.optim.Adam):
        @torch.no_grad()
        def step(self, closure=None):
            rule()

    Planted.__module__, Planted.__qualname__ = "torch.optim.adam", "Adam"
    optimizer.__class__ = Planted
    torch.optim.Optimizer._patch_step_function(optimizer)

    verdicts = recorded(tmp_path, model, optimizer, step_of(model, optimizer, *data), steps=2)

    assert verdicts[0].verdict == "broken"
    assert {result.equation for result in verdicts[0].broken} == {"update"}


def test_a_parameter_changed_between_steps_breaks_the_chain(data, tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = step_of(model, optimizer, *data)
    with bpt.Recorder(model, optimizer, out=tmp_path / "run") as recorder:
        with recorder.step():
            step()
        with torch.no_grad():
            model[0].bias += 1e-6
        with recorder.step():
            step()

    first, second = verify_run(tmp_path / "run")

    assert first.verdict == "holds"
    assert [(r.equation, r.place) for r in second.broken] == [("chain", "0.bias")]


def test_a_forged_number_is_found(data, tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorded(tmp_path, model, optimizer, step_of(model, optimizer, *data), steps=1)
    path = tmp_path / "run" / "step000000" / "tensors.safetensors"
    raw = bytearray(path.read_bytes())
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    begin, end = header["u0:after:parameter:0.weight"]["data_offsets"]
    numbers = np.frombuffer(bytes(raw[8 + length + begin : 8 + length + end]), dtype=np.float32).copy()
    numbers[5] *= 1 + 1e-4
    raw[8 + length + begin : 8 + length + end] = numbers.tobytes()
    path.write_bytes(bytes(raw))

    (verdict,) = verify_run(tmp_path / "run")

    assert [(r.equation, r.place, r.at) for r in verdict.broken] == [("update", "0.weight", (0, 5))]


def test_a_step_that_raises_leaves_nothing_behind_and_a_run_is_never_overwritten(data, tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = bpt.Recorder(model, optimizer, out=tmp_path / "run")

    def fails():
        with recorder.step():
            model(data[0])
            raise RuntimeError("the user's own")

    with pytest.raises(RuntimeError, match="own"):
        fails()
    recorder.close()
    assert list((tmp_path / "run").iterdir()) == []

    recorded(tmp_path / "other", model, optimizer, step_of(model, optimizer, *data), steps=1)
    with pytest.raises(InputError, match="already holds"):
        bpt.Recorder(model, optimizer, out=tmp_path / "other" / "run")


def inherited(factor):
    """A class of optimizers whose step makes its parent's step, at another rate."""

    class Inherited(torch.optim.SGD):
        def step(self, closure=None):
            rates = [group["lr"] for group in self.param_groups]
            for group in self.param_groups:
                group["lr"] *= factor
            found = super().step(closure)
            for group, rate in zip(self.param_groups, rates, strict=True):
                group["lr"] = rate
            return found

    Inherited.__name__ = Inherited.__qualname__ = "SGD"
    Inherited.__module__ = "torch.optim.sgd"
    return Inherited


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_step_that_makes_its_parents_step_is_one_update_at_its_own_rate(factor, tmp_path):
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)  # from then on the parent's step has hooks too
    model = torch.nn.Linear(4, 3)
    optimizer = inherited(factor)(model.parameters(), lr=0.1)
    with bpt.Recorder(model, optimizer, out=tmp_path / "run") as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            with recorder.step():
                model(torch.ones(2, 4)).square().sum().backward()
                optimizer.step()
            with pytest.raises(RuntimeError, match="closure"):  # a call that fails is over
                optimizer.step(closure=fails)

    verdicts = list(verify_run(tmp_path / "run"))

    assert [verdict.verdict for verdict in verdicts] == ["holds" if factor == 1.0 else "broken"] * 3
    assert all(verdict.equations["update"] == 2 for verdict in verdicts)


def fails():
    raise RuntimeError("closure")


def test_what_cannot_be_recorded_is_said_at_once(tmp_path):
    model = torch.nn.Linear(1, 1)
    recorder = bpt.Recorder(model, out=tmp_path / "run")
    recorder.close()
    recorder.close()

    with pytest.raises(UsageError, match="the recorder is closed"), recorder.step():
        pass
    with pytest.raises(UsageError, match="a NoneType was given as the model"):
        bpt.Recorder(None, out=tmp_path / "other")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="no run can be recorded there"):
        bpt.Recorder(model, out=tmp_path / "file" / "run")


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, if another test has imported it
def test_processes_that_load_data_record_nothing(tmp_path):
    class Seen(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return float(claims._now.observer.idle)

    model = torch.nn.Linear(1, 1)
    with bpt.Recorder(model, out=tmp_path) as recorder, recorder.step():
        seen = [batch for workers in (0, 2) for batch in torch.utils.data.DataLoader(Seen(), 4, num_workers=workers)]
        model(seen[1].float()[:, None]).sum().backward()

    assert [batch.tolist() for batch in seen] == [[0.0] * 4, [1.0] * 4]


RESTARTS = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts


@pytest.mark.parametrize("forgets", [False, True])
def test_a_schedule_that_is_told_fractions_of_epochs_is_followed(forgets, tmp_path, monkeypatch):
    if forgets:
        monkeypatch.setattr(
            RESTARTS, "get_lr", lambda s: [b * (1 + math.cos(math.pi * int(s.T_cur) / s.T_i)) / 2 for b in s.base_lrs]
        )
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = RESTARTS(optimizer, 2, T_mult=2)
    with bpt.Recorder(model, optimizer, out=tmp_path, scheduler=scheduler) as recorder:
        for epoch in (0.25, 0.75, None, 1.9, 2.0, 7.5, None, None, 3):
            with recorder.step():
                optimizer.zero_grad()
                model(torch.ones(1, 1)).sum().backward()
                optimizer.step()
                scheduler.step(epoch)

    verdicts = list(verify_run(tmp_path))

    wrong = [found.equation for verdict in verdicts for found in verdict.broken]
    assert set(wrong) == ({"schedule"} if forgets else set())
    assert not any(verdict.not_checked for verdict in verdicts)
    assert sum(found.equation == "schedule" for verdict in verdicts for found in verdict.results) == 10


@pytest.mark.parametrize("kind", ["ExponentialLR", "OneCycleLR"])
def test_a_rate_that_is_a_tensor_is_scheduled(kind, tmp_path):
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01))
    given = {"gamma": 0.9} if kind == "ExponentialLR" else {"max_lr": 0.1, "total_steps": 5}
    scheduler = getattr(torch.optim.lr_scheduler, kind)(optimizer, **given)
    with bpt.Recorder(model, optimizer, out=tmp_path, scheduler=scheduler) as recorder:
        for _ in range(3):
            with recorder.step():
                optimizer.zero_grad()
                model(torch.ones(1, 1)).sum().backward()
                optimizer.step()
                scheduler.step()

    for verdict in verify_run(tmp_path):
        assert verdict.verdict == "holds", verdict.broken
        assert not verdict.not_checked
