"""Reading a trace: which steps and tensors there are, and each tensor when it is asked for, by memory map. Nothing is trusted.

With a manifest, what it lists is what should be there; without one, as in folders of other tools, what is there is what there is.
"""

from __future__ import annotations

import ast
import math
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from backproof.errors import InputError
from backproof.trace.event import Place, encoded, parse
from backproof.trace.manifest import NAME, Manifest, Stored, read_manifest
from backproof.trace.place import leads_out
from backproof.trace.safetensors import Tensors

Array = np.ndarray[Any, Any]
Header = tuple[np.dtype[Any], tuple[int, ...], Literal["C", "F"]]
STEP = re.compile(r"step([0-9]{1,9})(\.safetensors)?")
LONGEST_HEADER = 1 << 20
MAPPED = 1 << 20  # bytes from which on a file is mapped and not read
NUMBERS = "fiub"  # the kinds of NumPy that are read: no objects, no text, no records


@dataclass(frozen=True)
class TraceStep:
    """The tensors of one step."""

    index: int
    path: Path
    keys: Mapping[str, Place]
    """key → its place."""
    stored: Mapping[str, Stored]
    """What the manifest says of them; empty without one."""
    unnamed: tuple[str, ...] = ()
    """Files that are not named like a tensor."""
    root: Path = Path()
    """The trace's folder, which nothing that is read leads out of."""

    @cached_property
    def places(self) -> dict[Place, str]:
        """place → its key."""
        return {place: key for key, place in self.keys.items()}

    @cached_property
    def _file(self) -> Tensors | None:
        return Tensors(self.path) if self.path.suffix == ".safetensors" else None

    def raw(self, place: Place) -> Array:
        """A tensor as it is stored, in its own format and read only."""
        key = self.places[place]
        if self._file is not None:
            return self._file[key]
        return read_npy(self.path / f"{key}.npy", self.root)

    def _held(self, key: str, found: Array) -> str:
        """The format in which a file holds numbers; `.npy` has bfloat16 as the bits of uint16, and only the manifest can say so."""
        if self._file is not None and self._file.dtype(key) == "BF16":
            return "bfloat16"
        said = self.stored.get(key)
        half = said is not None and said.dtype == "bfloat16" and found.dtype == np.uint16
        return "bfloat16" if half else str(found.dtype.name)

    def misfit(self, place: Place) -> str:
        """How a file is another than the manifest says; empty where it is not."""
        key = self.places[place]
        said = self.stored.get(key)
        if said is None or not said.dtype:
            return ""
        found = self.raw(place)
        held = self._held(key, found)
        if (held, found.shape) == (said.dtype, said.shape):
            return ""
        return f"the manifest says {said.dtype} {list(said.shape)}, and it holds {held} {list(found.shape)}"

    def tensor(self, place: Place) -> Array:
        """A tensor's numbers: bfloat16 as float32, quantised numbers as what they stand for, whole numbers as they are."""
        found, said = self.raw(place), self.stored.get(self.places[place])
        if said is None:
            return found
        if said.dtype == "bfloat16" and found.dtype == np.uint16:
            return (found.astype(np.uint32) << 16).view(np.float32)
        if said.scale != 1.0 or said.zero_point:
            with np.errstate(over="ignore"):
                return (found.astype(np.float64) - said.zero_point) * said.scale
        return found

    def dtype(self, place: Place) -> str:
        """The format of a tensor: the file's own, whatever the manifest says."""
        return self._held(self.places[place], self.raw(place))


@dataclass(frozen=True)
class Trace:
    """A trace on disk."""

    path: Path
    manifest: Manifest | None
    steps: Mapping[int, TraceStep]

    @property
    def told(self) -> Manifest:
        """The manifest, or what is known without one."""
        return self.manifest or Manifest()


def open_trace(path: Path | str) -> Trace:
    """The trace in a folder; a folder of `.npy` files alone is one step."""
    folder = Path(path)
    if not folder.exists():
        raise InputError(f"{folder}: there is no such folder")
    if not folder.is_dir():
        raise InputError(f"{folder}: is a file; a trace is a folder with {NAME} or step000/")
    manifest = read_manifest(folder)
    names = {encoded(probe.name): probe.name for probe in manifest.probes} if manifest else {}
    steps: dict[int, TraceStep] = {}
    for item in sorted(folder.iterdir()):
        match = STEP.fullmatch(item.name)
        if match is None or item.is_dir() == bool(match[2]):
            continue
        index = int(match[1])
        if index in steps:
            raise InputError(f"{folder}: step {index} is there twice, as {steps[index].path.name} and as {item.name}")
        steps[index] = _step(index, item, folder, manifest, names)
    if not steps and any(folder.glob("*.npy")):
        steps[0] = _step(0, folder, folder, manifest, names)
    for index in manifest.steps if manifest else ():
        if index not in steps:
            steps[index] = TraceStep(index, folder / f"step{index:03d}", {}, manifest.steps[index] if manifest else {})
    if not steps:
        raise InputError(f"{folder}: no step of a trace is in it (step000/ with .npy files, or step000.safetensors)")
    return Trace(folder, manifest, dict(sorted(steps.items())))


def _step(index: int, path: Path, root: Path, manifest: Manifest | None, names: dict[str, str]) -> TraceStep:
    if path.is_symlink() and path != root and leads_out(path, root):
        raise InputError(f"{path}: leads out of {root}; what is read of a trace is inside of it")
    if path.is_dir():
        files = sorted(item.name for item in path.iterdir())
        keys = [name[: -len(".npy")] for name in files if name.endswith(".npy")]
        others = [name for name in files if not name.endswith((".npy", ".npy.part")) and name != NAME]
    else:
        keys, others = list(Tensors(path)), []
    found: dict[str, Place] = {}
    for key in keys:
        try:
            found[key] = parse(key, names)
        except InputError:
            others.append(key)
    places = set(found.values())
    if len(places) < len(found):
        raise InputError(f"{path}: two files are of the same place; samples are written with three digits or more")
    said = manifest.steps.get(index, {}) if manifest else {}
    return TraceStep(index, path, found, said, tuple(others), root)


def read_npy(path: Path, root: Path) -> Array:
    """The numbers of a `.npy` file in a folder, by memory map; anything but a plain file of plain numbers of known size is refused."""
    try:
        seen = path.lstat()
        if stat.S_ISLNK(seen.st_mode):
            if leads_out(path, root):
                raise InputError(f"{path}: leads out of {root}; what is read of a trace is inside of it")
            seen = path.stat()
        if not stat.S_ISREG(seen.st_mode):
            raise InputError(f"{path}: is not a plain file")
        with path.open("rb") as file:
            dtype, shape, order = _header(file)
            start, end = file.tell(), file.seek(0, 2)
            file.seek(start)
            small = file.read() if end - start < MAPPED else None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise InputError(f"{path}: not a .npy file: {str(error)[:120]}") from None
    if dtype.kind not in NUMBERS or any(type(n) is not int or n < 0 for n in shape) or len(shape) > 32:
        raise InputError(f"{path}: holds {dtype} in the shape {list(shape)}; only plain numbers are read")
    size = math.prod(shape) * dtype.itemsize
    if end - start != size:
        wrong = "cut short" if end - start < size else "too long"
        raise InputError(
            f"{path}: {wrong}: {list(shape)} of {dtype} takes {size} bytes, and {end - start} follow the header"
        )
    if small is not None:
        return np.frombuffer(small, dtype=dtype).reshape(shape, order=order)
    return np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape, order=order)


def _header(file: BinaryIO) -> Header:
    version = np.lib.format.read_magic(file)
    size = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
    if size > LONGEST_HEADER:
        raise ValueError(f"its header is said to have {size} bytes")
    return _parsed(file.read(size), "latin1" if version < (3, 0) else "utf-8")


@lru_cache(maxsize=1024)
def _parsed(text: bytes, encoding: str) -> Header:
    """A header's contents: most files of a trace have one of a few."""
    header = ast.literal_eval(text.decode(encoding))
    return np.dtype(header["descr"]), tuple(header["shape"]), "F" if header["fortran_order"] else "C"
