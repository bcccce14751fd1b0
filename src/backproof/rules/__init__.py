"""The rules of receipts: one file each, permanent numbers. A rule derives claims; `verify` compares."""

from __future__ import annotations

from backproof.errors import UsageError
from backproof.rules import (
    r00_network,
    r01_output_signal,
    r02_contributions,
    r03_hidden_signal,
    r04_gradient,
    r05_update,
    r06_weight_after,
    r07_parameters_after,
    r08_provenance,
    r09_chain,
    r10_trace,
    r11_softmax,
    r12_loss,
    r13_dual_form,
    r14_replay,
    r15_skip_basis,
    r16_subject_digest,
    r17_bundle_digest,
    r18_batch_loss,
    r19_samples,
    r20_optimizer,
    r21_momentum,
    r22_moments,
    r23_time,
    r24_adam_update,
    r25_state_chain,
    r26_constant_settings,
    r27_forward,
    r28_copies,
    r29_after_update,
    r30_wiring,
    r31_completeness,
    r32_batch,
    r33_first_state,
    r34_status,
    r35_canonical,
    r36_one_run,
)
from backproof.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    r00_network.RULE,
    r01_output_signal.RULE,
    r02_contributions.RULE,
    r03_hidden_signal.RULE,
    r04_gradient.RULE,
    r05_update.RULE,
    r06_weight_after.RULE,
    r07_parameters_after.RULE,
    r08_provenance.RULE,
    r09_chain.RULE,
    r10_trace.RULE,
    r11_softmax.RULE,
    r12_loss.RULE,
    r13_dual_form.RULE,
    r14_replay.RULE,
    r15_skip_basis.RULE,
    r16_subject_digest.RULE,
    r17_bundle_digest.RULE,
    r18_batch_loss.RULE,
    r19_samples.RULE,
    r20_optimizer.RULE,
    r21_momentum.RULE,
    r22_moments.RULE,
    r23_time.RULE,
    r24_adam_update.RULE,
    r25_state_chain.RULE,
    r26_constant_settings.RULE,
    r27_forward.RULE,
    r28_copies.RULE,
    r29_after_update.RULE,
    r30_wiring.RULE,
    r31_completeness.RULE,
    r32_batch.RULE,
    r33_first_state.RULE,
    r34_status.RULE,
    r35_canonical.RULE,
    r36_one_run.RULE,
)


def rule_of(number: int) -> Rule:
    """The rule of that number."""
    for rule in RULES:
        if rule.number == number:
            return rule
    raise UsageError(f"there is no rule {number}; rules have the numbers 0 to {RULES[-1].number}")
