"""The page as one file: sections as data, a style and a script, and the library that draws. It needs no server and no network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from backproof import __version__
from backproof.errors import InputError
from backproof.report.page.section import Section

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header><h1>{title}</h1><p>backproof {version}</p><nav aria-label="Sections"></nav></header>
<main id="content"></main>
<dialog aria-labelledby="detail-title"><div class="detail"></div></dialog>
<p id="said" class="unseen" role="status" aria-live="polite"></p>
<noscript><p>This page draws itself with the script that it carries; the script was not allowed to run.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>{library}</script>
<script>{script}</script>
</body>
</html>
"""


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole page."""
    here = files("backproof.report.page")
    # Inside of a script element only `</` and `<!` would end the data; JSON may write them in another way.
    data = json.dumps([section.to_json() for section in sections], ensure_ascii=False, allow_nan=False)
    return TEMPLATE.format(
        title=escape(title),
        version=escape(__version__),
        style=here.joinpath("page.css").read_text(encoding="utf-8"),
        data=data.replace("<", "\\u003c"),
        library=_library(),
        script=here.joinpath("page.js").read_text(encoding="utf-8"),
    )


def _library() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError(
            "the report's plots are drawn by plotly, which is not installed; pip install 'backproof[report]'"
        ) from None
    return str(get_plotlyjs())
