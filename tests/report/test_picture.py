"""The picture of a step: everything in it, what fails in red, whatever stands in the file."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from backproof.cli import main
from backproof.receipt import emit
from backproof.receipt.authoring import BUILTIN, as_lossless, author_input, author_step
from backproof.receipt.document import as_receipt
from backproof.report.drawing import as_html, as_svg
from backproof.report.panels import as_text
from backproof.report.picture import picture_of
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
    assert red(svg) == []
    weights = [name for name in document["parameters_before"] if name.startswith("w")]
    assert [edge.name for edge in picture.edges if edge.name in weights] == [e.name for e in picture.edges]
    assert len(picture.edges) == len(weights)
    assert "✗" not in as_text(picture)
    assert all(edge.name in as_text(picture) for edge in picture.edges)


def red(svg):
    """The classes of what is drawn as wrong, without the legend."""
    shapes = ET.fromstring(svg.replace('xmlns="http://www.w3.org/2000/svg"', "")).findall("./g")[:-1]
    return [
        shape.get("class")
        for group in shapes
        for shape in group
        if shape.tag in {"path", "rect"} and "bad" in (shape.get("class") or "")
    ]


def test_a_wrong_update_is_red_on_its_own_edge():
    document = json.loads(json.dumps(XOR))
    document["updates"][4]["update"] *= 2

    picture = drawn(document)

    assert [edge.name for edge in picture.edges if edge.wrong] == ["w_h1_y"]
    assert red(as_svg(picture)) == ["edge up bad"]
    page = as_html(picture, "xor", "does not hold: 3 of 235 claims fail", holds=False)
    assert "<b>updates[4].update</b>" in page
    assert "does not hold</span>3 of 235 claims fail" in page
    assert "✗ rule 5: updates[4].update" in as_text(picture)
    assert "✗ h1 ─w_h1_y▸" in as_text(picture)


def test_what_follows_from_a_wrong_number_is_drawn_apart_from_it():
    document = json.loads(json.dumps(XOR))
    document["backward"]["hidden_error_signals"]["h1"]["downstream_contributions"][0]["value"] *= 2

    picture = drawn(document)

    assert [cause.path for cause, _ in picture.causes] == [
        "backward.hidden_error_signals.h1.downstream_contributions[0].value"
    ]
    assert picture.causes[0][1]
    assert red(as_svg(picture)) == ["card bad"]


def test_every_factor_stands_on_its_edge():
    picture = drawn(XOR)
    texts = [text.text for text in ET.fromstring(as_svg(picture)).iter("{http://www.w3.org/2000/svg}text")]

    for edge in picture.edges:
        assert " × ".join(number for _, number in edge.factors) in texts
    assert len(picture.edges) == len({edge.name for edge in picture.edges}) == 6


def test_labels_between_two_layers_do_not_cover_each_other():
    iris = json.loads(emit(author_step(BUILTIN["iris"]())))
    plates = ET.fromstring(as_svg(drawn(iris))).iter("{http://www.w3.org/2000/svg}rect")
    boxes = [[float(r.get(key)) for key in ("x", "y", "width", "height")] for r in plates if r.get("class") == "plate"]

    assert len(boxes) == 4 * 3 + 3 * 3
    for i, (x, y, w, h) in enumerate(boxes):
        for u, v, w2, h2 in boxes[:i]:
            assert x + w <= u or u + w2 <= x or y + h <= v or v + h2 <= y


@pytest.mark.parametrize(
    "broken", [{}, {"topology": {}}, {"updates": 3, "topology": XOR["topology"]}, {**XOR, "forward": []}]
)
def test_a_broken_file_is_drawn_as_far_as_it_goes(broken):
    ET.fromstring(as_svg(drawn(broken)))


def test_names_cannot_break_out_of_the_page():
    document = json.loads(json.dumps(XOR))
    document["topology"]["unit_order"]["input"][0] = "<script>alert(1)</script>"

    assert "<script>" not in as_html(drawn(document), "<script>", "x", holds=False)


def test_names_cannot_steer_the_terminal_or_break_the_file():
    document = json.loads(json.dumps(XOR).replace('"h1"', '"h\\u001b[31m\\ud800"'))
    picture = drawn(document)

    assert "\x1b" not in as_text(picture)
    ET.fromstring(as_svg(picture).encode())
    as_html(picture, document["fixture"], "x", holds=False).encode()


def test_show_writes_what_its_name_says(tmp_path, capsys):
    file = tmp_path / "xor.jsonl"
    file.write_bytes(emit(XOR))

    assert main(["show", str(file)]) == 0
    assert "h1 ─w_h1_y▸" in capsys.readouterr().out
    assert main(["show", str(file), "--out", str(tmp_path / "a.svg")]) == 0
    assert main(["show", str(file), "--out", str(tmp_path / "a.html")]) == 0
    assert main(["show", str(file), "--out", str(tmp_path / "a.png")]) == 3
    assert main(["show", str(file), "--record", "4"]) == 3
    ET.parse(tmp_path / "a.svg")


def test_nothing_checked_is_said_so():
    assert "nothing could be checked" in summary(verify_receipts([], bundle=False))
