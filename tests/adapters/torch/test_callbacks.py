"""The callbacks of other training loops: every update is a step, with all that it accumulates, and training is not changed."""

import lightning
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 # PyTorch's own name for it
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from backproof import huggingface as hf
from backproof import lightning as pl
from backproof.diagnose import verify
from backproof.torch import BrokenStepError

UPDATES = 3


def trained_by_transformers(folder, *callbacks, optimizer=None):
    torch.manual_seed(0)
    config = GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    tokens = torch.randint(0, 50, (16, 12))
    told = TrainingArguments(
        str(folder),
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        max_steps=UPDATES,
        warmup_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    made = None if optimizer is None else (optimizer(model.parameters()), None)
    data = [{"input_ids": row, "labels": row} for row in tokens]
    more = {} if made is None else {"optimizers": made}
    Trainer(model, told, train_dataset=data, callbacks=list(callbacks), **more).train()
    return model


class Module(lightning.LightningModule):
    def __init__(self, optimizer):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        self.optimizer = optimizer

    def training_step(self, batch, index):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        optimizer = self.optimizer(self.parameters())
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def trained_by_lightning(folder, *callbacks, optimizer=torch.optim.AdamW):
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
    module = Module(optimizer)
    trainer = lightning.Trainer(
        default_root_dir=folder,
        max_steps=UPDATES,
        accumulate_grad_batches=2,
        gradient_clip_val=0.5,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
    )
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=8))
    return module


LOOPS = {"transformers": (trained_by_transformers, hf), "lightning": (trained_by_lightning, pl)}
pytestmark = pytest.mark.filterwarnings("ignore", "error:backproof")  # the loops' own, and not ours


class HalfARate(torch.optim.SGD):
    """It says SGD, and makes half a step."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1)

    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] /= 2
        found = super().step(closure)
        for group in self.param_groups:
            group["lr"] *= 2
        return found


HalfARate.__name__ = HalfARate.__qualname__ = "SGD"
HalfARate.__module__ = "torch.optim.sgd"


@pytest.mark.parametrize("loop", LOOPS)
def test_every_update_is_a_step_that_holds_and_training_is_not_changed(loop, tmp_path):
    train, callbacks = LOOPS[loop]

    plain = train(tmp_path / "plain")
    model = train(tmp_path / "recorded", callbacks.RecorderCallback(tmp_path / "run"))
    verdict = verify(tmp_path / "run").to_json()

    assert verdict["verdict"] == "holds"
    assert len(verdict["steps"]) == UPDATES
    assert all(step["suspect"] == [] for step in verdict["steps"])
    for step in verdict["steps"]:
        assert len([scale for scale in step["scales"] if scale["place"] == "cross_entropy"]) >= 2  # two passes
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_recorder_can_be_told_more(loop, tmp_path):
    train, callbacks = LOOPS[loop]
    told = []

    train(tmp_path / "out", callbacks.RecorderCallback(tmp_path / "run", every=2, prepare=told.append))

    assert [type(each).__name__ for each in told] == ["Recorder"]
    assert sorted(path.name for path in (tmp_path / "run").glob("step*")) == ["step000000", "step000002"]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_watched_loop_stops_at_a_broken_step_and_keeps_it(loop, tmp_path):
    train, callbacks = LOOPS[loop]
    watch = callbacks.WatchCallback(every=1, out=tmp_path / "broken")

    with pytest.raises(BrokenStepError, match="does not hold"):
        train(tmp_path / "out", watch, optimizer=HalfARate)

    assert verify(tmp_path / "broken").to_json()["verdict"] == "broken"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_watched_loop_that_is_honest_leaves_nothing(loop, tmp_path):
    train, callbacks = LOOPS[loop]

    train(tmp_path / "out", callbacks.WatchCallback(every=1, out=tmp_path / "broken"))

    assert not (tmp_path / "broken").exists()
