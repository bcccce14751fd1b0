"""Write the reference pages of docs/ from the tables. `--check` only says whether they are up to date."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from backproof.engine.domain import DOMAINS
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.primitives import FAMILIES
from backproof.numerics import FORMATS
from backproof.session.operations import OWN

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = "<!-- Written by tools/docs.py from the tables in the code; run `make docs` after a change. -->\n"


def cell(text: str) -> str:
    """Text that does not end a table's cell."""
    return text.replace("|", "\\|")


def primitives() -> str:
    """The page of primitives."""
    lines = ["# Primitives\n", NOTE]
    for family, members in FAMILIES.items():
        lines.append(
            f"\n## {family}\n\n| name | mathematics | parameters | rounding | derivative |\n|---|---|---|---|---|"
        )
        for p in members:
            rounding = type(p.rounding).__name__.lower()
            derivative = "yes" if p.differentiable else "–"
            lines.append(f"| `{p.name}` | {cell(p.says)} | {', '.join(p.params) or '–'} | {rounding} | {derivative} |")
    lines.append("\n## Floating formats\n\n| name | unit roundoff | smallest normal | largest |\n|---|---|---|---|")
    lines += [f"| {f.name} | 2^−{f.precision} | 2^{f.least_exponent} | {f.largest:.4g} |" for f in FORMATS.values()]
    lines.append("\n## Domains\n\n| name | what it is |\n|---|---|")
    lines += [f"| `{name}` | {cell((make.__doc__ or '').splitlines()[0])} |" for name, make in DOMAINS.items()]
    return "\n".join(lines) + "\n"


def operations() -> str:
    """The page of a session's operations and of the compositions."""
    lines = ["# Operations of a session\n", NOTE, "\n## Its own\n\n| name | mathematics |\n|---|---|"]
    lines += [f"| `{operation.name}` | {cell(operation.says)} |" for operation in OWN]
    lines.append("\n## Compositions, with PyTorch's parameters\n\n| name | mathematics | parameters |\n|---|---|---|")
    for composition in COMPOSITIONS.values():
        names = ", ".join(
            name if parameter.default is parameter.empty else f"{name}={parameter.default!r}"
            for name, parameter in inspect.signature(composition.function).parameters.items()
        )
        lines.append(f"| `{composition.name}` | {cell(composition.says)} | {cell(names)} |")
    lines.append("\nEvery primitive of [primitives.md](primitives.md) is an operation too.")
    return "\n".join(lines) + "\n"


PAGES = {"primitives.md": primitives, "operations.md": operations}


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    stale = []
    for name, page in PAGES.items():
        path, text = DOCS / name, page()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    print(
        "\n".join(f"{'stale' if '--check' in arguments else 'written'}: docs/{name}" for name in stale) or "up to date"
    )
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
