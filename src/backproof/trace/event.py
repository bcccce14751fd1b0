"""An event: one tensor seen at one place of a step; and its key, which is its file's name without the ending.

A key is `<probe>.<phase>[.<parameter>][.sNNN]`. Names may have dots; every other character that could mean something to a file system
is written as % and two hexadecimal digits for each of its bytes, so that no name leads out of the folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from backproof.errors import InputError
from backproof.trace.phases import PHASES

PLAIN = "#+-_~"  # beside letters, digits and dots
LONGEST_NAME = 100  # bytes of a probe's or a parameter's name within a key; a file name has 255
SAMPLE = re.compile(r"s([0-9]{3,9})")


@dataclass(frozen=True, slots=True)
class Event:
    """One tensor, at one place of a step."""

    probe: str
    phase: str
    index: int = 0
    """The probe's place in the network's order."""
    sample: int | None = None
    """Which sample of the batch; None for what is of the whole batch."""
    parameter: str = ""
    """Of what is of a parameter: its name within the probe, and of optimizer state `<parameter>.<state>`."""
    tensor: Any = None
    """A NumPy array; bfloat16 may be the uint16 of its bits, with `dtype` said."""
    dtype: str = ""
    """The format, where it is not the array's own."""
    scale: float = 1.0
    """Of quantised numbers: what one step is worth."""
    zero_point: int = 0
    again: bool = False
    """Whether it takes the place of what was told of this place before: of a gradient that grows, the last counts."""

    @property
    def key(self) -> str:
        """The name under which the tensor is kept."""
        return key_of(self.probe, self.phase, self.parameter, self.sample)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A key, taken apart."""

    probe: str
    phase: str
    parameter: str = ""
    sample: int | None = None

    @property
    def key(self) -> str:
        """The key again."""
        return key_of(self.probe, self.phase, self.parameter, self.sample)

    @property
    def column(self) -> str:
        """The place without its sample: what is the same in every sample."""
        return ".".join(part for part in (self.probe, self.phase, self.parameter) if part)

    def __str__(self) -> str:
        return self.column + ("" if self.sample is None else f".s{self.sample:03d}")


def key_of(probe: str, phase: str, parameter: str = "", sample: int | None = None) -> str:
    """The key of a place."""
    if phase not in PHASES:
        raise InputError(f"probe {probe!r}: there is no phase {phase!r}; there are {', '.join(PHASES)}")
    parts = [encoded(probe), phase]
    if parameter:
        parts.append(encoded(parameter))
    if sample is not None:
        parts.append(f"s{sample:03d}")
    return ".".join(parts)


@lru_cache(maxsize=4096)
def encoded(name: str) -> str:
    """A name as part of a file's name; long ones are cut, and told apart by a digest."""
    if not name:
        raise InputError("a probe or a parameter has no name")
    found = quote(name, safe=PLAIN, errors="surrogatepass")
    if found.startswith(("~", ".", "-")):
        found = f"%{ord(found[0]):02X}{found[1:]}"
    found = found.removesuffix(".") + "%2E" if found.endswith(".") else found
    if len(found) > LONGEST_NAME:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        cut = re.sub(r"%.?$", "", found[: LONGEST_NAME - 17])
        found = f"{cut}~{digest}"
    return found


def parse(key: str, probes: Mapping[str, str] | None = None) -> Place:
    """The place of a key; where a name itself looks like a phase, the known probes decide: {as it is written: name}."""
    parts = key.split(".")
    sample = None
    match = SAMPLE.fullmatch(parts[-1])
    if match is not None and len(parts) > 2:
        sample, parts = int(match[1]), parts[:-1]
    best: Place | None = None
    for at in range(len(parts) - 1, 0, -1):
        phase = PHASES.get(parts[at])
        if phase is None or bool(parts[at + 1 :]) > phase.of_parameter:
            continue
        written, parameter = ".".join(parts[:at]), unquote(".".join(parts[at + 1 :]))
        if probes and written in probes:
            return Place(probes[written], phase.name, parameter, sample)
        best = best or Place(unquote(written), phase.name, parameter, sample)
    if best is None:
        raise InputError(
            f"{key[:120]!r} is not the name of a tensor: it should be <probe>.<phase>[.<parameter>][.sNNN], "
            f"with a phase of {', '.join(PHASES)}"
        )
    return best
