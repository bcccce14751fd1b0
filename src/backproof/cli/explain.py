"""Explain a rule of receipts: what it states, why, and which mistakes it must catch; or a practice: its condition, and what to do."""

from __future__ import annotations

import argparse

from backproof.cli.command import Exit
from backproof.cli.envelope import print_json
from backproof.errors import UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "rule", help="the number or name of a rule, or the name of a practice ('bp rules', 'bp practices' list them)"
    )
    parser.add_argument("--json", action="store_true", help="the explanation as JSON")


def run(args: argparse.Namespace) -> int:
    """Explain one rule, or one practice."""
    from backproof.rules import RULES, rule_of

    if args.rule.isdigit():
        rule = rule_of(int(args.rule))
    else:
        named = [rule for rule in RULES if rule.name == args.rule]
        if not named:
            return _practice(args)
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


def _practice(args: argparse.Namespace) -> int:
    from backproof.verify.practices import PRACTICES

    if args.rule not in PRACTICES:
        raise UsageError(f"no rule or practice is called {args.rule!r}; 'bp rules' and 'bp practices' list them")
    practice = PRACTICES[args.rule]
    if args.json:
        print_json(
            {"practice": practice.name, "says": practice.says, "advice": practice.advice, "declare": practice.declare}
        )
    else:
        print(
            f"practice: {practice.name}\n\n  {practice.says}\n\nEvery equation of such a step holds; it is reported as suspect. "
            f"What to do: {practice.advice}.\nWhere it is meant: {practice.declare}, which is recorded and shown."
        )
    return Exit.HOLDS
