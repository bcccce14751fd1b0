"""The HTML page in a real browser: it draws without a network, answers clicks and keys, and shows hostile names as text."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from backproof.cli import main
from backproof.receipt import emit
from backproof.receipt.authoring import BUILTIN, author_step
from backproof.report.page.document import page
from backproof.report.page.section import Curve, Detail, Grid, Histogram, Line, Section, Table

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")

HOSTILE = "</script><img src=x onerror=document.title='taken'><b>ln</b>"


def section() -> Section:
    detail = Detail(
        "ln1.fwd",
        [("largest error", "3e-3")],
        "one element is far off",
        Histogram([-8.0, -7.0, -6.0], [5, 1], exact=2),
        ["element", "a", "b"],
        [["[0, 1]", "1", "1.003"]],
    )
    return Section(
        "mine beside theirs",
        "differ",
        "bad",
        [("tensors", "6"), ("hostile", HOSTILE)],
        [("place", "ln1.fwd"), ("ratio", "3000")],
        [
            Table("Findings", "First cause first.", ["place", "error"], [["ln1.fwd", "3e-3"]], ["bad"], ["ln1"]),
            Grid(
                "Errors",
                "By layer and phase.",
                ["conv1", "ln1", HOSTILE],
                ["fwd", "agrad"],
                [[1e-7, None], [3e-3, 0.0], [float("inf"), 1e-7]],
                "of scale",
                1e-4,
                [["", ""], ["ln1", ""], ["", ""]],
                [[False, False], [True, False], [False, False]],
                [[False, False], [False, True], [False, False]],
            ),
            Curve(
                "Along the network",
                "",
                ["conv1", "ln1"],
                [Line("a", [1e-7, 3e-3]), Line("bound", [1e-6, 1e-6], bound=True)],
                "of scale",
                ["", "ln1"],
            ),
        ],
        {"ln1": detail},
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page("What was <found>", [section(), section()]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        found = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def opened(browser, written, **options):
    """The page, and what its console said."""
    context = browser.new_context(offline=True, **options)
    tab = context.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on(
        "request",
        lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:", "blob:")) else None,
    )
    tab.goto(written.as_uri())
    tab.wait_for_selector(".plot .main-svg")
    return tab, said


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_draws_everything_without_a_network_and_fits(browser, written, scheme, width):
    tab, said = opened(browser, written, color_scheme=scheme, viewport={"width": width, "height": 844})

    assert said == []
    assert tab.locator("section").count() == 2
    assert tab.locator(".plot .heatmaplayer image, .plot .hm").count() >= 2
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 22, 29)")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_drawn_step_fits_and_is_readable(browser, tmp_path, width):
    document = json.loads(emit(author_step(BUILTIN["xor"]())))
    document["updates"][4]["update"] *= 2
    (tmp_path / "forged.jsonl").write_text(json.dumps(document))
    assert main(["show", str(tmp_path / "forged.jsonl"), "--out", str(tmp_path / "forged.html")]) == 1

    tab = browser.new_page(viewport={"width": width, "height": 844})
    tab.goto((tmp_path / "forged.html").as_uri())

    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.locator("svg").bounding_box()["width"] > 900  # as large as its text asks for, if need be to scroll
    assert tab.locator("tbody td b").bounding_box()["width"] > 150


def test_what_does_not_hold_is_crossed_and_opens(browser, written):
    tab, said = opened(browser, written, viewport={"width": 1280, "height": 844})

    cross = tab.locator(".plot").first.locator(".scatterlayer .point")
    assert cross.count() == 1
    cross.scroll_into_view_if_needed()
    box = cross.bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    assert tab.locator("dialog h2").inner_text() == "ln1.fwd"
    assert said == []


def test_it_draws_anew_when_the_width_changes(browser, written):
    tab, said = opened(browser, written, viewport={"width": 390, "height": 844})
    size = "() => document.querySelector('.heatmaplayer image, .hm').getBoundingClientRect().width"
    narrow = tab.evaluate(size)

    tab.set_viewport_size({"width": 1280, "height": 844})
    tab.wait_for_function(f"({size})() > 2 * {narrow}")

    assert tab.locator(".plot").first.locator(".colorbar").count() == 1
    assert said == []


def test_what_is_explained_has_a_colour_of_its_own(browser, written):
    tab, _ = opened(browser, written)

    drawn = "p => p.data.filter((trace) => trace.type === 'heatmap').map((trace) => trace.z.flat().filter((x) => x !== null).length)"
    assert tab.locator(".plot").first.evaluate(drawn) == [4, 1]


def test_names_are_shown_and_never_executed(browser, written):
    tab, said = opened(browser, written)

    assert tab.title() == "What was <found>"
    assert tab.locator("dd", has_text="onerror").first.inner_text() == HOSTILE
    assert tab.locator("img[src=x]").count() == 0
    assert said == []


def test_a_click_on_an_entry_opens_its_numbers(browser, written):
    tab, said = opened(browser, written)
    plot = tab.locator(".plot").first
    plot.scroll_into_view_if_needed()
    # The entry of ln1 and fwd: the first column, the second of three rows.
    x, y = plot.evaluate(
        "p => { const {xaxis, yaxis} = p._fullLayout; const at = p.getBoundingClientRect();"
        " return [at.x + xaxis._offset + xaxis.l2p(0), at.y + yaxis._offset + yaxis.l2p(1)]; }"
    )
    tab.mouse.move(x - 2, y)
    tab.mouse.click(x, y)

    tab.wait_for_selector("dialog[open]")
    text = tab.locator("dialog").inner_text()
    assert "ln1.fwd" in text
    assert "1.003" in text
    assert "2 elements are exactly equal" in text
    assert tab.locator("dialog .plot .bars").count() == 1
    tab.get_by_role("button", name="Close").click()
    assert tab.locator("dialog[open]").count() == 0
    assert said == []


def test_everything_is_within_reach_of_the_keyboard(browser, written):
    tab, said = opened(browser, written)
    plot = tab.locator(".plot").first
    plot.focus()
    for key in ("ArrowDown", "ArrowDown"):
        tab.keyboard.press(key)

    assert tab.locator("#said").inner_text() == "ln1, fwd: 0.003 of scale, does not hold"
    tab.keyboard.press("Enter")
    assert "ln1.fwd" in tab.locator("dialog[open]").inner_text()
    tab.keyboard.press("Escape")
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#said").inner_text() == "ln1, agrad: 0 of scale, explained"
    assert tab.locator("dialog[open]").count() == 0

    tab.get_by_role("button", name="ln1.fwd").first.focus()
    tab.keyboard.press("Enter")
    assert tab.locator("dialog[open]").count() == 1
    assert said == []
