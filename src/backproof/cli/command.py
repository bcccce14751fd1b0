"""What a command is: a row that says its name and meaning, and a module with `arguments` and `run`."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn, Protocol, cast

from backproof.errors import UsageError

SWITCH = 0.0005  # seconds: threads that do native work ask for the interpreter seldom, and for little


class Exit(IntEnum):
    """What every command answers with."""

    HOLDS = 0
    DOES_NOT_HOLD = 1
    CANNOT_BE_READ = 2
    WRONG_USAGE = 3


class CommandModule(Protocol):
    """The two functions of a command's module."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it, and return the exit code."""


@dataclass(frozen=True)
class Command:
    """One row of the table of commands. The module is loaded only when the command is used."""

    name: str
    says: str
    module: str
    scalar: frozenset[str] = frozenset()  # first arguments that ask for arithmetic on single numbers alone

    def is_scalar(self, arguments: Sequence[str]) -> bool:
        """Whether arithmetic on single numbers is all that is asked for."""
        return not self.scalar.isdisjoint(arguments[:1])

    def load(self, arguments: Sequence[str] = ()) -> CommandModule:
        """The module that carries the command out.

        NumPy starts a thread a core for matrix products, which wait by spinning: scalar work is better off without.
        What is loaded stays: it is not looked through for garbage.
        """
        import importlib

        if self.is_scalar(arguments):
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            sys.setswitchinterval(SWITCH)
            _keep_memory()
        if self.module not in sys.modules:
            gc.disable()
            importlib.import_module(self.module)
            gc.freeze()
            gc.enable()
        return cast("CommandModule", sys.modules[self.module])


def _keep_memory() -> None:
    """Have the C library keep what is freed.

    The blocks of a bundle come and go in the same sizes, and memory that was given back to the system is got again page
    by page. Where the library is another one, nothing is asked of it.
    """
    import ctypes

    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, 64 << 20)
        library.mallopt(_TRIM_THRESHOLD, 256 << 20)
        library.mallopt(_ARENA_MAX, 1)  # else what one thread frees is kept for it alone


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of malloc.h


# What an argument parser complains of, by the words it begins with, and the stable name of that for programs.
_COMPLAINTS = (
    ("unrecognized arguments: -", "INVALID_FLAG"),
    ("argument --topology: invalid choice", "INVALID_TOPOLOGY_ARG"),
    ("one of the arguments --topology", "MISSING_TOPOLOGY_ARG"),
    ("the following arguments are required: file", "MISSING_FILE_ARG"),
    ("the following arguments are required: [mazur|general|multi] FILE", "MISSING_FILE_ARG"),
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is a UsageError, so that every wrong usage leaves by one door."""

    def error(self, message: str) -> NoReturn:
        """Refuse, and point at the help that would have told."""
        code = next((code for begin, code in _COMPLAINTS if message.startswith(begin)), "USAGE")
        raise UsageError(f"{message}{self._near(message)}\n  (see '{self.prog} --help')", code)

    def _near(self, message: str) -> str:
        """The flag that may have been meant."""
        import difflib

        flag = message.rpartition(" ")[2].partition("=")[0]
        near = difflib.get_close_matches(flag, list(self._option_string_actions), n=1) if flag[:2] == "--" else []
        return f"; did you mean {near[0]}?" if near and near[0] != flag else ""
