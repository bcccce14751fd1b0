"""Every exception of backproof, drawn as a tree.

An error is what the *caller* can mend; a wrong number is a finding in a verdict, never an exception.

    BackproofError
    ├── UsageError         what was asked for makes no sense                      exit 3
    ├── InputError         what was given cannot be read                          exit 2
    ├── MissingToolError   a program or an optional package is not installed      exit 2
    ├── GraphError         a graph that breaks a rule of the language
    ├── DomainError        an operation that this domain of numbers does not have
    └── SessionError       a session used against its rules
"""

from __future__ import annotations

from typing import Any


def printable(text: str) -> str:
    """A text from a file as a terminal may see it: what would steer it, or cannot be encoded, is spelled out."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON in which no name is twice: of two, each reader could take another."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)[:80]!r} is in it twice")
    return found


class BackproofError(Exception):
    """The root of every error that backproof raises on purpose."""

    exit_code = 2


class UsageError(BackproofError):
    """What was asked for makes no sense: an unknown command, flag or value."""

    exit_code = 3

    def __init__(self, message: str, code: str = "USAGE") -> None:
        super().__init__(message)
        self.code = code  # its stable name for programs


class InputError(BackproofError):
    """What was given cannot be read: missing, truncated, malformed, too large or hostile."""


class MissingToolError(BackproofError):
    """A program or an optional package that the request needs is not installed."""


class GraphError(BackproofError):
    """A graph that breaks a rule of the language: a wrong shape, an unknown name, a leaf after a node."""


class DomainError(BackproofError):
    """An operation that this domain of numbers does not have, such as exp over the rationals."""


class SessionError(BackproofError):
    """A session used against its rules: a stale reference, a wrong seed, a leaf after a node."""
