"""Traces that somebody else wrote: what is malformed or leads elsewhere is refused with its place, and nothing outside is read."""

import json
import os
import pickle
import shutil
import struct
import time

import numpy as np
import pytest

from backproof.cli import main
from backproof.trace import Event, Manifest, TraceWriter
from backproof.verify.traces.compare import compare

KEY = "conv2.fwd.s001"
MAGIC = b"\x93NUMPY\x01\x00"


def headed(text, rest=bytes(256)):
    return MAGIC + struct.pack("<H", len(text)) + text + rest


def shaped(shape, descr="'<f4'"):
    return headed(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode())


CONTENTS = {
    "empty": b"",
    "a pickle": pickle.dumps([1]),
    "no version that there is": b"\x93NUMPY\x09\x00" + bytes(90),
    "a header without end": b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFF0) + b" " * 99,
    "a header that is a program": headed(b"__import__('os').abort()\n"),
    "a header of brackets": headed(b"(" * 60000),
    "more numbers than there are": shaped("(99999999999999999999, 8)"),
    "fewer than none": shaped("(-1, 8)"),
    "seventy axes": shaped("(" + "1, " * 70 + ")"),
    "objects": shaped("(32,)", "'|O'"),
    "records": shaped("(32,)", "[('x', '<f4'), ('y', '<f4')]"),
    "text": shaped("(32,)", "'<U1'"),
    "complex numbers": shaped("(32,)", "'<c8'"),
}


@pytest.mark.parametrize("what", CONTENTS)
def test_a_file_that_is_no_tensor_cannot_be_read(pair, what):
    (pair[0] / "step000" / f"{KEY}.npy").write_bytes(CONTENTS[what])

    found = compare(*pair)

    assert [(one.kind, str(one.place), one.side) for one in found.all_findings] == [("unreadable", KEY, "a")]
    assert found.exit_code(strict=False) == 2


def elsewhere(path, tmp_path):
    shutil.move(path, tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")


def in_a_circle(path, _):
    path.unlink()
    path.symlink_to(path)


def pipe(path, _):
    path.unlink()
    os.mkfifo(path)


def folder(path, _):
    path.unlink()
    path.mkdir()


PUT = {"a link out": elsewhere, "a link to itself": in_a_circle, "a pipe": pipe, "a folder": folder}


@pytest.mark.parametrize("what", PUT)
@pytest.mark.parametrize("name", [f"step000/{KEY}.npy", "trace.json"])
def test_what_is_no_file_of_the_trace_is_not_opened(pair, tmp_path, capsys, what, name):
    PUT[what](pair[0] / name, tmp_path)
    began = time.monotonic()

    assert main(["compare", *map(str, pair), "--no-derive"]) == 2

    said = "".join(capsys.readouterr())
    assert "leads out of" in said or "is not a plain file" in said
    assert time.monotonic() - began < 20


def test_a_step_elsewhere_is_not_opened(pair, tmp_path, capsys):
    elsewhere(pair[0] / "step000", tmp_path)

    assert main(["compare", *map(str, pair)]) == 2
    assert "leads out of" in capsys.readouterr().err


def test_a_link_within_the_trace_is_followed(pair):
    for side in pair:
        shutil.move(side / "step000" / f"{KEY}.npy", side / "kept.npy")
        (side / "step000" / f"{KEY}.npy").symlink_to("../kept.npy")

    assert compare(*pair).exit_code(strict=True) == 0


def tensor(**changes):
    return lambda told: told["steps"][0]["tensors"][KEY].update(changes)


TOLD = {
    "a batch beyond counting": (lambda told: told.update(batch=10**30), "batch"),
    "a scale beyond float64": (lambda told: told.update(scale={"agrad": 10**400}), "scale of agrad"),
    "a scale that is no number": (lambda told: told.update(scale={"agrad": float("nan")}), "scale of agrad"),
    "a tensor's scale beyond float64": (tensor(scale=10**400), "finite scale"),
    "a format that there is not": (lambda told: told.update(dtype="x"), "bfloat16"),
    "groups that are none": (lambda told: told["optimizer"].update(groups=5), "groups"),
    "a group without a list": (lambda told: told["optimizer"].update(groups=[{"parameters": 5}]), "groups"),
    "a file outside": (lambda told: told["steps"][0]["tensors"].update({"../../x": {}}), "../../x"),
    "a name's place outside": (lambda told: told["probes"][0].update(key="../x"), "../x"),
    "a format that the file has not": (tensor(dtype="bfloat16"), "bfloat16"),
    "a shape that the file has not": (tensor(shape=[3]), "[3]"),
}


@pytest.mark.parametrize("what", TOLD)
def test_a_manifest_that_tells_what_cannot_be_is_refused_with_its_place(pair, capsys, what):
    change, said = TOLD[what]
    told = json.loads((pair[0] / "trace.json").read_text())
    change(told)
    (pair[0] / "trace.json").write_text(json.dumps(told))

    assert main(["compare", *map(str, pair)]) == 2
    assert said in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("old", "new"), [('"batch": 4', '"batch": 7, "batch": 4'), (f'"{KEY}"', f'"{KEY}": {{}}, "{KEY}"')]
)
def test_what_is_told_twice_is_refused(pair, capsys, old, new):
    text = (pair[0] / "trace.json").read_text()
    assert text.count(old) == 1
    (pair[0] / "trace.json").write_text(text.replace(old, new))

    assert main(["compare", *map(str, pair)]) == 2
    assert "twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "hyper"),
    [("pad", {"pad": [10**10, 10**10]}), ("expand", {"sizes": [10**6, 10**6, 10**6]}), ("repeat", {"repeats": 10**9})],
)
def test_a_layer_that_would_fill_the_memory_is_not_derived(pair, kind, hyper):
    for side in pair:
        told = json.loads((side / "trace.json").read_text())
        told["probes"][3].update(kind=kind, hyper=hyper)
        (side / "trace.json").write_text(json.dumps(told))

    found = compare(*pair)

    assert any(place.probe == "relu1" for place in found.steps[0].unchecked["a"])


def test_numbers_that_a_scale_carries_beyond_float64_are_infinite_and_said(tmp_path):
    for side in "ab":
        with TraceWriter(tmp_path / side, Manifest()).step(0) as sink:
            sink(Event("x", "fwd", tensor=np.full(3, 100, np.int8), scale=1e308))

    found = compare(tmp_path / "a", tmp_path / "b")

    assert [one.kind for one in found.all_findings] == ["both-nonfinite"]
