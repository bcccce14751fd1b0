"""The code base keeps its own promises."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import backproof
from backproof.engine.bounded import Bounded
from backproof.engine.exact import SURROGATES
from backproof.ir.primitive import Primitive
from backproof.ir.primitives import FAMILIES, PRIMITIVES
from backproof.ir.rounding import Special

SOURCE = Path(backproof.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
FRAMEWORKS = {"torch", "jax", "keras", "tensorflow"}
HEAVY = {"numpy", "scipy", "rich", "flint", "array_api_compat", *FRAMEWORKS}

MOST_LINES = 400
LONG = {
    "adapters/classic/pytorch_helper.py": "copied whole to where PyTorch runs, and audited there as one file",
    "adapters/classic/jax_helper.py": "copied whole to where JAX runs, and audited there as one file",
    "receipt/authoring/step.py": "one training step, written down in the order of a receipt's keys",
}


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


# ── the table of primitives ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_primitive_is_in_the_table_once() -> None:
    listed = [primitive.name for family in FAMILIES.values() for primitive in family]
    assert len(listed) == len(set(listed))
    assert listed == list(PRIMITIVES)


def test_every_record_that_is_defined_is_in_the_table() -> None:
    for path in sorted((SOURCE / "ir" / "primitives").glob("*.py")):
        module = importlib.import_module(
            f"backproof.ir.primitives.{path.stem}" if path.stem != "__init__" else "backproof.ir.primitives"
        )
        for found in vars(module).values():
            if isinstance(found, Primitive):
                assert PRIMITIVES[found.name] is found


def test_every_primitive_says_its_mathematics_in_one_line() -> None:
    for primitive in PRIMITIVES.values():
        assert "y" in primitive.says
        assert "\n" not in primitive.says
        assert primitive.name.isidentifier()


def test_every_special_analysis_is_written_and_no_other() -> None:
    for name, primitive in PRIMITIVES.items():
        assert hasattr(Bounded, f"_{name}") == isinstance(primitive.rounding, Special)


def test_no_function_is_taken_for_another_in_the_exact_domain() -> None:
    assert len(set(SURROGATES.values())) == len(SURROGATES)


# ── modules ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_begins_by_saying_what_it_is_and_stays_readable(path: Path) -> None:
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text)), "it has no docstring"
    lines = text.count("\n")
    assert lines <= MOST_LINES or name_of(path) in LONG, f"{lines} lines, and no reason for it"


def test_no_reason_outlives_its_long_module() -> None:
    for name in LONG:
        assert (SOURCE / name).read_text().count("\n") > MOST_LINES, f"{name} is short now; its reason can go"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_name_says_something(path: Path) -> None:
    assert not {"utils", "util", "helpers", "common", "misc", "manager", "base"} & set(
        name_of(path).removesuffix(".py").split("/")
    )


def test_everything_public_exists() -> None:
    assert sorted(backproof.__all__) == dir(backproof)
    for name in backproof.__all__:
        assert getattr(backproof, name) is not None
    with pytest.raises(AttributeError, match="Session"):
        _ = backproof.Sesion


# ── what an import costs ────────────────────────────────────────────────────────────────────────────────────────────


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


VERSION = "import sys; sys.argv = ['bp', '--version']; from backproof.cli import main; main()"


STARTS = {  # what starts → the modules of ours that it loads, of which bench/startup.py measures the cost
    "import backproof": ("import backproof", {"backproof"}),
    "bp --version": (
        VERSION,
        {"backproof", "backproof.cli", "backproof.cli.command", "backproof.errors"},
    ),
}


@pytest.mark.parametrize("start", STARTS)
def test_nothing_is_loaded_before_it_is_needed(start: str) -> None:
    code, ours = STARTS[start]
    loaded = set(python(f"{code}\nimport sys; print('\\n'.join(sys.modules))").split())

    assert not HEAVY & loaded
    assert {name for name in loaded if name.split(".")[0] == "backproof"} == ours


def test_the_core_loads_no_framework() -> None:
    core = [
        f"backproof.{name_of(p)[:-3].replace('/', '.')}"
        for p in MODULES
        if name_of(p).split("/")[0] in ("engine", "ir", "session")
    ]
    code = f"import importlib, sys\nfor name in {core!r}: importlib.import_module(name.removesuffix('.__init__'))"
    assert not FRAMEWORKS & set(python(code + "\nprint('\\n'.join(sys.modules))").split())


# ── what other people's type checkers see ───────────────────────────────────────────────────────────────────────────


def test_what_is_public_is_typed_where_it_is_used(tmp_path: Path) -> None:
    used = tmp_path / "used.py"
    used.write_text("import backproof\n\nreveal_type(backproof.verify('run', steps=[0]).holds)\nbackproof.verify(7)\n")

    said = subprocess.run([sys.executable, "-m", "mypy", str(used)], capture_output=True, text=True, check=False).stdout

    assert 'Revealed type is "bool"' in said
    assert said.count("error:") == 1
    assert '"verify" has incompatible type "int"' in said
