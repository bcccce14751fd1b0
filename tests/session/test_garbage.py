"""Whatever an operation is given, it records or says what is wrong; and after an error the session is as it was."""

import random
from inspect import Parameter, signature

import numpy as np
import pytest

from backproof import Session
from backproof.errors import BackproofError
from backproof.ir.primitives import PRIMITIVES
from backproof.session.operations import OPERATIONS

SHAPES = ((), (3,), (3, 4), (2, 3, 4), (2, 2, 5, 5), (0,), (0, 3), (4, 2, 3, 3), (1,))
GARBAGE = (
    *(0, 1, 2, 3, -1, -5, 1.5, 0.0, float("nan"), float("inf"), True, False, None, 10**30, 2**63, 1j, 10**9),
    *("", "abc", "sum", "mean", "same", (), (1,), (1, 2), (2, 2), (None,), ("a", "b"), ((0, 1),), (10**6, 10**6)),
    *([], [1, 2], [[1, 2], [3]], {}, object(), slice(1, 2), ..., np.float64(2), np.int64(1), np.array([1, 2])),
)


def a_call(name, references, rng):
    """Arguments of about the right number; a good half of the references are where they belong."""
    given, named = [], {}
    for position, parameter in enumerate(signature(OPERATIONS[name].function).parameters.values()):
        if parameter.kind is Parameter.VAR_POSITIONAL:
            given += rng.choices(references, k=rng.randrange(3))
        elif parameter.kind is Parameter.VAR_KEYWORD:
            wanted = PRIMITIVES[name].params if name in PRIMITIVES else ()
            named |= {key: rng.choice(GARBAGE) for key in wanted if rng.random() < 0.9}
        elif parameter.default is Parameter.empty or rng.random() < 0.4:
            fits = position == 0 or "Ref" in str(parameter.annotation)
            value = rng.choice(references) if (rng.random() < 0.8) == fits else rng.choice(GARBAGE)
            if parameter.kind is Parameter.KEYWORD_ONLY or parameter.default is not Parameter.empty:
                named[parameter.name] = value
            else:
                given.append(value)
    return given, named


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_given_garbage_says_so_and_records_nothing(name):
    rng = random.Random(name)
    for _ in range(4):
        s = Session()
        references = [*(s.input(np.ones(shape)) for shape in SHAPES), s.input_nat(1), s.input_nat_vec([0, 1])]
        for _ in range(15):
            given, named = a_call(name, references, rng)
            before = len(s.graph())
            try:
                getattr(s, name)(*given, **named)
            except BackproofError as error:
                said = str(error)
            else:
                continue
            assert said
            assert len(s.graph()) == before
