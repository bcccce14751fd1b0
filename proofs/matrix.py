"""Write docs/proofs.md: for every primitive, which theorems there are and what else tests it. `--check` writes nothing.

The theorems' names are looked up in the sources, and Audit.v must print each of them with its assumptions.
"""

# ruff: noqa: INP001 # a script beside the theory, not a package
from __future__ import annotations

import re
import sys
from pathlib import Path

from backproof.ir.primitives import FAMILIES
from backproof.session.proof_translation import RECORDED, RULES

PROOFS = Path(__file__).resolve().parent
PAGE = PROOFS.parent / "docs" / "proofs.md"
NONE = "**none**"


def theorems() -> dict[str, str]:
    """Every theorem that Audit.v prints: name → the module that states it."""
    audit = (PROOFS / "Audit.v").read_text(encoding="utf-8")
    audited = re.findall(r'idtac "theorem (\w+)\.(\w+)"', audit)
    if audited != re.findall(r"@(\w+)\.(\w+)", audit):
        raise SystemExit("Audit.v names other theorems than it looks into")
    stated = {
        module: set(re.findall(r"^(?:Theorem|Corollary|Lemma) (\w+)", text, re.MULTILINE))
        for module, text in ((path.stem, path.read_text(encoding="utf-8")) for path in PROOFS.glob("*.v"))
    }
    missing = [f"{module}.{name}" for module, name in audited if name not in stated.get(module, ())]
    if missing:
        raise SystemExit(f"Audit.v names theorems that no source states: {', '.join(missing)}")
    return {name: module for module, name in audited}


def page() -> str:
    """The page."""
    known = theorems()

    def theorem(name: str) -> str:
        return f"[`{name}`](../proofs/{known[name]}.v)" if name in known else NONE

    lines = [
        "# What is proved of each primitive\n",
        "<!-- Written by proofs/matrix.py from the theory and the table of primitives; run `python proofs/matrix.py`. -->\n",
        "*Adjoint*: the vjp is the transpose of the jvp, over any commutative semiring. *Derivative*: over the reals, the",
        "jvp is the derivative along every differentiable path, on the function's domain. Both are machine-checked, about the",
        "nodes of the theory and not about Python. *Identity-tested*: the library's own rules are compared over GF(2^61 − 1)",
        "on random uses (tests/laws/test_law_adjoint.py). *Numerically tested*: they are compared with difference quotients",
        "(tests/laws/test_law_derivative.py).",
        "*In the kernel*: `bp prove` hands it to the theory; a recorded decision is handed over as a constant.",
        "[proofs/README.md](../proofs/README.md) says on which domains, and what is not proved.",
    ]
    for family, members in FAMILIES.items():
        lines.append(f"\n## {family}\n")
        lines.append("| primitive | adjoint | derivative | identity-tested | numerically tested | in the kernel |")
        lines.append("|---|---|---|---|---|---|")
        for primitive in members:
            name = primitive.name
            in_kernel = "yes" if name in RULES and name not in RECORDED else "recorded decision"
            if primitive.differentiable:
                cells = (theorem(f"{name}_adjoint"), theorem(f"{name}_derivative"), "yes", "yes", in_kernel)
            elif f"{name}_adjoint" in known:
                derivative = (
                    theorem(f"{name}_derivative") if f"{name}_derivative" in known else "no derivative, by definition"
                )
                cells = (theorem(f"{name}_adjoint"), derivative, "–", "–", in_kernel)
            else:
                cells = (theorem("opaque_adjoint"), "no derivative, by definition", "–", "–", in_kernel)
            lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    text = page()
    fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
    if not fresh and "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
    done = "stale" if "--check" in arguments else "written"
    sys.stdout.write("up to date\n" if fresh else f"{done}: docs/proofs.md\n")
    return 1 if not fresh and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
