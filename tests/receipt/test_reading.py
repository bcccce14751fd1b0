from __future__ import annotations

import io

import pytest

from backproof.errors import InputError
from backproof.receipt import reading
from backproof.receipt.document import read_any, read_document

HOSTILE = {
    "a key given twice": (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is given twice"),
    "NaN": (b'{"a": NaN}', "NaN is not a JSON number"),
    "Infinity": (b"[-Infinity]", "Infinity"),
    "a huge exponent": (b'{"a": 1e400}', "overflows"),
    "a huge integer": (b"[" + b"9" * 5000 + b"]", "overflows"),
    "deep nesting": (b"[" * 100_000, "nested deeper"),
    "deep objects": (b'{"a":' * 500 + b"1" + b"}" * 500, "nested deeper"),
    "invalid UTF-8": (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "byte order mark"),
    "a cut": (b'{"a": 1', "not JSON at line 1"),
    "nothing": (b"", "not JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_with_its_place(name):
    text, message = HOSTILE[name]

    with pytest.raises(InputError, match=message):
        reading.parse(text, "x.json")


def test_brackets_in_strings_are_not_nesting():
    text = b'{"a": "' + b"[{" * 500 + b'\\"]"}'

    assert reading.parse(text)["a"].endswith('"]')


def test_a_line_that_never_ends_is_refused_before_it_is_held(monkeypatch):
    monkeypatch.setattr(reading, "MOST_BYTES", 1000)

    with pytest.raises(InputError, match="line 2: longer than"):
        list(reading.lines(io.BytesIO(b"{}\n" + b" " * 5000), "x"))


def test_a_file_may_hold_one_document_over_several_lines_or_one_a_line(tmp_path):
    spread = tmp_path / "a.jsonl"
    spread.write_bytes(b'{\n "a": 1\n}\n')
    lines = tmp_path / "b.jsonl"
    lines.write_bytes(b'{"a": 1}\n\n{"a": 2}\n')

    assert [r.document for r in read_any(str(spread))] == [{"a": 1}]
    assert [r.document for r in read_any(str(lines))] == [{"a": 1}, {"a": 2}]
    assert read_document(str(spread)).document == {"a": 1}
    with pytest.raises(InputError, match="2 records"):
        read_document(str(lines))


@pytest.mark.parametrize("content", [b"[1]", b'"x"', b"3"])
def test_what_is_no_object_is_no_receipt(tmp_path, content):
    file = tmp_path / "a.json"
    file.write_bytes(content)

    with pytest.raises(InputError, match="not an object"):
        read_document(str(file))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_document(str(tmp_path / "nowhere.json"))
