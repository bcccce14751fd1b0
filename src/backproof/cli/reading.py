"""What a command reads: a file, or standard input for `-`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from backproof.errors import GraphError, InputError

if TYPE_CHECKING:
    from backproof.ir.graph import Graph

LARGEST = 1 << 30


def read_bytes(name: str) -> bytes:
    """All of a file, or of standard input; up to 1 GiB."""
    try:
        if name == "-":
            found = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with Path(name).open("rb") as file:
                found = file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None
    except ValueError as error:  # a name with a NUL in it
        raise InputError(f"{name!r}: {error}") from None
    if len(found) > LARGEST:
        raise InputError(f"{name}: larger than {LARGEST} bytes, which is more than a graph can be")
    return found


def read_text(name: str) -> str:
    """All of a file, or of standard input, as UTF-8."""
    try:
        return read_bytes(name).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 (byte {error.start}: {error.reason})") from None


def read_graph(name: str) -> Graph:
    """A graph from a file, in either of its forms."""
    from backproof.ir import text

    try:
        return text.read_graph(read_text(name))
    except GraphError as error:
        raise InputError(f"{name}: {error}") from None
    except InputError as error:
        raise error if str(error).startswith(name) else InputError(f"{name}: {error}") from None
