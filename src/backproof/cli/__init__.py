"""The command line: `bp COMMAND ...`. One file per command; this one finds it, runs it, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from backproof import __version__
from backproof.cli.command import Command, Exit, Parser
from backproof.errors import BackproofError, UsageError, printable

FRAMEWORKS = frozenset({"pytorch", "jax", "tensorflow"})  # of the sidecars of classic receipts
KINDS = frozenset({"mazur", "general", "multi"})  # of classic receipts

COMMANDS = (
    Command("certify", "check a recorded graph's backward pass by identity testing", "backproof.cli.certify"),
    Command(
        "compare",
        "compare two traces, layer by layer: where they part, and which side is wrong",
        "backproof.cli.compare",
    ),
    Command("examples", "print the file that records a framework's training steps", "backproof.cli.examples"),
    Command("explain", "explain a rule of receipts, or a practice", "backproof.cli.explain"),
    Command("generate", "run the engine and print the canonical receipt of its step", "backproof.cli.generate"),
    Command("import", "make receipts of what a framework recorded", "backproof.cli.import_", FRAMEWORKS),
    Command("practices", "list what holds and is hardly meant", "backproof.cli.practices"),
    Command("keygen", "make a key to sign receipts with", "backproof.cli.keygen"),
    Command("prove", "have the proof kernel recompute a graph's gradients", "backproof.cli.prove"),
    Command("receipt", "seal a recorded run: digests of everything, signed or not", "backproof.cli.receipt"),
    Command("reconcile", "judge one receipt by the rules alone", "backproof.cli.reconcile"),
    Command("report", "draw what was found as one HTML page that works offline", "backproof.cli.report"),
    Command("rules", "list the rules of receipts", "backproof.cli.rules"),
    Command("run", "record the training steps of an unchanged script", "backproof.cli.run_"),
    Command("scaffold", "print a built-in topology input to start from", "backproof.cli.scaffold"),
    Command("schema", "print the JSON Schema of a format", "backproof.cli.schema"),
    Command("show", "draw the step of a small network, with what does not hold in red", "backproof.cli.show"),
    Command("sweep", "run two implementations over many batches, and compare every one", "backproof.cli.sweep"),
    Command("trace", "look into a trace: what was recorded, and its numbers", "backproof.cli.trace"),
    Command("validate", "validate a receipt against its format", "backproof.cli.validate"),
    Command("validate-input", "validate a topology input", "backproof.cli.validate_input"),
    Command("verify", "derive every claim of a file again, and say which does not hold", "backproof.cli.verify", KINDS),
)


def _usage() -> str:
    width = max(len(command.name) for command in COMMANDS)
    rows = "\n".join(f"  {command.name:<{width}}  {command.says}" for command in COMMANDS)
    return (
        "usage: bp COMMAND [arguments]\n\n"
        "Makes a neural network's training step checkable.\n\n"
        f"commands:\n{rows}\n\n"
        "'bp COMMAND --help' explains one. Exit codes: 0 holds, 1 does not hold, 2 cannot be read, 3 wrong usage.\n"
    )


def _find(name: str) -> Command:
    for command in COMMANDS:
        if command.name == name:
            return command
    import difflib

    near = difflib.get_close_matches(name, [command.name for command in COMMANDS], n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(c.name for c in COMMANDS)}"
    raise UsageError(f"unknown command {name!r}; {hint}")


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line and return its exit code; errors are raised."""
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(_usage(), end="")
        return Exit.HOLDS
    if arguments[0] in {"-v", "--version"}:
        print(__version__)
        return Exit.HOLDS
    command = _find(arguments[0])
    module = command.load(arguments[1:])
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog=f"bp {command.name}", description=module.__doc__, allow_abbrev=False, formatter_class=raw)
    module.arguments(parser)
    return module.run(parser.parse_args(arguments[1:]))


def _command_first(arguments: Sequence[str]) -> list[str]:
    """The same command line with the flags that stand before its command behind it: `bp --json verify FILE`."""
    flags, rest = [], list(arguments)
    while len(rest) > 1 and rest[0].startswith("-") and rest[0] not in {"-h", "--help", "-v", "--version"}:
        flags.append(rest.pop(0))
        if flags[-1] in {"--color", "--format", "--out", "--topology"} and len(rest) > 1:
            flags.append(rest.pop(0))
    return [*rest[:1], *flags, *rest[1:]]


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point of `bp`: every error becomes a message on stderr and an exit code, never a traceback."""
    given = _command_first(sys.argv[1:] if arguments is None else arguments)
    try:
        code = run(given)
        sys.stdout.flush()
    except BackproofError as error:
        if isinstance(error, UsageError) and ({"--json", "--format=json"} & set(given)):
            from backproof.cli.envelope import error_envelope, print_json

            print_json(error_envelope(error))
            return error.exit_code
        print(f"bp: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; nothing is left to say to it
        return Exit.HOLDS
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        with suppress(OSError):
            sys.stdout.close()  # what is left in it cannot be written either
        print(f"bp: not all that there is to say could be written: {error.strerror}", file=sys.stderr)
        return Exit.CANNOT_BE_READ
    except KeyboardInterrupt:
        print("bp: interrupted; nothing half written is kept", file=sys.stderr)
        return 130
    else:
        return code


def console() -> NoReturn:
    """What `bp` is: `main` in a process of its own.

    Taking apart what was loaded is time for nothing. Only work on single numbers is cut short like that: other commands
    run code of others, which may have something left to do at the end.
    """
    given = _command_first(sys.argv[1:])
    code = main(given)
    if any(given[:1] == [command.name] and command.is_scalar(given[1:]) for command in COMMANDS):
        with suppress(OSError, ValueError):  # what could not be written is told by the other exit
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    console()
