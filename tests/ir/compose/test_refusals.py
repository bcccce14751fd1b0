"""What makes no sense is refused where it is said, with what was found."""

import re

import numpy as np
import pytest

from backproof.errors import GraphError
from backproof.ir.build import Builder
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.types import boolean, integer, real

X, IMAGE, LINE = real(4, 6), real(2, 4, 8, 8), real(2, 4, 9)

REFUSED = [
    ("linear", (X, real(5, 7)), {}, "(out, in)"),
    ("linear", (X, real(5, 6), real(6)), {}, "5 along axis 1"),
    ("embedding", (X, real(5, 6)), {}, "integers"),
    ("embedding", (integer(3), real(5, 6)), {"padding_idx": 5}, "padding_idx 5 of 5 rows"),
    ("dropout", (X, boolean(4, 6)), {"p": 1.5}, "p is 1.5"),
    ("conv", (IMAGE, real(3, 4, 3, 3)), {"padding": "full"}, "'full'"),
    ("conv", (IMAGE, real(3, 4, 3, 3)), {"padding": "same", "stride": 2}, "stride 1, not [2, 2]"),
    ("conv", (IMAGE, real(3, 4, 3, 3)), {"padding": -1}, "must not be negative"),
    ("conv", (IMAGE, real(3, 3, 3, 3)), {}, "4 input channels"),
    ("conv2d", (real(4, 4), real(3, 4, 3, 3)), {}, "conv2d takes x[batch, channels, 2 of space]"),
    ("conv", (IMAGE, real(3, 4, 3, 3)), {"stride": (1, 2, 3)}, "2 axes of space"),
    ("conv_transpose", (IMAGE, real(3, 4, 3, 3)), {}, "[in, out/groups, window...]"),
    ("conv_transpose", (IMAGE, real(4, 4, 3, 3)), {"output_padding": 1}, "less than the stride"),
    ("max_pool2d", (IMAGE,), {"kernel_size": 2, "padding": 2}, "half of the window's size 2"),
    ("max_pool2d", (IMAGE,), {"kernel_size": 9}, "does not fit into 8 cells"),
    ("avg_pool2d", (IMAGE,), {"kernel_size": 2, "divisor_override": 0}, "must not be 0"),
    ("smooth_max_pool2d", (IMAGE,), {"kernel_size": 2, "beta": 0.0}, "beta must not be 0"),
    ("adaptive_avg_pool2d", (IMAGE,), {"output_size": (2, 0)}, "one positive number, or 2"),
    ("interpolate", (IMAGE,), {}, "either size or scale_factor"),
    ("interpolate", (IMAGE,), {"size": 0}, "each must be from 1"),
    ("adaptive_max_pool2d", (IMAGE,), {"output_size": 10**6}, "more than"),
    ("attention", (real(2, 4, 4, 5), *(real(2, 3, 4, 5),) * 2), {"enable_gqa": True}, "cannot share"),
    ("attention", (real(5), X, X), {}, "takes (…, length, size)"),
    ("padded", (LINE,), {"pad": (1, 1), "mode": "mirror"}, "'mirror'; there are 'constant', 'replicate'"),
    ("padded", (LINE,), {"pad": (9, 0), "mode": "reflect"}, "around 9 cells"),
    ("padded", (LINE,), {"pad": (0, 10), "mode": "circular"}, "around 9 cells"),
    ("padded", (LINE,), {"pad": (1,)}, "two numbers for each axis"),
    ("conv", (IMAGE, real(3, 4, 3, 3)), {"stride": 0.5}, "stride is one whole number, or 2 of them"),
    ("conv_transpose", (IMAGE, real(4, 4, 3, 3)), {"groups": 0}, "groups 0"),
    ("interpolate", (IMAGE,), {"size": 4, "mode": "cubic"}, "'cubic'"),
    ("layer_norm", (X,), {"normalized_shape": 5}, "[5] must be the last axes of real[4,6]"),
    ("batch_norm", (X,), {}, "needs running_mean and running_var"),
    ("batch_norm_running", (real(1, 6), real(6), real(6)), {}, "no variance"),
    ("group_norm", (X,), {"num_groups": 4}, "4 groups"),
    ("instance_norm", (X,), {}, "space"),
    (
        "attention",
        (X, X, X),
        {"is_causal": True, "attn_mask": np.ones((4, 4), dtype=bool)},
        "either attn_mask or is_causal",
    ),
    ("glu", (real(3, 5),), {}, "2 equal parts"),
    ("gelu", (X,), {"approximate": "cubic"}, "'cubic'"),
    ("clamp", (X,), {}, "neither lo nor hi"),
    ("clamp", (X,), {"lo": 0.0, "ends": "half"}, "'half'"),
    ("prelu", (real(3), real(3)), {}, "no channels"),
    ("mean", (X,), {"dim": 2}, "dim 2 of a value of rank 2"),
    ("mean", (X,), {"dim": (0, -2)}, "names an axis twice"),
    ("mse_loss", (X, X), {"reduction": "max"}, "'max'"),
    ("smooth_l1_loss", (X, X), {"beta": -1.0}, "beta is -1.0"),
    ("huber_loss", (X, X), {"delta": 0.0}, "delta is 0.0"),
    ("cross_entropy", (X, integer(6)), {}, "int[batch, more...]"),
    ("cross_entropy", (X, real(4, 5)), {}, "one shape"),
    ("cross_entropy", (X, integer(4)), {"label_smoothing": 2.0}, "from 0 to 1"),
    ("rnn_cell", (X, real(4, 3), real(3, 6), real(3, 3)), {"nonlinearity": "sin"}, "'sin'"),
    ("lstm", (real(0, 2, 3), None, real(8, 3), real(8, 2)), {}, "empty sequence"),
]


@pytest.mark.parametrize(
    ("name", "types", "params", "because"), REFUSED, ids=[f"{r[0]}-{i}" for i, r in enumerate(REFUSED)]
)
def test_what_makes_no_sense_is_refused(name, types, params, because):
    B = Builder()
    leaves = [None if kind is None else B.leaf(kind) for kind in types]

    with pytest.raises(GraphError, match=re.escape(because)):
        COMPOSITIONS[name].function(*leaves, **params)


def test_every_composition_says_its_mathematics_in_one_line():
    for name, composition in COMPOSITIONS.items():
        assert composition.name == name
        assert composition.says
        assert "\n" not in composition.says
        assert composition.function.__doc__
