"""The session: what it records, what it refuses, and that it trains."""

import inspect
import pydoc

import array_api_compat.torch
import numpy as np
import pytest
import torch

from backproof import Session
from backproof.engine.domain import DOMAINS, namespace
from backproof.errors import BackproofError, GraphError, SessionError
from backproof.session.operations import OPERATIONS, OWN
from backproof.session.tape import backward


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def agree(found, reference):
    """Equal to 1e-12 of the reference's scale."""
    scale = max(1.0, float(np.abs(reference).max(initial=0.0)))
    assert np.abs(np.asarray(found) - np.asarray(reference)).max(initial=0.0) <= 1e-12 * scale


# ── against PyTorch ─────────────────────────────────────────────────────────────────────────────────────────────────

CASES = {
    "scale": (lambda s, x: s.scale(x, 2.5), lambda x: 2.5 * x, [(3, 2)]),
    "abs": (lambda s, x: s.abs(x), torch.abs, [(5,)]),
    "clamp": (lambda s, x: s.clamp(x, -0.5, 0.7), lambda x: x.clamp(-0.5, 0.7), [(3, 4)]),
    "max": (lambda s, a, b: s.max(a, b), torch.maximum, [(4,), (4,)]),
    "min": (lambda s, a, b: s.min(a, b), torch.minimum, [(4,), (4,)]),
    "matmul": (lambda s, a, b: s.matmul(a, b), torch.matmul, [(3, 4), (4, 2)]),
    "bmm": (lambda s, a, b: s.bmm(a, b), torch.bmm, [(2, 3, 4), (2, 4, 5)]),
    "concat_vectors": (lambda s, a, b: s.concat_vectors(a, b), lambda a, b: torch.cat([a, b]), [(2,), (3,)]),
    "concat_leading_axis": (
        lambda s, a, b: s.concat_leading_axis(a, b),
        lambda a, b: torch.cat([a, b]),
        [(2, 3), (1, 3)],
    ),
    "slice_leading_axis_range": (
        lambda s, x: s.slice_leading_axis_range(x, 1, 2),
        lambda x: x[1:3],
        [(4, 2)],
    ),
    "flatten": (lambda s, x: s.flatten(x), torch.flatten, [(2, 3)]),
    "reshape": (lambda s, x: s.reshape(x, (3, 2)), lambda x: x.reshape(3, 2), [(2, 3)]),
    "transpose2d": (lambda s, x: s.transpose2d(x), lambda x: x.T, [(2, 3)]),
    "transpose3d_first_to_last": (
        lambda s, x: s.transpose3d_first_to_last(x),
        lambda x: x.permute(1, 2, 0),
        [(2, 3, 4)],
    ),
    "transpose3d_last_to_first": (
        lambda s, x: s.transpose3d_last_to_first(x),
        lambda x: x.permute(2, 0, 1),
        [(2, 3, 4)],
    ),
    "transpose3d_last_two": (
        lambda s, x: s.transpose3d_last_two(x),
        lambda x: x.permute(0, 2, 1),
        [(2, 3, 4)],
    ),
    "swap_adjacent_at_depth": (
        lambda s, x: s.swap_adjacent_at_depth(x, 1),
        lambda x: x.permute(0, 2, 1),
        [(2, 3, 4)],
    ),
    "broadcast_to": (lambda s, x: s.broadcast_to(x, (4, 3)), lambda x: x.expand(4, 3), [(3,)]),
    "reduce_sum": (lambda s, x: s.reduce_sum(x, 1), lambda x: x.sum(1), [(2, 3)]),
    "reduce_mean": (lambda s, x: s.reduce_mean(x, 0), lambda x: x.mean(0), [(2, 3)]),
    "gather_scalar": (lambda s, x: s.gather_scalar(x, 2), lambda x: x[2], [(4,)]),
    "gather_row": (lambda s, x: s.gather_row(x, 1), lambda x: x[1], [(3, 2)]),
    "gather_vec_nat": (lambda s, x: s.gather_vec_nat(x, [1, 1, 0]), lambda x: x[[1, 1, 0]], [(4,)]),
    "gather_rows_nat": (lambda s, x: s.gather_rows_nat(x, [2, 0, 2]), lambda x: x[[2, 0, 2]], [(3, 2)]),
    "scatter_add_vec": (
        lambda s, x, v: s.scatter_add_vec(x, v, 1),
        lambda x, v: x + torch.eye(3, dtype=x.dtype)[1] * v,
        [(3,), ()],
    ),
    "scatter_add_row": (
        lambda s, x, v: s.scatter_add_row(x, v, 2),
        lambda x, v: x + torch.eye(3, dtype=x.dtype)[2][:, None] * v,
        [(3, 2), (2,)],
    ),
    "softplus": (lambda s, x: s.softplus(x), torch.nn.functional.softplus, [(5,)]),
    "safe_log": (
        lambda s, x: s.safe_log(x, 1e-3),
        lambda x: torch.log(torch.nn.functional.softplus(x) + 1e-3),
        [(5,)],
    ),
    "softmax": (lambda s, x: s.softmax(x), lambda x: torch.softmax(x, -1), [(3, 4)]),
    "log_softmax": (lambda s, x: s.log_softmax(x), lambda x: torch.log_softmax(x, -1), [(3, 4)]),
    "sum": (lambda s, x: s.sum(x), torch.sum, [(3, 4)]),
    "linear": (lambda s, x, w, b: s.linear(x, w, b), torch.nn.functional.linear, [(4,), (3, 4), (3,)]),
    "mse_loss": (lambda s, x, t: s.mse_loss(x, t), torch.nn.functional.mse_loss, [(3, 2), (3, 2)]),
    "layer_norm": (
        lambda s, x, w, b: s.layer_norm(x, w, b),
        lambda x, w, b: torch.nn.functional.layer_norm(x, (4,), w, b, 1e-6),
        [(3, 4), (4,), (4,)],
    ),
    "batchnorm_channel_first": (
        lambda s, x, w, b: s.batchnorm_channel_first(x, w, b),
        lambda x, w, b: torch.nn.functional.batch_norm(x[None], None, None, w, b, training=True, eps=1e-6)[0],
        [(2, 3, 4), (2,), (2,)],
    ),
    "conv2d, one sample": (
        lambda s, x, w, b: s.conv2d(x, w, b, stride=2, padding=1),
        lambda x, w, b: torch.nn.functional.conv2d(x, w, b, stride=2, padding=1),
        [(2, 5, 6), (3, 2, 3, 3), (3,)],
    ),
    "conv, a batch over one axis": (
        lambda s, x, w, b: s.conv(x, w, b, dilation=2),
        lambda x, w, b: torch.nn.functional.conv1d(x, w, b, dilation=2),
        [(2, 2, 9), (3, 2, 3), (3,)],
    ),
    "conv_transpose2d": (
        lambda s, x, w, b: s.conv_transpose2d(x, w, b, stride=2),
        lambda x, w, b: torch.nn.functional.conv_transpose2d(x, w, b, stride=2),
        [(2, 3, 3), (2, 3, 2, 2), (3,)],
    ),
    "max_pool2d": (
        lambda s, x: s.max_pool2d(x, 2, 2),
        lambda x: torch.nn.functional.max_pool2d(x, 2, 2),
        [(2, 4, 6)],
    ),
    "max_pool, padded": (
        lambda s, x: s.max_pool(x, (3,), 2, 1),
        lambda x: torch.nn.functional.max_pool1d(x, 3, 2, 1),
        [(2, 7)],
    ),
    "avg_pool2d": (
        lambda s, x: s.avg_pool2d(x, 2, 2),
        lambda x: torch.nn.functional.avg_pool2d(x, 2, 2),
        [(2, 4, 6)],
    ),
    "smooth_max_pool2d": (
        lambda s, x: s.smooth_max_pool2d(x, 2, 2, beta=3.0),
        lambda x: torch.logsumexp(3 * x.unfold(1, 2, 2).unfold(2, 2, 2).flatten(3), -1) / 3,
        [(2, 4, 6)],
    ),
    "multi_head_attention": (
        lambda s, x, q, k, v, o: s.multi_head_attention(x, q, k, v, o, 2, np.tri(3, dtype=bool)),
        lambda x, q, k, v, o: (
            torch.nn.functional.scaled_dot_product_attention(
                *((x @ w).reshape(1, 3, 2, 4).transpose(1, 2) for w in (q, k, v)),
                attn_mask=torch.ones(3, 3, dtype=torch.bool).tril(),
            )
            .transpose(1, 2)
            .reshape(3, 8)
            @ o
        ),
        [(3, 5), (5, 8), (5, 8), (5, 8), (8, 5)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_operation_agrees_with_pytorch_forward_backward_and_in_forward_mode(case, rng):
    record, reference, shapes = CASES[case]
    given = [rng.normal(size=shape) for shape in shapes]
    s = Session()
    x = [s.input(value) for value in given]
    y = record(s, *x)
    seed = rng.normal(size=y.shape)
    tangents = [rng.normal(size=shape) for shape in shapes]

    grads = s.backward_dense_all(y, seed)
    tangent = s.jvp_dense_all(y, tangents)

    t = [torch.tensor(value, requires_grad=True) for value in given]
    out = reference(*t)
    out.backward(torch.tensor(seed))
    agree(s.value(y), out.detach().numpy())
    for ref, leaf in zip(x, t, strict=True):
        agree(s.grad(grads, ref), leaf.grad.numpy())
    agree(
        np.sum(tangent * seed),
        sum(np.sum(dx * leaf.grad.numpy()) for dx, leaf in zip(tangents, t, strict=True)),
    )


def test_every_operation_of_the_reference_session_is_offered():
    names = """const add sub mul scale abs detach sqrt clamp max min matmul bmm concat_vectors concat_leading_axis
    slice_leading_axis_range max_pool smooth_max_pool avg_pool max_pool2d smooth_max_pool2d avg_pool2d relu flatten reshape transpose2d
    transpose3d_first_to_last transpose3d_last_to_first transpose3d_last_two swap_adjacent_at_depth broadcast_to reduce_sum reduce_mean
    gather_scalar gather_row gather_scalar_nat gather_vec_nat gather_rows_nat gather_scalar_ref gather_row_ref gather_vec_ref
    gather_rows_ref scatter_add_vec scatter_add_row sigmoid tanh exp softplus log safe_log softmax log_softmax sum linear mse_loss
    layer_norm batchnorm_channel_first conv conv_transpose conv2d conv_transpose2d multi_head_attention""".split()
    s = Session()

    assert len(names) == 62
    assert [name for name in names if name not in dir(s)] == []
    assert all(operation.says for operation in OPERATIONS.values())
    assert len({operation.name for operation in OWN}) == len(OWN)


def test_a_row_of_attention_with_all_entries_blocked_is_zero(rng):
    s = Session()
    x, *w = [s.input(rng.normal(size=shape)) for shape in [(3, 4), (4, 4), (4, 4), (4, 4), (4, 4)]]
    mask = np.ones((3, 3), dtype=bool)
    mask[1] = False

    y = s.multi_head_attention(x, *w, 2, mask)

    assert np.all(s.value(y)[1] == 0)
    assert np.all(np.isfinite(s.grad(s.backward_dense_all(y, np.ones((3, 4))), x)))


def test_the_softmax_of_a_scalar_is_one():
    s = Session()
    x = s.input(3.0)

    assert s.value(s.softmax(x)) == 1
    assert s.value(s.log_softmax(x)) == 0


def test_sqrt_has_derivative_zero_at_and_below_zero():
    s = Session()
    x = s.input([4.0, 0.0, -1.0])
    y = s.sqrt(x)

    assert s.value(y).tolist() == [2, 0, 0]
    assert s.grad(s.backward_dense_all(y, np.ones(3)), x).tolist() == [0.25, 0, 0]


def test_detach_stops_both_modes():
    s = Session()
    x = s.input(2.0)
    y = s.mul(x, s.detach(x))

    assert s.grad(s.backward_scalar_dense_all(y), x) == 2
    assert s.jvp_scalar_leaf(y, x, 1.0) == 2


# ── naturals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_naturals_can_be_changed_after_operations_and_the_graph_is_replayed(rng):
    table = rng.normal(size=(4, 2))
    s = Session()
    t, i, v = s.input(table), s.input_nat(1), s.input_nat_vec([3, 3])
    row, rows = s.gather_row_ref(t, i), s.gather_rows_ref(t, v)
    assert s.value(row).tolist() == table[1].tolist()

    s.set_nat(i, 2)
    s.set_nat_vec(v, [0, 3])

    assert (s.get_nat(i), s.get_nat_vec(v)) == (2, [0, 3])
    assert s.value(row).tolist() == table[2].tolist()
    assert s.value(rows).tolist() == table[[0, 3]].tolist()
    assert (i.start, v.start, v.length) == (0, 1, 2)


def test_an_index_that_points_nowhere_reads_zero_and_gets_no_gradient():
    s = Session()
    x = s.input([1.0, 2.0])
    y = s.gather_vec_nat(x, [5, 1])

    assert s.value(y).tolist() == [0, 2]
    assert s.grad(s.backward_dense_all(y, np.ones(2)), x).tolist() == [0, 1]


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


def recorded():
    s = Session()
    x, y = s.input(np.ones((2, 3)), "x"), s.input(np.ones((3, 2)), "y")
    return s, x, y, s.matmul(x, y)


def test_a_leaf_after_a_node_is_refused_and_reset_is_named():
    s, *_ = recorded()

    for late in (
        lambda: s.input([1.0], "late"),
        lambda: s.use(s.param([1.0], "late")),
        lambda: s.input_nat(1),
    ):
        with pytest.raises(SessionError, match="reset_tape"):
            late()


def test_const_is_a_leaf_before_the_first_node_and_a_node_after_it():
    s = Session()
    a = s.const([1.0, 2.0])
    x = s.input([3.0, 4.0])
    y = s.add(x, a)
    z = s.mul(y, s.const([2.0, 3.0]))
    grads = s.backward_dense_all(z, np.ones(2))

    assert len(s.graph().leaves) == 2
    assert s.value(z).tolist() == [8, 18]
    assert s.grad(grads, x).tolist() == [2, 3]
    with pytest.raises(SessionError, match="constant"):
        s.grad(grads, a)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda s, x, y: s.add(x, y), r"shape \[3, 2\], input 0 has \[2, 3\]"),
        (lambda s, x, y: s.matmul(x, x), "contracted"),
        (lambda s, x, y: s.bmm(x, y), "stacks"),
        (lambda s, x, y: s.reshape(x, (4,)), "6 numbers"),
        (lambda s, x, y: s.gather_row(x, 2), "not one of the 2"),
        (lambda s, x, y: s.slice_leading_axis_range(x, 1, 2), "beyond"),
        (lambda s, x, y: s.mse_loss(x, y), "shape"),
    ],
)
def test_a_wrong_shape_is_refused_and_nothing_is_recorded(wrong, match):
    s, x, y, _ = recorded()
    before = len(s.graph())

    with pytest.raises(GraphError, match=match):
        wrong(s, x, y)
    assert len(s.graph()) == before


def test_a_session_a_parameter_and_an_operation_say_what_they_are():
    s, *_ = recorded()
    stride = inspect.signature(s.conv2d).parameters["stride"]

    assert repr(s) == "Session(float64: 2 leaves, 1 operations)"
    assert (s.conv2d.__name__, stride.default) == ("conv2d", 1)
    assert "one sample or a batch" in pydoc.render_doc(s.conv2d)
    assert repr(s.param(np.ones((2, 3)), "w")) == "Parameter(w, shape [2, 3])"


def test_foreign_and_stale_references_are_told_apart():
    s, x, _, _ = recorded()
    other, z, _, _ = recorded()

    with pytest.raises(SessionError, match="foreign"):
        s.add(x, z)
    s.reset_tape()
    with pytest.raises(SessionError, match="stale"):
        s.value(x)
    for late in (lambda: x + x, lambda: -x, lambda: x[0], lambda: x @ x):
        with pytest.raises(GraphError, match="stale"):
            late()


def test_wrong_seeds_and_outputs_are_refused():
    s, x, _, out = recorded()

    with pytest.raises(SessionError, match=r"seed must have the shape of the output, \[2, 2\]"):
        s.backward_dense_all(out, np.ones(3))
    with pytest.raises(SessionError, match="scalar"):
        s.backward_scalar_dense_all(out)


def test_a_truth_value_has_no_gradient_and_an_output_must_exist():
    s = Session()
    x = s.input([1.0])
    flag = s.gt(x, x)
    tape = s.compile_tape()

    with pytest.raises(SessionError, match="only reals"):
        backward(tape, flag.id, np.ones(1))
    with pytest.raises(SessionError, match=r"%7 does not exist; .* from %0 to %1"):
        backward(tape, 7, np.ones(1))


def test_wrong_tangents_are_refused_with_their_numbers():
    s, x, _, out = recorded()

    with pytest.raises(SessionError, match="2 leaves of reals, and got 1"):
        s.jvp_dense_all(out, [np.ones((2, 3))])
    with pytest.raises(SessionError, match=r"tangent 1 has shape \[1\]"):
        s.jvp_dense_all(out, [np.ones((2, 3)), np.ones(1)])
    with pytest.raises(SessionError, match="no leaf"):
        s.jvp_leaf(out, out, np.ones((2, 2)))
    with pytest.raises(SessionError, match="scalars"):
        s.jvp_scalar_leaf(out, x, 1.0)


def test_a_gradient_that_was_not_computed_is_not_given_as_zero():
    s = Session()
    x, frozen = s.input([1.0], requires_grad=False), s.use(s.param([2.0], "frozen", requires_grad=False))
    y = s.sum(s.mul(x, frozen))
    z = s.const(1.0)
    grads = s.backward_scalar_dense_all(y)

    for ref, match in [
        (x, "requires_grad=False"),
        (frozen, "requires_grad=False"),
        (z, "depends on nothing"),
    ]:
        assert grads[ref.id] is None
        with pytest.raises(SessionError, match=match):
            s.grad(grads, ref)


def test_a_gradient_recorded_before_the_value_is_outside_of_the_array():
    s, _, _, out = recorded()
    grads = s.backward_dense_all(out, np.ones((2, 2)))
    late = s.sum(out)

    with pytest.raises(SessionError, match="recorded later"):
        s.grad(grads, late)


def test_an_unknown_operation_is_an_attribute_error_and_dir_lists_the_known():
    with pytest.raises(AttributeError, match="softplux"):
        Session().softplux  # noqa: B018


def test_what_the_user_does_to_an_array_later_is_no_part_of_the_session():
    given = np.ones(2)
    s = Session()
    x = s.input(given)
    given[0] = 5

    assert s.value(x).tolist() == [1, 1]


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sgd_moves_every_parameter_but_the_frozen_and_twice_what_is_used_twice():
    s = Session()
    p, frozen, twice = s.param(2.0, "p"), s.param(3.0, "frozen", requires_grad=False), s.param(1.0, "twice")
    a, b, c, d = s.use(p), s.use(frozen), s.use(twice), s.use(twice)
    loss = s.mul(s.mul(a, b), s.add(c, d))

    s.sgd_step_all(0.1, s.backward_scalar_dense_all(loss))

    assert p.value == pytest.approx(2 - 0.1 * 6)
    assert frozen.value == 3
    assert twice.value == pytest.approx(1 - 2 * 0.1 * 6)


def test_a_parameter_takes_what_it_is_given():
    s = Session("float32")
    w = s.param([1.0, 2.0], "w")
    w.value = [3, 4]
    leaf = s.use(w)
    s.sgd_step_all(0.5, s.backward_dense_all(s.mul(leaf, leaf), [1, 1]))

    assert s.value(leaf).tolist() == [3, 4]
    assert (w.value.dtype, w.value.tolist()) == (np.float32, [0, 0])
    w.value = "text"
    s.reset_tape()
    with pytest.raises(SessionError, match="w: cannot read"):
        s.use(w)


def test_sgd_refuses_gradients_that_do_not_fit():
    s = Session()
    s.use(s.param([1.0, 2.0]))

    with pytest.raises(SessionError, match="0 gradients"):
        s.sgd_step_all(0.1, [])
    with pytest.raises(SessionError, match=r"shape \[3\]"):
        s.sgd_step_all(0.1, [np.ones(3)])


@pytest.mark.parametrize("domain", [*DOMAINS, pytest.param(namespace(array_api_compat.torch), id="torch")])
def test_a_session_runs_in_every_domain_of_numbers(domain):
    s = Session(domain)
    x, w, picked = s.input([[1, 2], [3, 4]]), s.param([[-1], [1]]), s.input_nat_vec([1, 0, 1])
    leaf = s.use(w)
    rows = s.gather_rows_ref(s.matmul(x, leaf), picked)
    loss = s.sum(s.mul(rows, rows))

    grads = s.backward_scalar_dense_all(loss)
    s.sgd_step_all(1, grads)

    assert s.grad(grads, leaf).tolist() == [[14], [20]]
    assert s.jvp_leaf(loss, leaf, [[1], [0]]) == 14
    assert s.get_nat_vec(picked) == [1, 0, 1]
    assert s.certify(loss).holds


def test_a_bounded_session_tells_its_bounds_and_no_other_does(rng):
    values = rng.normal(size=(3, 3)).astype(np.float32)
    s, f = Session("bounded"), Session("float32")
    x, a = s.input(values), f.input(values)
    y, b = s.tanh(s.matmul(x, x)), f.tanh(f.matmul(a, a))
    up = np.ones((3, 3))

    certain, likely = s.bounds(y)
    of_gradient, _ = s.bounds(x, grads := s.backward_dense_all(y, up))

    assert (np.abs(s.value(y) - f.value(b)) <= certain).all()
    assert (likely <= certain).all()
    assert (np.abs(s.grad(grads, x) - f.grad(f.backward_dense_all(b, up), a)) <= of_gradient).all()
    assert (s.bounds(x)[0] == 0).all()
    with pytest.raises(SessionError, match="float32 carries no bounds"):
        f.bounds(b)
    for strange, match in (([None], "outside"), ("text", "expected the gradients")):
        with pytest.raises(SessionError, match=match):
            s.bounds(y, strange)


def test_certify_speaks_of_what_was_recorded():
    s, _, _, out = recorded()

    found = s.certify(s.sum(s.tanh(out)))

    assert found.holds
    assert found.error < 1e-15


# ── misuse ──────────────────────────────────────────────────────────────────────────────────────────────────────────

MISUSE = {
    "a number for a reference": (lambda s, x: s.tanh(3.0), "tanh takes references"),
    "a text for a reference": (lambda s, x: s.add("a", x), "add takes references"),
    "nothing given": (lambda s, x: s.tanh(), "missing a required argument: 'x'"),
    "too many given": (lambda s, x: s.tanh(x, x), "tanh takes 1 inputs, and got 2"),
    "an unknown parameter": (lambda s, x: s.softmax(x, axis=0), "unexpected keyword argument 'axis'; it takes"),
    "a text for a number": (lambda s, x: s.scale(x, "a"), "scale: c is a number, and got str"),
    "a reference for a number": (lambda s, x: s.scale(x, x), "scale: c is a number, and got Ref"),
    "numbers for a reference": (
        lambda s, x: s.conv2d(x, np.ones((1, 1, 2, 2))),
        "conv2d: weight is a reference of this session",
    ),
    "a number to add at a place": (lambda s, x: s.scatter_add_row(x, 1.0, 0), "value is a reference of this session"),
    "windows without end": (lambda s, x: s.adaptive_avg_pool1d(x, 10**12), "windows"),
    "a size without end": (lambda s, x: s.adaptive_max_pool1d(x, 10**12), "windows"),
    "a reference for numbers": (lambda s, x: Session().input(x), "no array while it is recorded"),
    "rows of different lengths": (lambda s, x: s.input_nat_vec([[1], [1, 2]]), "rows of different lengths"),
    "gradients that are none": (lambda s, x: s.grad([1.0], x), "got float among them"),
    "another domain's parameter": (
        lambda s, x: Session("exact").use(s.param([1.0], "w")),
        r"Parameter\(w, shape \[1\]\) is of float64, and this session computes in exact",
    ),
    "a number of trials that is none": (lambda s, x: s.certify(x, trials="4"), "'4' trials"),
    "a seed that is none": (lambda s, x: s.certify(x, seed=0.5), "seed 0.5"),
    "a fraction for a place": (lambda s, x: s.slice_leading_axis_range(x, 0.5, 1), "slice_leading_axis_range: "),
    "no heads": (lambda s, x: s.multi_head_attention(x, x, x, x, x, 0), "0 heads"),
    "a ragged parameter": (lambda s, x: s.param([[1], [2, 3]]), "the parameter: "),
    "a complex input": (lambda s, x: s.input([1j]), "complex"),
    "a natural that is none": (lambda s, x: s.input_nat("a"), "natural number below 2\\^63, got 'a'"),
    "a natural that is too large": (lambda s, x: s.input_nat(10**30), "natural number below 2\\^63"),
    "a table for a vector": (lambda s, x: s.input_nat_vec([[1, 2]]), "a vector of natural numbers"),
    "no gradients": (lambda s, x: s.grad(None, x), "expected the gradients"),
    "no gradients to step by": (lambda s, x: s.sgd_step_all(0.1, None), "expected the gradients"),
    "a text for a rate": (lambda s, x: s.sgd_step_all("a", []), "a finite number, not 'a'"),
    "a rate that is no number": (lambda s, x: s.sgd_step_all(float("nan"), []), "a finite number, not nan"),
    "no tangents": (lambda s, x: s.jvp_dense_all(x, None), "one tangent for each leaf"),
    "no domain": (lambda s, x: Session(None), "a Domain or the name of one"),
    "an unknown domain": (lambda s, x: Session("float7"), "there are float64"),
    "nothing to certify": (lambda s, x: Session().certify(), "nothing was recorded"),
    "another session's output to certify": (lambda s, x: Session().certify(x), "nothing was recorded"),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_is_an_error_of_ours_and_records_nothing(case):
    call, match = MISUSE[case]
    s = Session()
    x = s.input(np.ones((2, 2)))
    before = len(s.graph())

    with pytest.raises(BackproofError, match=match):
        call(s, x)

    assert len(s.graph()) == before


def test_a_training_loop_leaves_nothing_behind(rng):
    """Memory after many steps is memory after a few, and every session that was reset is forgotten."""
    import gc
    import tracemalloc

    s = Session()
    w, data = s.param(rng.normal(size=(8, 8))), rng.normal(size=(4, 8))

    def steps(count):
        for _ in range(count):
            s.reset_tape()
            x, leaf, target = s.input(data), s.use(w), s.input_nat_vec([0, 1, 2, 3])
            loss = s.cross_entropy(s.tanh(x @ leaf), target)
            s.sgd_step_all(0.01, s.backward_scalar_dense_all(loss))
            s.jvp_leaf(loss, leaf, data[:1].repeat(8, axis=0))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        few = steps(20)
        many = steps(300)
    finally:
        tracemalloc.stop()

    assert many - few < 20_000  # bytes; a graph that was kept would be some 10,000 a step
    assert len(s._past) <= 1
