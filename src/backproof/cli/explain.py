"""Explain a rule: what it states, why, and which mistakes it must catch."""

from __future__ import annotations

import argparse

from backproof.cli.command import Exit
from backproof.cli.envelope import print_json
from backproof.errors import UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("rule", help="the number or name of a rule ('bp rules' lists them)")
    parser.add_argument("--json", action="store_true", help="the explanation as JSON")


def run(args: argparse.Namespace) -> int:
    """Explain one rule."""
    from backproof.rules import RULES, rule_of

    if args.rule.isdigit():
        rule = rule_of(int(args.rule))
    else:
        named = [rule for rule in RULES if rule.name == args.rule]
        if not named:
            raise UsageError(f"no rule is called {args.rule!r}; 'bp rules' lists them")
        rule = named[0]
    catches = [mutation.name for mutation in rule.mutations]
    if args.json:
        print_json(
            {"number": rule.number, "name": rule.name, "states": rule.states, "reason": rule.reason, "catches": catches}
        )
        return Exit.HOLDS
    scope = "across the records of a bundle" if rule.across else "in every record that it applies to"
    print(
        f"rule {rule.number}: {rule.name}\n\n  {rule.states}\n\n{rule.reason}\n\nIt is checked {scope}. It catches, among others:"
    )
    for name in catches:
        print(f"  - {name}")
    return Exit.HOLDS
