"""The format of traces: written, read again, and refused where it is not one."""

import json
import os

import numpy as np
import pytest

from backproof.errors import InputError, UsageError
from backproof.trace import (
    Event,
    Manifest,
    MemorySink,
    NpySink,
    Place,
    Probe,
    StatisticsSink,
    Tee,
    TraceWriter,
    open_trace,
)
from backproof.trace.event import encoded, key_of, parse

HOSTILE = [
    "../x",
    "/etc/passwd",
    "..",
    ".",
    "-rf",
    "a\\b",
    "a\0b",
    "con:1",
    "x.part",
    "é",
    "  ",
    "n" * 400,
    "~root",
    "a.",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_stays_in_the_folder_and_is_read_again(tmp_path, name):
    writer = TraceWriter(tmp_path / "t", Manifest(probes=(Probe(name),)))
    with writer.step(0) as sink:
        sink(Event(name, "fwd", tensor=np.ones(3, np.float32), sample=7))

    trace = open_trace(tmp_path / "t")

    assert list(tmp_path.iterdir()) == [tmp_path / "t"]
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == ["step000", "trace.json"]
    assert list(trace.steps[0].keys.values()) == [Place(name, "fwd", sample=7)]


@pytest.mark.parametrize("store", ["npy", "safetensors"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_numbers_come_back_as_they_were(tmp_path, store, dtype):
    given = np.arange(12).reshape(3, 4).T.astype(dtype)
    with TraceWriter(tmp_path, Manifest(store=store)).step(2) as sink:
        sink(Event("a", "fwd", tensor=given))
        sink(Event("b", "fwd", tensor=given[:0]))

    step = open_trace(tmp_path).steps[2]

    assert step.tensor(Place("a", "fwd")).dtype == dtype
    assert np.array_equal(step.tensor(Place("a", "fwd")), given)
    assert step.tensor(Place("b", "fwd")).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "bool", ">f4"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 4), (40, 300)])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("system", ["takes all at once", "takes a part", "takes one thing at a time"])
def test_a_file_is_byte_for_byte_what_numpy_writes(tmp_path, monkeypatch, dtype, shape, together, system):
    if system == "takes a part":
        monkeypatch.setattr(os, "writev", lambda file, parts: os.write(file, parts[0][:40]))
    elif system == "takes one thing at a time":
        monkeypatch.delattr(os, "writev", raising=False)
    given = (np.arange(np.prod(shape)) % 2).reshape(shape).astype(dtype)
    sink = NpySink(tmp_path / "t", together=together)

    sink(Event("a", "fwd", tensor=given))

    np.save(tmp_path / "a", given.astype(given.dtype.newbyteorder("<")))
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["a.fwd.npy"]
    assert (tmp_path / "t" / "a.fwd.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()


HELD = {
    "the same": (np.float32([1, np.nan, 0]), True),
    "another number": (np.float32([2, np.nan, 0]), False),
    "the other zero": (np.float32([1, np.nan, -0.0]), False),
    "another shape": (np.float32([[1, np.nan, 0]]), False),
    "another format": (np.float64([1, np.nan, 0]), False),
    "the same, spread out": (np.repeat(np.float32([1, np.nan, 0]), 2)[::2], True),
}


@pytest.mark.parametrize("store", ["npy", "safetensors"])
@pytest.mark.parametrize("name", HELD)
def test_a_step_knows_which_numbers_it_holds_and_the_last_count(tmp_path, store, name):
    given, held = HELD[name]
    with TraceWriter(tmp_path, Manifest(store=store)).step(0) as sink:
        sink(Event("a", "grad_raw", parameter="w", tensor=np.ones((5, 5))))
        sink(Event("a", "grad_raw", parameter="w", tensor=np.float32([1, np.nan, 0]), again=True))
        assert sink.holds(Event("a", "grad_raw", parameter="w", tensor=given)) == held

    found = open_trace(tmp_path).steps[0].tensor(Place("a", "grad_raw", "w"))
    assert np.array_equal(found, np.float32([1, np.nan, 0]), equal_nan=True)


@pytest.mark.parametrize("store", ["npy", "safetensors"])
def test_bfloat16_and_quantised_numbers_are_what_they_stand_for(tmp_path, store):
    bits = (np.array([1.0, -2.5], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    with TraceWriter(tmp_path, Manifest(store=store)).step(0) as sink:
        sink(Event("half", "fwd", tensor=bits, dtype="bfloat16"))
        sink(Event("small", "fwd", tensor=np.array([-3, 5], np.int8), scale=0.5, zero_point=1))

    step = open_trace(tmp_path).steps[0]

    assert step.tensor(Place("half", "fwd")).tolist() == [1.0, -2.5]
    assert step.dtype(Place("half", "fwd")) == "bfloat16"
    assert step.tensor(Place("small", "fwd")).tolist() == [-2.0, 2.0]


def test_a_name_that_looks_like_a_phase_is_told_by_the_manifest():
    assert parse("net.fwd.fwd") == Place("net.fwd", "fwd")
    assert parse("a.w_before.b.w_before.c") == Place("a.w_before.b", "w_before", "c")
    assert parse("a.w_before.b.w_before.c", {"a": "a"}) == Place("a", "w_before", "b.w_before.c")
    assert parse("conv1.grad_raw.weight") == Place("conv1", "grad_raw", "weight")
    assert parse("h.0.attn#2.fwd.s1234") == Place("h.0.attn#2", "fwd", sample=1234)


def test_two_long_names_are_told_apart():
    assert encoded("n" * 400) != encoded("n" * 401)
    assert len(key_of("é" * 400, "grad_scaled", "ü" * 400, 999999999).encode()) < 250


def test_a_step_that_fails_leaves_the_whole_steps_only(tmp_path):
    writer = TraceWriter(tmp_path, Manifest())
    with writer.step(0) as sink:
        sink(Event("a", "fwd", tensor=np.ones(1)))
    with pytest.raises(InputError, match="name#2"), writer.step(1) as sink:
        _twice(sink)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["step000", "trace.json"]
    assert list(open_trace(tmp_path).steps) == [0]


def test_a_step_replaces_what_another_run_left(tmp_path):
    for samples in (3, 1):
        with TraceWriter(tmp_path, Manifest()).step(0) as sink:
            for sample in range(samples):
                sink(Event("a", "fwd", sample=sample, tensor=np.ones(1)))

    assert list(open_trace(tmp_path).steps[0].keys) == ["a.fwd.s000"]


def test_sinks_side_by_side_see_the_same():
    memory, statistics = MemorySink(), StatisticsSink()
    Tee(memory, statistics)(Event("a", "agrad", tensor=np.array([3.0, -4.0, np.nan])))

    assert memory.tensors["a.agrad"].shape == (3,)
    assert statistics.found["a.agrad"].norm == 5.0
    assert statistics.found["a.agrad"].nans == 1


def test_the_same_place_twice_is_refused(tmp_path):
    with pytest.raises(InputError, match="name#2"), TraceWriter(tmp_path, Manifest()).step(0) as sink:
        _twice(sink)


def _twice(sink):
    sink(Event("a", "fwd", tensor=np.ones(1)))
    sink(Event("a", "fwd", tensor=np.ones(1)))


def test_a_step_is_written_once(tmp_path):
    writer = TraceWriter(tmp_path, Manifest())
    with writer.step(0):
        pass
    with pytest.raises(UsageError), writer.step(0):
        pass


def _written(folder):
    with TraceWriter(folder, Manifest(batch=2, probes=(Probe("a", ("input",), "relu"),))).step(0) as sink:
        sink(Event("a", "fwd", tensor=np.ones((2, 3), np.float32)))
    return folder


def test_a_folder_without_a_manifest_is_a_trace(tmp_path):
    (_written(tmp_path) / "trace.json").unlink()

    trace = open_trace(tmp_path)

    assert trace.manifest is None
    assert list(trace.steps[0].keys) == ["a.fwd"]
    assert list(open_trace(tmp_path / "step000").steps[0].keys) == ["a.fwd"]


BROKEN = {
    "format": ("format", "backproof.trace.v9"),
    "unknown key": ("flavour", 1),
    "store": ("store", "pickle"),
    "batch": ("batch", 0),
    "batch as a truth value": ("batch", True),
    "samples": ("samples", [0, -1]),
    "scale of no phase": ("scale", {"fw": 2}),
    "scale nan": ("scale", {"agrad": float("nan")}),
    "a reader before": ("probes", [{"name": "a", "parents": ["b"]}, {"name": "b"}]),
    "a name twice": ("probes", [{"name": "a"}, {"name": "a"}]),
    "a wrong key": ("probes", [{"name": "a/b", "key": "a"}]),
    "steps": ("steps", [{"index": -1}]),
    "tensors": ("steps", [{"index": 0, "tensors": {"a.fwd": {"shape": "3"}}}]),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_manifest_that_is_not_one_is_refused_with_its_place(tmp_path, what):
    path = _written(tmp_path) / "trace.json"
    key, value = BROKEN[what]
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))

    with pytest.raises(InputError, match=r"trace\.json"):
        open_trace(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:20],
        lambda data: b"",
        lambda data: data.replace(b"'<f4'", b"'|O8'"),
        lambda data: data.replace(b"(2, 3)", b"(2,-3)"),
        lambda data: data.replace(b"(2, 3)", b"(9, 9)"),
        lambda data: data.replace(b"'shape'", b"'shope'"),
    ],
)
def test_a_file_that_is_not_one_is_refused_with_its_path(tmp_path, change):
    path = _written(tmp_path) / "step000" / "a.fwd.npy"
    path.write_bytes(change(path.read_bytes()))
    step = open_trace(tmp_path).steps[0]

    with pytest.raises(InputError, match=r"a\.fwd\.npy"):
        step.tensor(Place("a", "fwd"))


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.write_text("x")])
def test_what_holds_no_step_is_refused(tmp_path, make):
    make(tmp_path / "t")
    with pytest.raises(InputError):
        open_trace(tmp_path / "t")
