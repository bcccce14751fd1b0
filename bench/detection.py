"""How many planted mistakes does each criterion find, and how many honest steps does it accuse?

Every criterion is given the very same pairs of numbers, what a step claims and what is derived for it from recorded inputs, so it has
the benefit of local checks. The planted cases, their honest twins and the honest steps that are hard to judge are those of the tests.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "adapters" / "torch"))


def close(relative: float, absolute: float) -> Callable[[Any, Any, str], bool]:
    """|claimed − derived| ≤ absolute + relative·|derived|."""
    return lambda c, y, _: bool(np.all(np.abs(c - y) <= absolute + relative * np.abs(y)))


def assert_close(c, y, dtype) -> bool:
    """What torch.testing.assert_close says with its defaults for the format."""
    import torch

    kind = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}.get(dtype, torch.float32)
    try:
        torch.testing.assert_close(torch.as_tensor(c).to(kind), torch.as_tensor(y).to(kind), equal_nan=True)
    except AssertionError:
        return False
    return True


CRITERIA = {
    "torch.testing.assert_close": assert_close,
    "a fixed 1e-4": close(1e-4, 1e-4),
    "Rule 14 (1e-6, 1e-4)": close(1e-4, 1e-6),
}


class Tap:
    """Shows every pair that is judged to the criteria, wherever it is judged."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        self.pairs = 0

    def __enter__(self):
        import backproof.verify.equation as home

        self.right = home.measured
        self.places = [
            m
            for name, m in sys.modules.items()
            if name.startswith("backproof.") and getattr(m, "measured", None) is home.measured
        ]
        for module in self.places:
            module.measured = self.measured
        return self

    def __exit__(self, *_):
        for module in self.places:
            module.measured = self.right

    def measured(self, claimed, derived):
        c, y = np.asarray(claimed, dtype=np.float64), np.asarray(derived.value, dtype=np.float64)
        self.pairs += 1
        kind = "float64" if np.asarray(claimed).dtype == np.float64 else "float32"
        with np.errstate(all="ignore"):
            self.failed |= {name for name, holds in CRITERIA.items() if not holds(c, np.broadcast_to(y, c.shape), kind)}
        return self.right(claimed, derived)


def judge(run: Path) -> tuple[set[str], bool, bool, int]:
    """Which criteria accuse a run; whether ours finds it broken, or suspect; and how many pairs there were."""
    from backproof.verify.run import verify_run

    with Tap() as tap:
        verdicts = list(verify_run(run))
    return tap.failed, any(v.broken for v in verdicts), any(v.suspicious for v in verdicts), tap.pairs


def trained(program: Any, out: Path) -> Path:
    """Two steps of an honest program, recorded."""
    import torch

    import backproof.torch as bpt

    torch.manual_seed(0)
    model, optimizers, step = program.make()
    with bpt.Recorder(model, optimizers, out=out) as recorder:
        for i in range(2):
            with recorder.step():
                step(i)
    return out


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missed", action="store_true", help="name what each criterion misses")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    from hard import HARD
    from planted import planted

    import backproof.verify.run  # noqa: F401 # all that judges is loaded before it is tapped

    cases = planted()
    kinds = {kind: [case for case in cases.values() if case.kind == kind] for kind in ("broken", "suspect")}
    found = {name: {"broken": 0, "suspect": 0} for name in (*CRITERIA, "backproof")}
    alarms = dict.fromkeys(found, 0)
    missed: dict[str, list[str]] = {name: [] for name in found}
    pairs, honest = 0, len(cases) + len(HARD)
    with tempfile.TemporaryDirectory() as folder:
        for i, case in enumerate(cases.values()):
            wrong, right = Path(folder) / f"{i}w", Path(folder) / f"{i}r"
            case.record(wrong, True)
            case.record(right, False)
            accused, broken, suspect, _ = judge(wrong)
            falsely, alarm, _, more = judge(right)
            pairs += more
            ours = broken if case.kind == "broken" else suspect
            for name, counts in found.items():
                hit = ours if name == "backproof" else name in accused
                counts[case.kind] += hit
                missed[name] += [] if hit else [case.name]
                alarms[name] += alarm if name == "backproof" else name in falsely
        for i, program in enumerate(HARD):
            falsely, alarm, _, more = judge(trained(program, Path(folder) / f"{i}h"))
            pairs += more
            for name in found:
                alarms[name] += alarm if name == "backproof" else name in falsely
    broken, suspect = len(kinds["broken"]), len(kinds["suspect"])
    print(
        f"{len(cases)} planted steps ({broken} broken, {suspect} suspect); "
        f"{honest} honest ones: their twins, and {len(HARD)} that are hard to judge ({pairs} equations of reals)"
    )
    print(f"{'criterion':<28}{'broken found':>14}{'suspect found':>15}{'honest accused':>16}")
    for name, counts in found.items():
        print(
            f"{name:<28}{counts['broken']:>8}/{broken:<5}{counts['suspect']:>9}/{suspect:<5}{alarms[name]:>10}/{honest:<5}"
        )
    if args.missed:
        for name, names in missed.items():
            print(f"\n{name} misses:", *names, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
