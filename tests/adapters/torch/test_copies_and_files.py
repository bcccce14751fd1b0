"""Within a step, models are copied, saved, printed and looked at as ever: nothing of the recorder hangs on them."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 # PyTorch's own name for it

import backproof.torch as bpt
from backproof.diagnose import verify


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def recorded(model, out, within):
    """One step, in which something is done with the model between the backward pass and the update."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bpt.Recorder(model, optimizer, out=out) as recorder, recorder.step():
        F.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 3, (6,))).backward()
        result = within(model)
        optimizer.step()
    verdict = verify(out).to_json()
    assert verdict["verdict"] == "holds"
    assert verdict["steps"][0]["not_checked"] == []
    return result


def test_a_copy_of_a_model_is_a_model_of_its_own(model, tmp_path):
    twin = recorded(model, tmp_path / "run", copy.deepcopy)

    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in twin.modules())
    assert [p.shape for p in twin.parameters()] == [p.shape for p in model.parameters()]
    twin.eval()(torch.randn(2, 4))


def test_a_model_can_be_saved_whole_and_loaded(model, tmp_path):
    file = tmp_path / "model.pt"

    recorded(model, tmp_path / "run", lambda model: torch.save(model, file))

    assert b"backproof" not in file.read_bytes()
    torch.load(file, weights_only=False).eval()(torch.randn(2, 4))


def test_parameters_can_be_printed_pickled_and_read(model, tmp_path):
    def look(model):
        weight = model[0].weight
        return repr(model), str(weight), pickle.dumps(weight), weight.tolist(), weight.detach().numpy().copy()

    text, *_, array = recorded(model, tmp_path / "run", look)

    assert "Linear" in text
    assert isinstance(array, np.ndarray)


def test_a_moving_average_of_the_weights_is_no_part_of_the_step(model, tmp_path):
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))

    recorded(model, tmp_path / "run", average.update_parameters)


def test_an_evaluation_within_a_step_leaves_no_hook_and_changes_nothing(model, tmp_path):
    def evaluate(model):
        model.eval()
        with torch.no_grad():
            found = model(torch.randn(5, 4)).argmax(1).tolist()
        model.train()
        return found

    assert len(recorded(model, tmp_path / "run", evaluate)) == 5
    assert not nn.modules.module._global_forward_hooks
    assert not nn.modules.module._global_forward_pre_hooks
