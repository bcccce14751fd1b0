"""On random uses of every primitive, the proved program and the exact domain compute the same values and gradients."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from points import law, points

from backproof.ir.build import Builder
from backproof.ir.primitives import PRIMITIVES
from backproof.session.proof_translation import RULES
from backproof.session.prove import prove


@pytest.mark.parametrize("op", RULES)
@law(5)
@given(data=st.data())
def test_the_oracle_agrees_with_the_exact_domain(op, data):
    point = data.draw(points(op))
    if point.type.kind != "real":
        return
    b = Builder()
    graph = b.graph(b.apply(op, *(b.leaf(kind) for kind in point.types), **point.params))

    found = prove(graph, seed=point.seed, by="oracle")

    assert found.holds, str(found)


@pytest.mark.without_coq
def test_every_differentiable_primitive_has_an_instruction():
    assert {op for op, primitive in PRIMITIVES.items() if primitive.differentiable} <= set(RULES)
