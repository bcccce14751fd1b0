"""What became of a comparison: findings in causal order, flips, what is undecided, what is missing, and what was looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from backproof.trace.event import Place
from backproof.verify.traces.gap import Gap
from backproof.verify.traces.local import Local
from backproof.verify.traces.walk import Turned

DIFFERS, INCOMPLETE, REMARK = "differs", "incomplete", "remark"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding, and what it makes of the verdict."""

    name: str
    effect: str
    says: str


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("bug", DIFFERS, "a side's tensor does not follow from what the same side recorded at its inputs"),
        Kind("differs", DIFFERS, "what a layer reads agrees on both sides, and what it writes does not"),
        Kind("start", DIFFERS, "what the step begins with differs: parameters, state, input or label"),
        Kind("told", DIFFERS, "the sides tell different mathematics"),
        Kind("flip", DIFFERS, "a decision was taken otherwise by a margin that rounding does not explain"),
        Kind("layout", DIFFERS, "the same numbers in another layout"),
        Kind("shape", DIFFERS, "the shapes differ"),
        Kind("dtype", DIFFERS, "numbers of different kinds"),
        Kind("nonfinite", DIFFERS, "NaN or infinity on one side"),
        Kind("missing", INCOMPLETE, "recorded on one side only"),
        Kind("stale", INCOMPLETE, "there, and not listed in the manifest"),
        Kind("unlisted", INCOMPLETE, "listed in the manifest, and not there"),
        Kind("unreadable", INCOMPLETE, "cannot be read"),
        Kind("nothing", INCOMPLETE, "nothing could be compared"),
        Kind("format", REMARK, "the same kind of numbers in another format"),
        Kind("fresh", REMARK, "a state of zeros before the first step, which the other side does not record"),
        Kind("both-nonfinite", REMARK, "NaN or infinity in the same places on both sides"),
    )
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was found, at one place of a step; what is the same in several samples is one finding."""

    kind: str
    step: int
    place: Place | None
    side: str
    """`a` or `b`, whichever is wrong, or lacks it; `both`; empty where that is not known."""
    says: str
    by: str = ""
    """The layers that made the tensor."""
    samples: tuple[int, ...] = ()
    gap: Gap | None = None
    local: Local | None = None
    hints: tuple[str, ...] = ()
    allowed: bool = False
    """Whether the user said that it is known."""

    @property
    def effect(self) -> str:
        """What it makes of the verdict."""
        return REMARK if self.allowed else KINDS[self.kind].effect


@dataclass(frozen=True, slots=True)
class Flip:
    """A layer's decisions at one sample that the sides took otherwise."""

    step: int
    turned: Turned
    noise: float
    """How far apart the sides' numbers, that were decided by, may be for rounding."""
    honest: bool
    because: str
    explains: tuple[str, ...] = ()
    """What differs for it, and agrees once it is replayed."""
    replayed: float = 0.0
    """The largest difference that is left then, relative to its tensor's scale."""
    follows: bool = False
    """Whether it was turned by a difference that has a cause of its own, before it."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """Something that differs, and may be honest; why that cannot be told from what was recorded."""

    step: int
    place: Place
    because: str
    gap: Gap | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One pair of tensors: how far apart they are, and what that is put down to."""

    gap: Gap
    state: str
    """equal, agrees, rounding, flip, follows, undecided or finding."""
    locals: tuple[Local | None, Local | None] = (None, None)
    allowed: float = 0.0
    """The relative difference that rounding may make of it, as estimated."""


@dataclass
class StepOutcome:
    """One step."""

    step: int
    seen: dict[Place, Seen] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    flips: list[Flip] = field(default_factory=list)
    undecided: list[Undecided] = field(default_factory=list)
    unchecked: dict[str, dict[Place, str]] = field(default_factory=dict)
    """side → place → why its equation was not derived."""
    assumed: list[str] = field(default_factory=list)

    @property
    def states(self) -> Counter[str]:
        """How many pairs came to what."""
        return Counter(seen.state for seen in self.seen.values())


@dataclass
class Comparison:
    """All steps of two traces."""

    names: tuple[str, str]
    order: tuple[str, ...]
    """The network's probes in order."""
    steps: list[StepOutcome] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """Of the traces as wholes."""
    told: bool = False
    """Whether the mathematics of any layer was told."""
    guessed: str = ""
    """What of the network had to be guessed."""

    @property
    def all_findings(self) -> list[Finding]:
        """Of the wholes and of every step, first cause first."""
        return [*self.findings, *(finding for step in self.steps for finding in step.findings)]

    @property
    def flips(self) -> list[Flip]:
        """Of every step."""
        return [flip for step in self.steps for flip in step.flips]

    @property
    def undecided(self) -> list[Undecided]:
        """Of every step."""
        return [one for step in self.steps for one in step.undecided]

    @property
    def compared(self) -> int:
        """How many pairs of tensors were compared."""
        return sum(len(step.seen) for step in self.steps)

    @property
    def verdict(self) -> str:
        """agree, undecided, differ or incomplete. Nothing compared is incomplete."""
        effects = {finding.effect for finding in self.all_findings}
        if DIFFERS in effects:
            return "differ"
        if INCOMPLETE in effects or not self.compared:
            return "incomplete"
        return "undecided" if self.undecided else "agree"

    @property
    def first(self) -> Finding | None:
        """The first cause: of what differs, or else of what is missing."""
        for effect in (DIFFERS, INCOMPLETE):
            for finding in self.all_findings:
                if finding.effect == effect:
                    return finding
        return None

    def exit_code(self, strict: bool) -> int:
        """0 agree, 1 differ, 2 incomplete; strictly, what is undecided or explained by flips is 1 too."""
        if self.verdict in ("differ", "incomplete"):
            return 1 if self.verdict == "differ" else 2
        return 1 if strict and (self.undecided or self.flips) else 0
