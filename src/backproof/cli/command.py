"""What a command is: a row that says its name and meaning, and a module with `arguments` and `run`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn, Protocol, cast

from backproof.errors import UsageError


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

    def load(self) -> CommandModule:
        """The module that carries the command out."""
        import importlib

        return cast("CommandModule", importlib.import_module(self.module))


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is a UsageError, so that every wrong usage leaves by one door."""

    def error(self, message: str) -> NoReturn:
        """Refuse, and point at the help that would have told."""
        raise UsageError(f"{message}\n  (see '{self.prog} --help')")
