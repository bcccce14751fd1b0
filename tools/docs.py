"""Write the reference pages of docs/ from the tables. `--check` only says whether they are up to date."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from backproof.engine.domain import DOMAINS
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.primitive import Primitive
from backproof.ir.primitives import FAMILIES
from backproof.ir.rounding import Decides, Moves, Rounds, Special, Sums
from backproof.numerics import FORMATS
from backproof.session.operations import OWN

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = "<!-- Written by tools/docs.py from the tables in the code; run `make docs` after a change. -->\n"


def cell(text: str) -> str:
    """Text that does not end a table's cell."""
    return text.replace("|", "\\|")


ROUNDING = """*Rounding* is what the bounds assume of honest kernels, in units of roundoff u (two of them are a unit in the last place): how
far a result may be off, relative to its size, when its operands are exact. `sum`: γₙ of the terms' magnitudes, in any order.
`decision`: none, while what is compared differs by more than its error; in doubt otherwise. `own`: an analysis of its own, in
`engine/bounded.py`. `–`: nothing is rounded."""


def rounding(primitive: Primitive) -> str:
    """How a primitive rounds, in a word."""
    match primitive.rounding:
        case Rounds(ulps=0):
            return "–"
        case Rounds(ulps=ulps, absolute=0):
            return f"{ulps:g} u"
        case Rounds(ulps=ulps, absolute=absolute):
            return f"{ulps:g} u, and {absolute:g} u whatever its size but in float64"
        case Sums():
            return "sum"
        case Moves():
            return "–"
        case Decides():
            return "decision"
        case Special():
            return "own"


def primitives() -> str:
    """The page of primitives."""
    lines = ["# Primitives\n", NOTE, f"\n{ROUNDING}"]
    for family, members in FAMILIES.items():
        lines.append(
            f"\n## {family}\n\n| name | mathematics | parameters | rounding | derivative |\n|---|---|---|---|---|"
        )
        for p in members:
            derivative = "yes" if p.differentiable else "–"
            lines.append(
                f"| `{p.name}` | {cell(p.says)} | {', '.join(p.params) or '–'} | {rounding(p)} | {derivative} |"
            )
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
