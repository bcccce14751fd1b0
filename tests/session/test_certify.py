"""Identity testing finds each planted mistake, names the value, and says nothing of honest graphs."""

from dataclasses import replace

import numpy as np
import pytest

from backproof.engine.domain import float64
from backproof.engine.evaluate import evaluate
from backproof.engine.field import P
from backproof.errors import SessionError
from backproof.ir.backprop import backprop
from backproof.ir.build import Builder
from backproof.ir.primitive import Primitive
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.rounding import Special
from backproof.ir.tensor import Tensor
from backproof.ir.types import integer, real
from backproof.session.certify import certify
from backproof.session.tape import backward, compile_tape, run_backward


def network(activation="tanh"):
    """x W₁ + b₁, an activation, W₂, a difference, and a sum of squares: every value but one is used once, the difference twice."""
    b = Builder()
    x, w1, b1 = b.leaf(real(3, 4), "x"), b.leaf(real(4, 5), "w1"), b.leaf(real(5), "b1")
    w2, y = b.leaf(real(5, 2), "w2"), b.leaf(real(3, 2), "y")
    e = b.apply(activation, x @ w1 + b1) @ w2 - y
    return b.graph(b.sum(e * e, axes=(0, 1)))


def embedding():
    b = Builder()
    table, index = b.leaf(real(7, 3), "table"), b.leaf(integer(5), "index")
    rows = b.gather(table, index, axis=0)
    return b.graph(b.sum(b.tanh(rows), axes=(0, 1)))


@pytest.mark.parametrize("activation", ["tanh", "exp", "relu", "sigmoid", "erf", "sqrt", "abs"])
def test_an_honest_graph_is_certified(activation):
    found = certify(network(activation), seed=1)

    assert found.holds, str(found)
    assert found.error < 1e-15
    assert "equal to integers" in found.integers


def test_an_honest_gather_with_repeated_indices_is_certified():
    found = certify(embedding(), integers={1: np.array([2, 2, 0, 6, 2])}, seed=1)

    assert found.holds, str(found)


def test_an_honest_node_of_many_inputs_is_certified():
    b = Builder()
    parts = [b.leaf(real(2, size), f"part{size}") for size in range(1, 5)]
    graph = b.graph(b.sum(b.tanh(b.concat(*parts, axis=1)), axes=(0, 1)))

    assert certify(graph, seed=1).holds

    def leaving_out(tape, gradients):
        return run_backward(replace(tape, steps=tuple(replace(s, pulls=s.pulls[:3]) for s in tape.steps)), gradients)

    found = certify(graph, seed=1, loop=leaving_out)

    assert {refusal.place for refusal in found.refusals} == {"%3 leaf (part4)"}


def test_the_chance_of_error_follows_from_the_degree_and_the_symbols():
    b = Builder()
    x = b.leaf(real(5), "x")
    cube = certify(b.graph(b.sum(x * x * x, axes=(0,))), trials=1)
    symbols = certify(b.graph(b.sum(b.exp(x), axes=(0,))), trials=2)

    # dx·x·x and the seed, and no symbol; then dx·exp(x) and the seed, where the arguments of 5 symbols may be equal by accident.
    assert (cube.degree, cube.symbols, cube.error) == (4, 0, pytest.approx(4 / P))
    assert (symbols.degree, symbols.symbols) == (3, 5)
    assert symbols.error == pytest.approx((3 * (1 + 5**2 / 2) / P) ** 2)


def test_the_report_can_be_repeated_from_its_seed():
    first = certify(network(), trials=1)

    assert certify(network(), trials=1, seed=first.seed) == first


# ── mistakes in the loop ────────────────────────────────────────────────────────────────────────────────────────────


def overwriting(tape, gradients):
    """Overwrites where it should accumulate."""
    for step in reversed(tape.steps):
        x = tuple(tape.values[a] for a in step.arguments)
        for parent, rule in step.pulls:
            gradients[parent] = rule(tape.domain, x, tape.values[step.value], gradients[step.value], **step.params)
    return gradients


def dropping(tape, gradients):
    """Drops the second contribution of the last product."""
    last = tape.steps[-2]
    steps = [replace(s, pulls=s.pulls[:1]) if s is last else s for s in tape.steps]
    return run_backward(replace(tape, steps=tuple(steps)), gradients)


def swapping(tape, gradients):
    """Reads the two operands of a difference the wrong way round."""
    steps = [
        replace(s, pulls=((s.pulls[0][0], s.pulls[1][1]), (s.pulls[1][0], s.pulls[0][1])))
        if tape.graph.node(s.value).op == "sub"
        else s
        for s in tape.steps
    ]
    return run_backward(replace(tape, steps=tuple(steps)), gradients)


class Stale:
    """Starts from what an earlier backward pass left behind in a parameter's entry."""

    def __init__(self):
        self.left = None

    def __call__(self, tape, gradients):
        if self.left is None:
            self.left = run_backward(tape, list(gradients))[1]
        gradients[1] = self.left
        return run_backward(tape, gradients)


def forward_order(tape, gradients):
    """Walks from the first node to the last."""
    return run_backward(replace(tape, steps=tape.steps[::-1]), gradients)


@pytest.mark.parametrize(
    ("loop", "place"),
    [
        (overwriting, "sub"),
        (dropping, "sub"),
        (swapping, "dot_general"),
        (Stale(), "leaf (w1)"),
        (forward_order, "sub"),
    ],
    ids=["overwritten", "dropped accumulation", "swapped operand", "stale gradient", "forward order"],
)
def test_a_mistake_in_the_loop_is_found_and_placed(loop, place):
    found = certify(network(), seed=1, loop=loop)

    assert not found.holds
    assert found.refusals[0].check == "tape = definition"
    assert place in found.refusals[0].place


def test_a_tape_that_leaves_a_leaf_out_does_not_decide_what_is_compared(monkeypatch):
    from backproof.session import tape

    wanted = tape.wanted_values
    monkeypatch.setattr(tape, "wanted_values", lambda *given: tuple(w and i != 1 for i, w in enumerate(wanted(*given))))

    found = certify(network(), seed=1)

    assert found.refusals[0].check == "tape = definition"
    assert "leaf (w1)" in found.refusals[0].place


def test_a_frozen_leaf_is_left_out_of_the_tape_and_its_own_definition():
    all_of_it, without = certify(network(), seed=1), certify(network(), frozen={0, 4}, seed=1)

    assert all_of_it.holds
    assert without.holds
    assert all_of_it.numbers - without.numbers == 3 * 4 + 3 * 2


def test_a_gradient_that_frozen_leaves_cut_off_is_missed(monkeypatch):
    from backproof.session import tape

    monkeypatch.setattr(
        tape, "wanted_values", lambda graph, frozen=(): (False,) * len(graph) if frozen else (True,) * len(graph)
    )

    assert certify(network(), seed=1).holds
    assert not certify(network(), frozen={4}, seed=1).holds


# ── mistakes in the rules ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_wrong_vjp_is_found_at_its_node(monkeypatch):
    rule = PRIMITIVES["tanh"].vjp[0]
    wrong = lambda D, x, y, gy: D.add(rule(D, x, y, gy), gy)
    monkeypatch.setitem(PRIMITIVES, "tanh", replace(PRIMITIVES["tanh"], vjp=(wrong,)))

    found = certify(network(), seed=1)

    assert [r.check for r in found.refusals] == ["adjoint"]
    assert "tanh" in found.refusals[0].place


def log_softmax(jvp):
    """log-softmax as one primitive, with this jvp."""

    def vjp(D, x, y, gy):
        total = D.broadcast(D.sum(gy, axes=(0,)), shape=gy.shape, axes=())
        return D.sub(gy, D.mul(D.exp(y), total))

    def forward(K, x):
        return K.subtract(x, K.broadcast_to(K.logsumexp(x, axis=(0,)), x.shape))

    return Primitive("log_softmax", "y = x − ln Σ eˣ", lambda x: x, forward, (jvp,), (vjp,), Special())


def right_jvp(D, x, y, dx):
    inner = D.sum(D.mul(D.exp(y), dx), axes=(0,))
    return D.sub(dx, D.broadcast(inner, shape=dx.shape, axes=()))


def vjp_taken_for_jvp(D, x, y, dx):
    total = D.broadcast(D.sum(dx, axes=(0,)), shape=dx.shape, axes=())
    return D.sub(dx, D.mul(D.exp(y), total))


@pytest.mark.parametrize(("jvp", "holds"), [(right_jvp, True), (vjp_taken_for_jvp, False)])
def test_a_jvp_that_is_the_vjp_is_found(monkeypatch, jvp, holds):
    monkeypatch.setitem(PRIMITIVES, "log_softmax", log_softmax(jvp))
    b = Builder()
    x = b.leaf(real(3), "x")
    graph = b.graph(b.apply("log_softmax", x))

    found = certify(graph, seed=1)

    assert found.holds == holds
    if not holds:
        assert "log_softmax" in found.refusals[0].place
        assert "jvp and the vjp of input 0 are not adjoint" in found.refusals[0].because


def test_a_zero_jvp_for_a_gather_is_found(monkeypatch):
    gather = PRIMITIVES["gather"]
    monkeypatch.setitem(PRIMITIVES, "gather", replace(gather, jvp=(None, None)))

    found = certify(embedding(), seed=1)

    assert not found.holds
    assert "gather" in found.refusals[0].place


def test_a_vjp_that_reads_a_stale_operand_is_found(monkeypatch):
    mul = PRIMITIVES["mul"]
    stale = lambda D, x, y, gy: D.mul(gy, x[0])
    monkeypatch.setitem(PRIMITIVES, "mul", replace(mul, vjp=(stale, mul.vjp[1])))
    b = Builder()
    u, v = b.leaf(real(3), "u"), b.leaf(real(3), "v")

    found = certify(b.graph(b.sum(u * v, axes=(0,))), seed=1)

    assert not found.holds
    assert "mul" in found.refusals[0].place


def test_a_wrong_float_kernel_is_found_by_equality_with_integers(monkeypatch):
    from backproof.engine import exactfloat

    class Off(exactfloat._Surrogates):
        def matmul(self, a, b):
            found = np.matmul(a, b)
            found.flat[0] += 2.0**-30
            return found

    monkeypatch.setattr(exactfloat, "_Surrogates", Off)

    found = certify(network(), seed=1)

    assert found.refusals[0].check == "float64 = integers, forward"
    assert "dot_general" in found.refusals[0].place


def test_a_sum_of_gradients_that_is_wrong_in_floats_alone_is_found_by_equality_with_integers():
    def off_in_floats(tape, gradients):
        found = run_backward(tape, gradients)
        if found[1].dtype == np.float64:
            found[1] = np.nextafter(found[1], np.inf)  # by the smallest amount there is
        return found

    found = certify(network(), seed=1, loop=off_in_floats)

    assert [(refusal.check, refusal.place) for refusal in found.refusals] == [
        ("float64 = integers, backward", "%1 leaf (w1)")
    ]


def not_whole():
    """Constants of every sort that is not whole: a number, a tensor's, an infinity, an exponent, and those that rules bring along."""
    b = Builder()
    x = b.leaf(real(3), "x")
    floor = b.maximum(
        b.constant(value=Tensor.of(np.array([0.25, 3.0, -8.0])), shape=(3,)), b.constant(value=-np.inf, shape=(3,))
    )
    h = b.pow(b.maximum(x * 0.1, floor), b.constant(value=-2.5, shape=(3,)))
    return b.graph(b.sum(b.erf(h) * b.pow(x, b.constant(value=2.0, shape=(3,))), axes=(0,)))


def test_numbers_that_are_not_whole_are_stood_in_for_on_both_sides():
    found = certify(not_whole(), seed=1)

    assert found.holds, str(found)
    assert found.integers.startswith("equal to integers in every entry")
    assert "; stood in for: -2.5 by" in found.integers


def test_what_is_off_where_numbers_are_stood_in_for_is_found():
    def off_in_floats(tape, gradients):
        found = run_backward(tape, gradients)
        if found[0].dtype == np.float64:
            found[0] = np.nextafter(found[0], np.inf)
        return found

    found = certify(not_whole(), seed=1, loop=off_in_floats)

    assert [(refusal.check, refusal.place) for refusal in found.refusals] == [
        ("float64 = integers, backward", "%0 leaf (x)")
    ]


@pytest.mark.parametrize("exponent", [60.0, 5000.0])
def test_what_is_too_large_to_be_checked_in_integers_is_said(exponent):
    b = Builder()
    x = b.leaf(real(30), "x")

    found = certify(b.graph(b.sum(b.pow(x * 0.1, b.constant(value=exponent, shape=(30,))), axes=(0,))), seed=1)

    assert found.holds
    assert found.integers.startswith("not run: numbers may reach")


# ── the loop and the definition in floating point ───────────────────────────────────────────────────────────────────


def test_the_loop_and_the_definition_agree_to_the_last_bit_in_float64():
    graph, D = network(), float64()
    rng = np.random.default_rng(0)
    values = evaluate(graph, D, [rng.normal(size=leaf.type.shape) for leaf in graph.leaves])
    one = np.asarray(1.0)

    tape = backward(compile_tape(graph, D, values), graph.outputs[0], one)
    definition = backprop(graph, D, values, {graph.outputs[0]: one})

    pairs = [(a, b) for a, b in zip(tape, definition, strict=True) if a is not None]
    assert len(pairs) == len(graph)
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_nothing_to_differentiate_is_an_error():
    b = Builder()
    b.leaf(real(3))

    with pytest.raises(SessionError, match="no output"):
        certify(b.graph())
