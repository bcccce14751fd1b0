"""Real dumps: what they hold is found, and what is planted in them too."""

import numpy as np
import pytest
from odt import DUMPS, copied, needs_dumps, told

from backproof.trace import open_trace
from backproof.verify.traces.compare import Options, compare

pytestmark = needs_dumps


def test_the_honest_batch_agrees():
    found = compare(DUMPS / "c" / "batch00", DUMPS / "pt" / "batch00", told())

    assert (found.verdict, found.exit_code(strict=True)) == ("agree", 0)
    assert not found.flips
    assert sum(local is not None for seen in found.steps[0].seen.values() for local in seen.locals) > 300


def test_the_near_tie_is_found_at_its_place_and_explains_everything():
    found = compare(DUMPS / "c" / "batch02", DUMPS / "pt" / "batch02", told())

    assert (found.verdict, found.exit_code(strict=False), found.exit_code(strict=True)) == ("agree", 0, 1)
    (flip,) = found.flips
    (turn,) = flip.turned.turns
    assert (flip.turned.probe, flip.turned.sample, turn.at) == ("pool3", 0, (0, 61, 1))
    assert turn.taken == (4 + 2, 4 + 0)  # positions in the channel: window 1 begins at 4
    assert turn.margin == (pytest.approx(2.98e-7, rel=1e-2), 0.0)
    assert flip.honest
    assert {"relu3.agrad.s000", "conv1.agrad.s000", "ln1.grad_raw.weight", "ln3.w_after.bias"} <= set(flip.explains)
    assert flip.replayed < 1e-5
    assert all(local.verdict != "broken" for seen in found.steps[0].seen.values() for local in seen.locals if local)


def test_what_is_missing_is_said_unless_it_is_known():
    found = compare(DUMPS / "c" / "batch00", DUMPS / "pt" / "batch00", Options(layers=told().layers))

    assert found.exit_code(strict=False) == 2
    assert (found.first.kind, found.first.place.column, found.first.side) == ("missing", "pool0.agrad", "b")
    assert found.first.samples == (0, 1, 2, 3)


def test_other_batches_are_told_apart():
    found = compare(DUMPS / "c" / "batch00", DUMPS / "pt" / "batch02", told())

    assert found.exit_code(strict=False) == 1
    assert found.first.place.column == "pool0.fwd"


@pytest.mark.parametrize("batch", ["batch00", "batch02"])
def test_without_mathematics_only_the_near_tie_differs(batch):
    order = tuple(probe.name for probe in told().layers.probes)

    found = compare(DUMPS / "c" / batch, DUMPS / "pt" / batch, Options(order=order, allow_missing=("pool0.agrad*",)))

    named = [str(finding.place) for finding in found.all_findings if finding.effect == "differs"]
    assert named == ([] if batch == "batch00" else ["relu3.agrad.s000"])


def _change(folder, key, change):
    path = folder / "step000" / f"{key}.npy"
    np.save(path, change(np.load(path)))


def _each(*keys):
    return [f"{key}.s{sample:03d}" for key in keys for sample in range(4)]


# What is changed in the C side's files: (files, change), and what must be named first. Nothing after it is recomputed, so that
# what it is made into does not follow either: the first is what counts.
CHANGES = {
    "gradient of ln2 doubled": (_each("ln2.agrad"), lambda x: 2 * x, "ln2.agrad"),
    "sign of ln3": (_each("ln3.fwd"), lambda x: -x, "ln3.fwd"),
    "conv3 of zeros": (_each("conv3.fwd"), lambda x: 0 * x, "conv3.fwd"),
    "one tenth more in fc's bias gradient": (["fc.grad_raw.bias"], lambda x: x * np.float32(1.1), "fc.grad_raw.bias"),
    "0.05 % of a small gradient": (_each("conv1.agrad"), lambda x: x * np.float32(1.0005), "conv1.agrad"),
    "NaN in conv2": (_each("conv2.fwd"), lambda x: x * np.float32(np.nan), "conv2.fwd"),
    "conv3's weight 2 % larger": (["conv3.w_before.weight"], lambda x: x * np.float32(1.02), "conv3.w_before.weight"),
    "learning rate 5 % larger": (["conv1.w_after.weight"], lambda x: x - np.float32(2.5e-4), "conv1.w_after.weight"),
    "scaled by 31": (["fc.grad_scaled.weight"], lambda x: x * np.float32(32 / 31), "fc.grad_scaled.weight"),
    "a leading 1": (["ln1.w_before.weight"], lambda x: x[None], "ln1.w_before.weight"),
    "transposed": (["fc.w_before.weight"], lambda x: np.ascontiguousarray(x.T), "fc.w_before.weight"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_changed_is_named_first(tmp_path, name):
    keys, change, first = CHANGES[name]
    c, pt = copied(tmp_path)
    for key in keys:
        _change(c, key, change)

    found = compare(c, pt, told())

    assert found.exit_code(strict=False) == 1
    assert found.first.place.column == first
    assert found.first.side in ("a", "")


def test_a_decision_with_a_wide_margin_is_a_bug(tmp_path):
    """The gradient of one window goes to an element that is not the largest."""
    c, pt = copied(tmp_path)
    step = open_trace(c).steps[0]
    x, g = (
        np.array(step.tensor(place))
        for place in sorted(step.places)
        if str(place) in ("relu3.fwd.s001", "relu3.agrad.s001")
    )
    if x.min() < 0:
        x, g = g, x
    channel, at = next((int(ch), int(p)) for _, ch, p in np.argwhere((g != 0) & (x > 0.5)))
    other = at // 4 * 4 + (at + 1) % 4
    g[0, channel, [at, other]] = g[0, channel, [other, at]]
    np.save(c / "step000" / "relu3.agrad.s001.npy", g)

    found = compare(c, pt, told())

    assert (found.first.kind, str(found.first.place), found.first.side) == ("bug", "relu3.agrad.s001", "a")
    assert found.first.by == "pool3"


def test_a_flip_does_not_hide_what_is_wrong_before_it(tmp_path):
    c, pt = copied(tmp_path, "batch02")
    _change(c, "ln2.agrad.s000", lambda x: x * np.float32(1.001))

    found = compare(c, pt, told())

    assert (found.first.place.column, found.first.side) == ("ln2.agrad", "a")


def test_an_undumped_sample_may_explain_all_behind_a_decision_and_nothing_else(tmp_path):
    behind = [
        f"{layer}.{kind}.{name}" for layer in ("conv1", "ln1") for kind in ("grad_raw",) for name in ("weight", "bias")
    ]
    c, pt = copied(tmp_path)
    rng = np.random.default_rng(0)
    for key in behind:
        _change(c, key, lambda x: (x + 0.01 * np.abs(x).max() * rng.standard_normal(x.shape)).astype(np.float32))
        scaled = key.replace("grad_raw", "grad_scaled")
        np.save(c / "step000" / f"{scaled}.npy", np.load(c / "step000" / f"{key}.npy") / np.float32(32))
        w = np.load(c / "step000" / f"{key.replace('grad_raw', 'w_before')}.npy")
        after = w - np.float32(0.005) * np.load(c / "step000" / f"{scaled}.npy")
        np.save(c / "step000" / f"{key.replace('grad_raw', 'w_after')}.npy", after)

    found = compare(c, pt, told())

    assert (found.verdict, found.exit_code(strict=False), found.exit_code(strict=True)) == ("undecided", 0, 1)
    assert {str(one.place) for one in found.undecided} == set(behind)
    assert "not recorded" in found.undecided[0].because


def test_what_no_decision_explains_is_a_finding(tmp_path):
    c, pt = copied(tmp_path)
    rng = np.random.default_rng(0)
    _change(
        c,
        "ln2.grad_raw.weight",
        lambda x: (x + 0.01 * np.abs(x).max() * rng.standard_normal(x.shape)).astype(np.float32),
    )
    _change(
        c,
        "fc.grad_raw.weight",
        lambda x: (x + 0.01 * np.abs(x).max() * rng.standard_normal(x.shape)).astype(np.float32),
    )

    found = compare(c, pt, told())

    assert found.exit_code(strict=False) == 1
    named = [finding.place.column for finding in found.all_findings if finding.kind == "differs"]
    assert named == ["fc.grad_raw.weight", "ln2.grad_raw.weight"]
