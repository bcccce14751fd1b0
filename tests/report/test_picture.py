"""The picture of a step: everything in it, what fails in red, whatever stands in the file."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from backproof.cli import main
from backproof.receipt import emit
from backproof.receipt.authoring import BUILTIN, as_lossless, author_input, author_step
from backproof.receipt.document import as_receipt
from backproof.report.picture import as_html, as_svg, as_text, picture_of
from backproof.report.verdict import summary
from backproof.verify import verify_receipt, verify_receipts

XOR = json.loads(emit(author_step(BUILTIN["xor"]())))


def drawn(document):
    return picture_of(document, verify_receipt(as_receipt(document)))


@pytest.mark.parametrize(
    "document", [XOR, json.loads(emit(author_input(as_lossless(BUILTIN["iris"]()))))], ids=["xor", "iris"]
)
def test_a_good_step_shows_every_unit_and_weight_and_nothing_in_red(document):
    picture = drawn(document)

    svg = as_svg(picture)

    ET.fromstring(svg)
    assert 'class="edge bad"' not in svg
    assert 'class="unit bad"' not in svg
    weights = [name for name in document["parameters_before"] if name.startswith("w")]
    assert [edge.name for edge in picture.edges if edge.name in weights] == [e.name for e in picture.edges]
    assert len(picture.edges) == len(weights)
    assert "!" not in as_text(picture)


def test_a_wrong_update_is_red_on_its_own_edge():
    document = json.loads(json.dumps(XOR))
    document["updates"][4]["update"] *= 2

    picture = drawn(document)

    assert [edge.name for edge in picture.edges if edge.wrong] == ["w_h1_y"]
    assert as_svg(picture).count('class="edge bad"') == 1
    assert "updates[4].update" in as_html(picture, "xor", "does not hold")


@pytest.mark.parametrize(
    "broken", [{}, {"topology": {}}, {"updates": 3, "topology": XOR["topology"]}, {**XOR, "forward": []}]
)
def test_a_broken_file_is_drawn_as_far_as_it_goes(broken):
    ET.fromstring(as_svg(drawn(broken)))


def test_names_cannot_break_out_of_the_page():
    document = json.loads(json.dumps(XOR))
    document["topology"]["unit_order"]["input"][0] = "<script>alert(1)</script>"

    assert "<script>" not in as_html(drawn(document), "<script>", "x")


def test_show_writes_what_its_name_says(tmp_path, capsys):
    file = tmp_path / "xor.jsonl"
    file.write_bytes(emit(XOR))

    assert main(["show", str(file)]) == 0
    assert "h1 --w_h1_y--> y" in capsys.readouterr().out
    assert main(["show", str(file), "--out", str(tmp_path / "a.svg")]) == 0
    assert main(["show", str(file), "--out", str(tmp_path / "a.html")]) == 0
    assert main(["show", str(file), "--out", str(tmp_path / "a.png")]) == 3
    assert main(["show", str(file), "--record", "4"]) == 3
    ET.parse(tmp_path / "a.svg")


def test_nothing_checked_is_said_so():
    assert "nothing could be checked" in summary(verify_receipts([], bundle=False))
