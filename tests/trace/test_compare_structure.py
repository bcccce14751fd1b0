"""What has no counterpart, another shape, another kind of numbers, or cannot be read: each its own finding, and never a pass."""

import json
import shutil

import numpy as np
import pytest
from mill import Run, grind

from backproof.cli import main
from backproof.errors import InputError, UsageError
from backproof.trace import Event, Manifest, Probe, TraceWriter
from backproof.trace.event import Place
from backproof.verify.traces.compare import Options, compare
from backproof.verify.traces.table import load_layers


def _file(folder, key):
    return folder / "step000" / f"{key}.npy"


def _change(folder, key, change):
    np.save(_file(folder, key), change(np.load(_file(folder, key))))


def _kinds(found):
    return {(one.kind, str(one.place), one.side) for one in found.all_findings}


@pytest.mark.parametrize("whole", [0, 1])
def test_whoever_records_the_whole_batch_both_sides_are_derived(made, tmp_path, whole):
    sides = [made, made]
    sides[whole] = grind(tmp_path / "whole", Run(samples=None))

    found = compare(*sides)

    assert _kinds(found) == set()
    for i in (0, 1):
        assert sum(seen.locals[i] is not None for seen in found.steps[0].seen.values()) > 100


def test_a_copy_agrees(pair):
    found = compare(*pair)

    assert (found.verdict, found.exit_code(strict=True)) == ("agree", 0)
    assert set(found.steps[0].states) == {"equal"}


@pytest.mark.parametrize("side", [0, 1])
def test_a_missing_tensor_is_missing_on_its_side(pair, side):
    _file(pair[side], "conv2.agrad.s001").unlink()

    found = compare(*pair)

    assert found.exit_code(strict=False) == 2
    assert ("missing", "conv2.agrad.s001", "ab"[side]) in _kinds(found)
    assert "though its manifest lists it" in found.first.says


def test_what_both_manifests_list_and_neither_has_is_missing(pair):
    for folder in pair:
        _file(folder, "conv2.agrad.s001").unlink()

    found = compare(*pair)

    assert found.exit_code(strict=False) == 2
    assert ("unlisted", "conv2.agrad.s001", "a") in _kinds(found)


def test_a_missing_layer_is_missing_altogether(pair):
    for path in (pair[1] / "step000").glob("ln1.*"):
        path.unlink()

    found = compare(*pair)

    assert {one.place.column for one in found.all_findings if one.kind == "missing"} >= {"ln1.fwd", "ln1.w_after.bias"}


def test_what_is_known_to_be_missing_may_be(pair):
    for path in (pair[1] / "step000").glob("pool0.agrad.*"):
        path.unlink()

    assert compare(*pair, Options(allow_missing=("pool0.agrad*",))).exit_code(strict=True) == 0
    assert compare(*pair, Options(allow_missing=("pool1.agrad*",))).exit_code(strict=False) == 2


SHAPES = {
    "a leading 1": (lambda x: x[None], "layout", "axes of size 1"),
    "transposed": (lambda x: np.ascontiguousarray(x.T), "layout", "transposed"),
    "flattened": (np.ravel, "layout", "another shape"),
    "cut": (lambda x: x[:-1], "shape", ""),
}


@pytest.mark.parametrize("what", SHAPES)
def test_another_shape_is_told_from_another_layout(pair, what):
    change, kind, hint = SHAPES[what]
    _change(pair[1], "fc.grad_scaled.weight", change)

    found = compare(*pair)

    (one,) = (one for one in found.all_findings if one.kind in ("layout", "shape"))
    assert (one.kind, str(one.place), found.exit_code(strict=False)) == (kind, "fc.grad_scaled.weight", 1)
    assert hint in "".join(one.hints)
    assert "[5, 64]" in one.says


def test_a_permuted_weight_is_recognised(pair):
    _change(pair[1], "conv2.w_before.weight", lambda x: np.ascontiguousarray(x.transpose(2, 0, 1)))

    found = compare(*pair)

    (one,) = (one for one in found.all_findings if one.kind == "layout")
    assert "permuted: the axes of a are [1, 2, 0] of b" in one.hints


@pytest.mark.parametrize("phase", ["w_before", "grad_scaled", "w_after"])
def test_an_update_whose_parts_have_other_shapes_on_both_sides_is_said_not_to_be_checked(pair, phase):
    for folder in pair:
        _change(folder, f"fc.{phase}.weight", lambda x: np.ascontiguousarray(x.T))

    found = compare(*pair)

    for side in "ab":
        because = found.steps[0].unchecked[side][Place("fc", "w_after", "weight")]
        assert "[64, 5]" in because
        assert "[5, 64]" in because


def test_a_state_of_another_shape_does_not_follow(pair):
    for folder in pair:
        _change(folder, "fc.opt_after.weight.momentum_buffer", lambda x: x[:-1])

    found = compare(*pair)

    assert ("bug", "fc.opt_after.weight.momentum_buffer", "both") in _kinds(found)
    assert "[4, 64]" in found.first.says


def test_numbers_of_another_kind_are_a_finding(pair):
    _change(pair[1], "act.fwd.s000", lambda x: x.view(np.int32))

    assert ("dtype", "act.fwd.s000", "") in _kinds(compare(*pair))


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_what_is_not_finite_on_one_side_is_a_finding(pair, number, side):
    def change(x):
        x.ravel()[5] = number
        return x

    _change(pair[side], "act.fwd.s000", change)

    found = compare(*pair)

    assert ("nonfinite", "act.fwd.s000", "ab"[side]) in _kinds(found)
    assert found.exit_code(strict=False) == 1


def test_all_of_it_nan_on_one_side_is_not_a_pass_without_mathematics(tmp_path):
    for side, number in (("a", 1.0), ("b", np.nan)):
        with TraceWriter(tmp_path / side, Manifest()).step(0) as sink:
            sink(Event("x", "fwd", tensor=np.full(3, number, np.float32)))

    assert compare(tmp_path / "a", tmp_path / "b").exit_code(strict=False) == 1


def test_infinity_in_one_place_hides_nothing_elsewhere(tmp_path):
    for side, number in (("a", 1.0), ("b", 2.0)):
        with TraceWriter(tmp_path / side, Manifest()).step(0) as sink:
            sink(Event("x", "fwd", tensor=np.array([np.inf, number], np.float32)))

    found = compare(tmp_path / "a", tmp_path / "b")

    assert found.exit_code(strict=False) == 1
    assert ("both-nonfinite", "x.fwd", "both") in _kinds(found)


def test_a_stale_file_is_a_finding(pair):
    shutil.copy(_file(pair[1], "act.fwd.s003"), _file(pair[1], "act.fwd.s004"))

    found = compare(*pair)

    assert ("stale", "act.fwd.s004", "b") in _kinds(found)
    assert found.exit_code(strict=False) == 2


def test_a_file_that_is_no_tensor_is_said(pair):
    _file(pair[1], "notes").write_bytes(b"x")

    assert any(one.kind == "stale" and "notes" in one.says for one in compare(*pair).all_findings)


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY", b"not numpy at all", None])
def test_what_cannot_be_read_is_a_finding_and_the_rest_is_compared(pair, data):
    path = _file(pair[1], "act.fwd.s000")
    path.write_bytes(path.read_bytes()[:-3] if data is None else data)

    found = compare(*pair)

    assert ("unreadable", "act.fwd.s000", "b") in _kinds(found)
    assert found.exit_code(strict=False) == 2
    assert found.compared > 100


def test_a_missing_step_is_missing(tmp_path):
    grind(tmp_path / "a", Run(steps=2, samples=1))
    grind(tmp_path / "b", Run(steps=1, samples=1))

    found = compare(tmp_path / "a", tmp_path / "b")

    assert found.exit_code(strict=False) == 2
    assert "step 1 was not recorded by b" in [one.says for one in found.all_findings]


def test_nothing_in_common_is_not_a_pass(tmp_path):
    for side in "ab":
        with TraceWriter(tmp_path / side, Manifest()).step(0) as sink:
            sink(Event(side, "fwd", tensor=np.ones(3)))

    found = compare(tmp_path / "a", tmp_path / "b", Options(allow_missing=("*",)))

    assert (found.verdict, found.exit_code(strict=False)) == ("incomplete", 2)


def test_an_empty_folder_is_refused(pair, tmp_path):
    (tmp_path / "empty").mkdir()

    with pytest.raises(InputError, match="no step"):
        compare(pair[0], tmp_path / "empty")


def test_scales_are_taken_into_account(pair):
    """A program that works with a mean loss writes what it has, and says so."""
    for path in (pair[1] / "step000").iterdir():
        if any(f".{phase}" in path.name for phase in ("lossgrad", "agrad", "grad_raw")):
            np.save(path, np.load(path) / np.float32(4))
    manifest = json.loads((pair[1] / "trace.json").read_text())
    (pair[1] / "trace.json").write_text(json.dumps({**manifest, "scale": {"lossgrad": 4, "agrad": 4, "grad_raw": 4}}))

    assert compare(*pair).exit_code(strict=True) == 0

    (pair[1] / "trace.json").write_text(json.dumps(manifest))
    found = compare(*pair)
    assert (found.first.place.column, found.first.side) == ("loss.lossgrad", "b")
    assert "1/4 (the batch)" in found.first.hints[0]


def test_mathematics_told_differently_is_a_finding(pair):
    path = pair[1] / "trace.json"
    path.write_text(path.read_text().replace("1e-05", "0.001"))

    found = compare(*pair)

    assert "ln1: eps is 1e-05 in a, 0.001 in b" in [one.says for one in found.all_findings]
    assert ("bug", "ln1.fwd.s000", "b") in _kinds(found)


def test_a_table_of_layers_overrules_what_the_traces_tell(pair, tmp_path):
    path = pair[1] / "trace.json"
    path.write_text(path.read_text().replace("1e-05", "0.001"))
    table = {key: json.loads((pair[0] / "trace.json").read_text())[key] for key in ("probes", "optimizer", "batch")}
    (tmp_path / "layers.json").write_text(json.dumps(table))

    found = compare(*pair, Options(layers=load_layers(str(tmp_path / "layers.json"))))

    assert found.exit_code(strict=True) == 0
    derived = {str(place): seen.locals for place, seen in found.steps[0].seen.items()}
    assert None not in derived["ln1.fwd.s000"]


@pytest.mark.parametrize(
    "text", ["[", "3", "probes: 3", "probes: [{name: a, parents: [b]}]", "flavour: 1", "a: &x [*x]"]
)
def test_a_table_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "layers.yaml").write_text(text)

    with pytest.raises(InputError, match=r"layers\.yaml"):
        load_layers(str(tmp_path / "layers.yaml"))


TWICE = {
    "yaml": ("probes:\n- name: a\n  kind: relu\n  kind: gelu\n", 4, "kind", 3),
    "json": ('{"probes": [],\n "batch": 4,\n "batch": 8}', 3, "batch", 2),
    "quoted and not": ('batch: 4\n"batch": 4\n', 2, "batch", 1),
    "deep within": ("probes:\n- {name: a, kind: layer_norm,\n   hyper: {eps: 1.0e-5,\n   eps: 1.0e-3}}\n", 4, "eps", 3),
    "behind an anchor": ("notes: &n\n  x: 1\n  x: 2\nprobes: []\n", 3, "x", 2),
    "the same number": ("notes:\n  1: a\n  0x1: b\n", 3, "0x1", 2),
}
ONCE = {
    "the same key in two objects": "probes:\n- {name: a, kind: relu}\n- {name: b, kind: relu, parents: [a]}\n",
    "merged and overruled": "notes: {a: &a {x: 1}, b: &b {<<: *a, x: 2}, c: {<<: *b, x: 3}, d: {<<: [*a, *b]}}\n",
    "an alias": "notes: {a: &a [{x: 1}, {x: 2}], b: *a}\n",
    "text": 'notes: {"1": a, 1: b, a: b, A: b}\n',
}


@pytest.mark.parametrize("ending", ["yaml", "json"])
@pytest.mark.parametrize("name", TWICE)
def test_a_key_that_is_there_twice_is_refused_with_its_line(pair, tmp_path, capsys, name, ending):
    text, line, key, before = TWICE[name]
    (tmp_path / f"layers.{ending}").write_text(text)

    code = main(["compare", *map(str, pair), "--layers", str(tmp_path / f"layers.{ending}")])

    assert code == 2
    assert (
        f"layers.{ending}: line {line}: the key '{key}' is there already, in line {before}" in capsys.readouterr().err
    )


@pytest.mark.parametrize("name", ONCE)
def test_a_key_that_is_there_once_in_each_object_is_read(tmp_path, name):
    (tmp_path / "layers.yaml").write_text(ONCE[name])

    assert load_layers(str(tmp_path / "layers.yaml")) is not None


@pytest.mark.parametrize(
    ("said", "found"),
    [("1e-5", 1e-5), ("1E5", 1e5), ("-2.5e+3", -2500.0), ("1.0e-05", 1e-5), ("'1e-5'", "1e-5"), ("3", 3)],
)
def test_numbers_are_read_as_json_has_them(tmp_path, said, found):
    (tmp_path / "layers.yaml").write_text(f"- {{name: a, kind: layer_norm, hyper: {{eps: {said}}}}}")

    (probe,) = load_layers(str(tmp_path / "layers.yaml")).probes

    assert probe.hyper == {"eps": found}
    assert type(probe.hyper["eps"]) is type(found)


def test_an_unknown_kind_is_compared_and_listed_as_not_derived(pair, tmp_path):
    manifest = json.loads((pair[0] / "trace.json").read_text())
    for probe in manifest["probes"]:
        if probe["name"] == "act":
            probe["kind"] = "swoosh"
    (tmp_path / "layers.json").write_text(json.dumps({"probes": manifest["probes"], "batch": 4}))

    found = compare(*pair, Options(layers=load_layers(str(tmp_path / "layers.json"))))

    assert found.exit_code(strict=False) == 0
    reasons = {str(place): why for place, why in found.steps[0].unchecked["a"].items()}
    assert "'swoosh' is not a kind" in reasons["act.fwd.s000"]
    assert "act" in reasons["conv2.agrad.s000"]


def test_folders_without_manifests_are_compared_in_the_order_given(pair):
    for folder in pair:
        (folder / "trace.json").unlink()
    _change(pair[1], "conv2.agrad.s001", lambda x: -x)

    order = ("pool0", "conv1", "ln1", "relu1", "pool1", "conv2", "act", "sum", "flatten", "mix", "fc")
    found = compare(*pair, Options(order=order))

    assert (str(found.first.place), found.first.by) == ("conv2.agrad.s001", "act")
    assert "to read the one before it" in found.guessed
    assert "natural order" in compare(*pair).guessed


def test_an_order_of_other_names_is_refused(pair):
    for folder in pair:
        (folder / "trace.json").unlink()
    with pytest.raises(UsageError, match="pool0"):
        compare(*pair, Options(order=("x", "y")))


def test_dotted_and_repeated_names_keep_their_order(tmp_path):
    names = [f"h.{i}.attn#{k}" for i in (1, 2, 10) for k in (1, 2)]
    probes = tuple(Probe(name, (names[i - 1],) if i else ("input",)) for i, name in enumerate(names))
    for side in "ab":
        with TraceWriter(tmp_path / side, Manifest(probes=probes)).step(0) as sink:
            for i, name in enumerate(names):
                wrong = side == "b" and i >= 2
                sink(Event(name, "fwd", i, tensor=np.full(3, 1.0 + wrong)))

    found = compare(tmp_path / "a", tmp_path / "b")

    assert [str(one.place) for one in found.all_findings] == ["h.2.attn#1.fwd"]


def test_what_no_bound_speaks_of_is_listed_as_not_derived(pair):
    """Products that overflow: whatever was recorded of them, nothing is known, and that is said."""
    for folder in pair:
        _change(folder, "fc.w_before.weight", lambda w: w * np.float32(1e38))
        _change(folder, "mix.fwd.s000", lambda x: x * np.float32(1e10))

    unchecked = compare(*pair).steps[0].unchecked

    for side in "ab":
        assert "nothing is known of them" in unchecked[side][Place("fc", "fwd", sample=0)]
        assert Place("mix", "fwd", sample=1) not in unchecked[side]
