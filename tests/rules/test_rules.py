from __future__ import annotations

import pytest
from honest import receipts
from mutate import mutated
from subjects import SUBJECTS, subject

from backproof.errors import UsageError
from backproof.rules import RULES, rule_of
from backproof.verify import verify_receipts

CASES = [(rule, mutation) for rule in RULES for mutation in rule.mutations]


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_good_receipt_holds(name):
    documents = subject(name)

    verdict = verify_receipts(receipts(documents), bundle=len(documents) > 1)

    assert [(f.rule, f.path, f.because) for f in verdict.findings] == []
    assert verdict.deviations == ()
    assert verdict.holds


@pytest.mark.parametrize(("rule", "mutation"), CASES, ids=[f"{r.number}-{m.name}".replace(" ", "-") for r, m in CASES])
def test_a_rule_catches_the_mutations_that_it_names(rule, mutation):
    documents = mutated(subject(mutation.subject), mutation)

    verdict = verify_receipts(receipts(documents), bundle=len(documents) > 1)

    assert not verdict.holds
    assert rule.number in {finding.rule for finding in verdict.findings}


def test_every_rule_names_a_mutation_and_has_its_number():
    assert [rule.number for rule in RULES] == list(range(len(RULES)))
    assert all(rule.mutations for rule in RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_an_unknown_rule_is_wrong_usage():
    with pytest.raises(UsageError, match="0 to 36"):
        rule_of(99)
