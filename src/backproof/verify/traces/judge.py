"""The judgement of one step: each pair of tensors in causal order, and what its difference is put down to.

Where both sides were derived, the derivations decide. Elsewhere a layer is to blame where what it reads agrees and what it writes does not.
"""

from __future__ import annotations

from collections.abc import Sequence

from backproof.trace.event import Place
from backproof.trace.phases import INPUT, LABEL
from backproof.verify.traces.gap import Gap, gap
from backproof.verify.traces.hints import hints_of
from backproof.verify.traces.layers import DECISIONS
from backproof.verify.traces.local import Local
from backproof.verify.traces.network import Network, called
from backproof.verify.traces.outcome import Finding, Flip, Seen, StepOutcome, Undecided
from backproof.verify.traces.rooms import Rooms
from backproof.verify.traces.side import Side
from backproof.verify.traces.steps import updater
from backproof.verify.traces.walk import Turned, Walked

UNSEEN = "it is what the step before made, and that was not recorded"
TURNED_ELSEWHERE = (
    "it is a sum over samples of which some were not recorded, and a decision taken otherwise in one of those "
    "could explain it: all gradients behind a decision differ, and none before it"
)
BEGAN_APART = (
    "it is a sum over samples of which some were not recorded, and the step began with parameters that a decision in a step before "
    "had moved apart"
)
TOUCHED = 1e-3
"""A flip reaches all gradients behind a decision; one a thousand times less than another is not reached."""
BIAS = "bias"
"""A flip moves a gradient from one place to another, so that a sum over places may stay what it was."""
GIVEN = {"w_before": "w_after", "opt_before": "opt_after"}
"""What a step begins with, and what the step before called it."""


class Judge:
    """One step's pairs, judged one after the other."""

    def __init__(
        self,
        network: Network,
        a: Side,
        b: Side,
        gaps: dict[Place, Gap],
        walked: Walked,
        earlier: StepOutcome | None = None,
    ) -> None:
        self.network, self.a, self.b, self.gaps, self.earlier = network, a, b, gaps, earlier
        self.locals: list[dict[Place, Local]] = [one.found for one in walked.locals]
        self.walked = walked
        self.outcome = StepOutcome(a.step.index)
        self.tainted: dict[Place, str] = {}
        """What differs, and to what that is put down: a finding, a flip, or what it was made from."""
        self.rooms = Rooms(network, a, b, gaps)
        self._candidates: dict[Place, Gap] = {}

    def run(self, first: bool) -> StepOutcome:
        """Judge every pair."""
        for place in sorted(self.gaps, key=self.network.causal):
            self._judge(place, self.gaps[place], first)
        self._sums()
        self._turned()
        return self.outcome

    # ── one pair ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _judge(self, place: Place, found: Gap, first: bool) -> None:
        left, right = self.locals[0].get(place), self.locals[1].get(place)
        broken = [one for one in (left, right) if one is not None and one.verdict == "broken"]
        room = self.rooms.of(place)
        if broken:
            self._broken(place, found, broken, left, right)
            state = "finding"
        elif place.phase in GIVEN and not first:
            state, room = self._begun(place, found)
        elif place in self.walked.remainders and (left is None or right is None):
            state = self._partial(place, found, room)
        elif left is not None and right is not None:
            state = self._derived(place, found, room, left, right)
        else:
            state, room = self._compared(place, found, room, left, right)
        self.outcome.seen[place] = Seen(found, state, (left, right), room)

    def _broken(self, place: Place, found: Gap, broken: list[Local], left: Local | None, right: Local | None) -> None:
        side = broken[0].side if len(broken) == 1 else "both"
        local = max(broken, key=lambda one: one.ratio)
        says = f"{place} of {side if side != 'both' else 'both sides'} does not follow from what was recorded at its inputs"
        if len(broken) == 1:
            other = right if local is left else left
            if other is not None:
                says += f"; that of {other.side} does"
        if local.remark:
            says += f" ({local.remark})"
        hints = tuple(dict.fromkeys((*local.hints, *self._exchanged(place))))
        self._find("bug", place, side, says, found, local, hints, local.by)
        self.tainted[place] = "finding"

    def _begun(self, place: Place, found: Gap) -> tuple[str, float]:
        """What a later step begins with: what became of it in the step before goes on."""
        room = self.rooms.stored(place)
        if found.relative <= room:
            return ("equal" if found.differing == 0 else "agrees"), room
        ended = Place(place.probe, GIVEN[place.phase], place.parameter)
        before = self.earlier.seen.get(ended) if self.earlier else None
        state = "undecided" if before is None else "follows" if before.state == "finding" else before.state
        if state == "undecided":
            because = "it is what the step before made, and that is undecided" if before else UNSEEN
            self.outcome.undecided.append(Undecided(self.outcome.step, place, because, found))
        if state in ("flip", "follows", "undecided"):
            self.tainted[place] = state
            return state, room
        return "rounding", room

    def _derived(self, place: Place, found: Gap, room: float, left: Local, right: Local) -> str:
        """Both sides follow from their own inputs: no difference is this layer's, unless one is far off what rounding does in practice."""
        if place in self.walked.apart:
            return self._told(place, found)
        if found.relative <= room:
            return "equal" if found.differing == 0 else "agrees"
        causes = {self.tainted[one] for one in self.rooms.reads(place) if one in self.tainted}
        noisy = [one for one in (left, right) if one.verdict == "noise"]
        if (
            len(noisy) == 1
            and not causes
            and found.relative > room + self.rooms.gain(place) * self._most_agreeing(place)
        ):
            says = (
                f"{place} of {noisy[0].side} is {noisy[0].likely:.3g} times farther off than rounding takes it in practice, and what it "
                f"is made from agrees; {noisy[0].ratio:.2g} of what rounding could do at worst"
            )
            self._find("differs", place, noisy[0].side, says, found, noisy[0], self._hints(place), noisy[0].by)
            self.tainted[place] = "finding"
            return "finding"
        replayed = self.walked.replayed.get(place)
        if replayed is not None and replayed.relative <= max(room, self.rooms.gain(place) * self._most_agreeing(place)):
            self.tainted[place] = "flip"
            return "flip"
        if "finding" in causes or "follows" in causes:
            self.tainted[place] = "follows"
            return "follows"
        if self._apart(place) and found.relative > room + self.rooms.gain(place) * self._most_agreeing(place):
            return self._told(place, found)
        if "flip" in causes or replayed is not None:
            self.tainted[place] = "flip"
            return "flip"
        return "rounding"

    def _told(self, place: Place, found: Gap) -> str:
        """Each side follows the mathematics that it tells, and they tell different mathematics."""
        maker, said = self._apart(place) or ("", "")
        says = f"{place}: each side follows what it tells, and they tell different mathematics: {said}"
        self._find("told", place, "", says, found, None, (), maker)
        self.tainted[place] = "finding"
        return "finding"

    def _partial(self, place: Place, found: Gap, room: float) -> str:
        """A sum over a batch of which some samples were recorded: what is left once their flips are replayed."""
        rest = self.walked.remainders[place]
        if found.relative > room and (self._follows(place) or "follows" in self._starts()):
            self.tainted[place] = "follows"
            return "follows"
        if rest.left.largest <= max(rest.allowed, room * rest.left.scale):
            if found.relative <= room:
                return "equal" if found.differing == 0 else "agrees"
            if found.largest <= rest.allowed:
                return "rounding"
            self.tainted[place] = "flip"
            return "flip"
        self._candidates[place] = rest.left
        self.tainted[place] = "undecided"
        return "undecided"

    def _starts(self) -> set[str]:
        """What became of the parameters and the state that this step begins with: they are part of every sample, recorded or not."""
        return {cause for place, cause in self.tainted.items() if place.phase in GIVEN}

    def _follows(self, place: Place) -> bool:
        return any(self.tainted.get(one) in ("finding", "follows") for one in self.rooms.reads(place))

    def _compared(
        self, place: Place, found: Gap, room: float, left: Local | None, right: Local | None
    ) -> tuple[str, float]:
        given = place.phase in GIVEN or (place.probe in (INPUT, LABEL) and place.phase == "fwd")
        if given:
            room = self.rooms.stored(place)
        most = self._most_agreeing(place)
        made = self.rooms.reads(place)
        room = room + self.rooms.gain(place) * most if made else room
        if found.relative <= room and not (place.phase == "w_after" and self.rooms.leans(place)):
            return ("equal" if found.differing == 0 else "agrees"), room
        causes = {self.tainted[one] for one in made if one in self.tainted}
        if causes & {"finding", "follows"}:
            self.tainted[place] = "follows"
            return "follows", room
        if place.phase == "w_after" and self.rooms.normalised(place):
            return "rounding", room
        if causes & {"flip", "undecided"}:
            self.tainted[place] = "undecided"
            because = "it is made from what a decision changed, and its own mathematics is not derived"
            self.outcome.undecided.append(Undecided(self.outcome.step, place, because, found))
            return "undecided", room
        if place.phase == "grad_raw" and self._in_parts(place):
            self._candidates[place] = found
            self.tainted[place] = "undecided"
            return "undecided", room
        self._blame(place, found, left, right, given)
        return "finding", room

    def _blame(self, place: Place, found: Gap, left: Local | None, right: Local | None, given: bool) -> None:
        side = self.b.name if left is not None else self.a.name if right is not None else ""
        if given:
            says = f"{place} differs before anything was computed"
        elif side:
            says = f"{place}: what it is made from agrees, and it does not; the other side's follows from its inputs"
        elif self.network.ordered:
            says = f"{place}: what it is made from agrees, and it does not"
        else:
            says = f"{place} differs; what it is made from is not told"
        self.tainted[place] = "finding"
        backward = place.phase in ("lossgrad", "agrad")
        by = ", ".join(self.network.children.get(place.probe, ())) if backward else place.probe
        by = by if self.network.ordered and not given else ""
        hints = (*self._hints(place), *self._exchanged(place))
        self._find("start" if given else "differs", place, side, says, found, left or right, hints, by)

    def _find(
        self,
        kind: str,
        place: Place,
        side: str,
        says: str,
        found: Gap,
        local: Local | None,
        hints: Sequence[str],
        by: str,
    ) -> None:
        self.outcome.findings.append(
            Finding(kind, self.outcome.step, place, side, says, by, (), found, local, tuple(hints))
        )

    # ── what a difference may be ────────────────────────────────────────────────────────────────────────────────────

    def _most_agreeing(self, place: Place) -> float:
        """The largest difference among what a tensor is made from, of what agrees but for rounding."""
        return max((self.gaps[one].relative for one in self.rooms.reads(place) if one not in self.tainted), default=0.0)

    def _apart(self, place: Place) -> tuple[str, str] | None:
        """Who made a tensor by mathematics that the sides tell otherwise, and what they tell."""
        for maker in self._makers(place):
            left, right = (one.rules.get(maker) for one in self.walked.locals)
            if left is not None and right is not None and left.mathematics != right.mathematics:
                return maker, f"of {maker} {self.a.name} tells {left.says}, {self.b.name} {right.says}"
        return None

    def _makers(self, place: Place) -> list[str]:
        """The layers that made a tensor, or the update that did."""
        if place.phase in ("opt_after", "w_after"):
            return [updater(place)]
        if place.phase == "agrad":
            return list(self.network.children.get(place.probe, ()))
        return [probe.name for probe in self.network.probes if called(probe.name) == called(place.probe)]

    def _in_parts(self, place: Place) -> bool:
        samples = {one.sample for one in self.rooms.there_of[place.probe] if one.phase == "agrad"} - {None}
        batch = self.a.told.batch or self.b.told.batch
        return bool(samples) and (batch is None or len(samples) < batch)

    def _hints(self, place: Place) -> list[str]:
        x, y = self.a.tensor(place), self.b.tensor(place)
        return list(hints_of(x, y, self.a.told.batch or self.b.told.batch)) if x.shape == y.shape else []

    def _exchanged(self, place: Place) -> list[str]:
        """Parameters of one shape that were taken for each other."""
        if not place.parameter or not (self.a.has(place) and self.b.has(place)):
            return []
        x, found = self.a.tensor(place), []
        for other in self.rooms.there_of[place.probe]:
            if other.phase != place.phase or other == place or not self.b.has(other):
                continue
            y = self.b.tensor(other)
            if x.shape == y.shape and x.any() and gap(x, y).relative < 1e-3 < self.gaps[place].relative:
                found.append(f"is the other side's {other.parameter}: exchanged")
        return found

    # ── what only flips, or nothing, explains ───────────────────────────────────────────────────────────────────────

    def _sums(self) -> None:
        """Sums over samples that were not recorded: what flips there could explain is undecided, all else a finding."""
        found = self._candidates
        patterns = {place: self._hints(place) for place in found}
        fixed = ("times", "zero", "transposed", "permuted", "signs", "reversed", "shifted")
        plain = {place for place in found if any(word in hint for hint in patterns[place] for word in fixed)}
        apart = self._starts() & {"flip", "undecided"}
        covered = set(found) - plain if apart else self._behind_decisions(set(found) - plain)
        for place in sorted(found, key=self.network.causal):
            left = found[place]
            if place in covered:
                because = BEGAN_APART if apart else TURNED_ELSEWHERE
                self.outcome.undecided.append(Undecided(self.outcome.step, place, because, left))
                continue
            self.tainted[place] = "finding"
            says = f"{place}: what was recorded of what it is made from agrees, and it does not; no decision in another sample explains it"
            seen = self.outcome.seen[place]
            self.outcome.seen[place] = Seen(seen.gap, "finding", seen.locals, seen.allowed)
            hints = (*patterns[place], *self._exchanged(place))
            self._find("differs", place, "", says, left, None, hints, place.probe)
        if found:
            self.outcome.findings.sort(key=lambda one: self.network.causal(one.place) if one.place else (-1, 0, 0, ""))
            self._follow_sums()

    def _follow_sums(self) -> None:
        """What was made from such a sum is of its kind."""
        for place, seen in self.outcome.seen.items():
            if seen.state == "undecided" and any(self.tainted.get(one) == "finding" for one in self.rooms.reads(place)):
                self.outcome.seen[place] = Seen(seen.gap, "follows", seen.locals, seen.allowed)
                self.outcome.undecided = [one for one in self.outcome.undecided if one.place != place]

    def _behind_decisions(self, places: set[Place]) -> set[Place]:
        if not places:
            return set()
        least = TOUCHED * max(self._candidates[place].relative for place in places)
        sums = [place for place in self.gaps if place.phase == "grad_raw"]
        touched = {place for place in sums if place in places or self._left(place) >= least}
        told = any(probe.kind for side in (self.a, self.b) for probe in side.told.probes)
        covered: set[Place] = set()
        for probe in self.network.probes:
            kind = next((s.probes[probe.name].kind for s in (self.a, self.b) if probe.name in s.probes), "")
            if kind not in DECISIONS and (told and kind):
                continue
            behind = {place for place in sums if place.probe in self.network.above[probe.name] - {probe.name}}
            if behind and {place for place in behind if place.parameter != BIAS} <= touched:
                covered |= behind
        return places & covered

    def _left(self, place: Place) -> float:
        rest = self.walked.remainders.get(place)
        return (rest.left if rest else self.gaps[place]).relative

    def _turned(self) -> None:
        """Each flip: whether rounding explains it, and what it explains."""
        for turned in self.walked.turned:
            parents = [
                self.rooms.there(Place(one, "fwd", sample=turned.sample)) for one in self.network.parents(turned.probe)
            ]
            causes = {self.tainted[one] for one in parents if one in self.tainted}
            seen = [self.outcome.seen[one] for one in parents if one in self.outcome.seen]
            noise = max((one.gap.largest for one in seen), default=0.0)
            room = max((one.allowed * one.gap.scale for one in seen), default=0.0)
            # A flip needs no more than the two sides' difference where it happened; the question is where that comes from.
            margin = max((min(turn.margin) for turn in turned.turns), default=0.0)
            held = all(one.state in ("equal", "agrees", "rounding") for one in seen)
            if causes & {"finding", "follows"}:
                honest, because = True, "what it decides by was wrong already"
            elif causes:
                honest, because = True, "what it decides by differs already for a decision before it"
            elif margin <= room or held:
                honest, because = True, "a near-tie: what it decides by agrees but for rounding"
            else:
                honest, because = False, "its margin is far above what rounding makes of what it decides by"
            explains, left = self._explained(turned)
            flip = Flip(self.outcome.step, turned, noise, honest, because, explains, left, bool(causes))
            self.outcome.flips.append(flip)
            if not honest:
                place = parents[0] if parents else Place(turned.probe, "fwd", sample=turned.sample)
                says = f"{turned.count} decisions of {turned.probe} differ by margins up to {margin:.3g}, and rounding makes {room:.2g}"
                self._find("flip", place, "", says, self.gaps[place], None, (), turned.probe)

    def _explained(self, turned: Turned) -> tuple[tuple[str, ...], float]:
        behind = self.network.above.get(turned.probe, frozenset()) - {turned.probe}
        found = [
            place
            for place, seen in self.outcome.seen.items()
            if seen.state == "flip" and place.probe in behind and place.sample in (turned.sample, None)
        ]
        left = [self.walked.replayed[one].relative for one in found if one in self.walked.replayed]
        left += [self.walked.remainders[one].left.relative for one in found if one in self.walked.remainders]
        return tuple(map(str, found)), max(left, default=0.0)
