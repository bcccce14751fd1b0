"""Laws of the fast path as a whole: the verdict is the one of the strict reader and the judge, whatever ran."""

import ctypes
import io
import json
import sys
import threading

import pytest
from fast_subjects import BUNDLES, LINES, SCAN, SCREEN, compiled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backproof import BackproofError
from backproof.cli import main
from backproof.receipt import bundle
from backproof.receipt import native as scanner
from backproof.receipt.bundle import read_columns
from backproof.receipt.document import read_documents
from backproof.receipt.emission import emit
from backproof.verify import native as screen
from backproof.verify import receipts, verify_columns, verify_receipts

LAW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("native")
    scan = scanner.bound(ctypes.CDLL(str(compiled(SCAN, folder, "-O3"))))
    return scan, screen.bound(ctypes.CDLL(str(compiled(SCREEN, folder, "-O3"))))


@pytest.fixture(autouse=True)
def _native(libraries, monkeypatch):
    monkeypatch.setattr(scanner, "scanner", lambda: libraries[0])
    monkeypatch.setattr(screen, "library", lambda: libraries[1])
    monkeypatch.setattr(receipts, "WORTH_A_SCREEN", 1)


def verdicts(content: bytes) -> tuple:
    """The judge's verdict over what the strict reader read, and that of the fast path."""
    slow = verify_receipts(read_documents(io.BytesIO(content)), bundle=True)
    return slow, verify_columns(read_columns(io.BytesIO(content)), bundle=True)


@pytest.mark.parametrize("name", sorted(BUNDLES))
def test_an_honest_bundle_gets_the_same_verdict(name):
    slow, fast = verdicts(b"".join(LINES[name]))

    assert fast == slow
    assert fast.holds


@pytest.mark.parametrize("name", sorted(BUNDLES))
def test_the_screen_passes_honest_records(name, monkeypatch):
    judged = []
    take = receipts.Screen.passes
    monkeypatch.setattr(receipts.Screen, "passes", lambda self, ledger: judged.append(take(self, ledger)) or judged[-1])

    verify_columns(read_columns(io.BytesIO(b"".join(LINES[name]))), bundle=True)

    assert judged
    assert all(passed.all() for passed in judged)


def leaves(value, path=()):
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool) and path[0] not in {"topology", "batch"}:
        yield path


@LAW
@given(st.data(), st.sampled_from(sorted(BUNDLES)))
def test_a_changed_number_gets_the_same_verdict(data, name):
    documents = json.loads(json.dumps(BUNDLES[name]))
    for _ in range(data.draw(st.integers(1, 2))):
        document = data.draw(st.sampled_from(documents))
        *path, key = data.draw(st.sampled_from(sorted(leaves(document), key=str)))
        for step in path:
            document = document[step]
        change = data.draw(st.sampled_from([lambda x: -x, lambda x: 2 * x, lambda x: 0 * x, lambda x: x * (1 + 3e-9)]))
        document[key] = type(document[key])(change(document[key]))

    try:
        content = b"".join(map(emit, documents))
    except BackproofError:
        return
    slow, fast = verdicts(content)

    assert fast == slow


DIGEST = b'"bundle_root_digest":"sha256:'
BOUND = {  # what was done to a bundle that a digest binds, and whether it still holds
    "nothing": (lambda lines: lines, True),
    "its last line feed is gone": (lambda lines: [*lines[:-1], lines[-1].rstrip(b"\n")], True),
    "one record is spelled otherwise": (lambda lines: [lines[0], lines[1].replace(b",", b", ", 1), *lines[2:]], True),
    "one record says another digest": (lambda lines: [*lines[:2], _turned(lines[2]), *lines[3:]], False),
    "all say another digest": (lambda lines: [_turned(line) for line in lines], False),
    "all say what is no digest": (lambda lines: [line.replace(DIGEST, DIGEST[:-1]) for line in lines], False),
    "one record says none": (lambda lines: [lines[0], _without_digest(lines[1]), *lines[2:]], False),
    "the first record says none": (lambda lines: [_without_digest(lines[0]), *lines[1:]], False),
    "a remark is another": (lambda lines: [*lines[:3], lines[3].replace(b'"source":"', b'"source":"x', 1)], False),
    "the end is cut off": (lambda lines: lines[:-1], False),
}


def _turned(line):
    at = line.index(DIGEST) + len(DIGEST)
    return line[:at] + line[at : at + 64][::-1] + line[at + 64 :]


def _without_digest(line):
    at = line.index(b"," + DIGEST)
    return line[:at] + line[line.index(b'"', at + len(DIGEST) + 1) + 1 :]


@pytest.mark.parametrize("change", BOUND)
@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_what_a_digest_binds_gets_the_same_verdict(change, rows, monkeypatch):
    monkeypatch.setattr(bundle, "MOST_ROWS", rows)
    changed, holds = BOUND[change]

    slow, fast = verdicts(b"".join(changed(LINES["imported"])))

    assert fast == slow
    assert fast.holds == holds


def test_the_command_says_the_same_with_and_without_the_native_parts(tmp_path, capsys, monkeypatch):
    documents = json.loads(json.dumps(BUNDLES["mazur"]))
    documents[2]["updates"][3]["gradient"] *= -1
    path = tmp_path / "bundle.jsonl"
    path.write_bytes(b"".join(map(emit, documents)))
    said = []
    for present in (True, False):
        if not present:
            monkeypatch.setattr(scanner, "scanner", lambda: None)
        said.append((main(["verify", "multi", str(path), "--json"]), capsys.readouterr().out))

    assert said[0] == said[1]
    assert said[0][0] == 1
    assert json.loads(said[0][1])["report"]["record_count"] == 4


def test_memory_does_not_grow_with_the_bundle(monkeypatch):
    """Every chunk of the stream must be gone when two more have been read."""
    import weakref

    monkeypatch.setattr(bundle, "CHUNK", 30_000)
    alive: list[weakref.ref] = []
    most = 0

    def watched():
        nonlocal most
        for columns in read_columns(io.BytesIO(LINES["mazur"][0] * 60)):
            alive.append(weakref.ref(columns))
            most = max(most, sum(reference() is not None for reference in alive))
            yield columns

    verify_columns(watched(), bundle=True)

    assert len(alive) > 10
    assert most <= 3


def test_a_pipe_is_read_to_its_end(monkeypatch, capsys):
    import os

    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            for line in LINES["mazur"]:
                pipe.write(line[:100])
                pipe.flush()
                pipe.write(line[100:])

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(reading, "r") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert main(["verify", "multi", "-"]) == 0
    thread.join()
    assert "4 record(s)" in capsys.readouterr().err
