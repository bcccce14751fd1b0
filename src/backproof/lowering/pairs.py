"""Complex numbers as pairs of reals, which lie along one more axis, the last: so they are recorded, and so are their gradients.

A call that reads or makes one is recorded under a name of its own, with the places of its complex arguments as `paired`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backproof.ir.build import Ref
from backproof.ir.compose.reduce import norm, total
from backproof.lowering.arithmetic import as_real
from backproof.lowering.indexing import INDEXING
from backproof.lowering.lowering import Lowering, moved

PAIRED = "paired_"
"""What the name of such a call begins with."""
_getitem = next(one.function for one in INDEXING if one.name == "getitem")


def _parts(x: Any, *, paired: bool) -> tuple[Any, Any]:
    """The real and the imaginary part; a number has none of the latter."""
    if not isinstance(x, Ref):
        return float(x), None
    if not paired:
        return as_real(x, x), None
    return tuple(x.builder.reshape(part, shape=x.shape[:-1]) for part in (x[..., 0:1], x[..., 1:2]))  # type: ignore[return-value] # two


def _pair(re: Ref, im: Ref) -> Ref:
    parts = [x.builder.reshape(x, shape=(*x.shape, 1)) for x in (re, im)]
    return re.builder.concat(*parts, axis=len(re.shape))


def _mul(a: Any, b: Any, *, paired: Sequence[int]) -> Ref:
    (ar, ai), (br, bi) = _parts(a, paired=0 in paired), _parts(b, paired=1 in paired)
    if ai is None or bi is None:
        (re, im), factor = ((br, bi), ar) if ai is None else ((ar, ai), br)
        return _pair(re * factor, im * factor)
    return _pair(ar * br - ai * bi, ar * bi + ai * br)


def _added(sign: float) -> Callable[..., Ref]:
    def lower(a: Any, b: Any, *, paired: Sequence[int]) -> Ref:
        if len(paired) == 2:  # part by part
            return a + b if sign > 0 else a - b
        (ar, ai), (br, bi) = _parts(a, paired=0 in paired), _parts(b, paired=1 in paired)
        re = ar + br if sign > 0 else ar - br
        im = ai if bi is None else bi if sign > 0 else -bi
        return _pair(re, im.broadcast_to(re.shape))

    return lower


def _by_number(x: Ref, divisor: Any, *, paired: Sequence[int]) -> Ref:
    if isinstance(divisor, Ref):
        re, im = _parts(x, paired=True)
        if 1 in paired:
            raise NotImplementedError("a quotient of two complex numbers")
        return _pair(re / divisor, im / divisor)
    return x / float(divisor)


def _conj(x: Ref, *, paired: Sequence[int]) -> Ref:
    del paired
    re, im = _parts(x, paired=True)
    return _pair(re, -im)


def _part(which: int) -> Callable[..., Ref]:
    return lambda x, *, paired: moved(_parts(x, paired=True)[which])


def _as_it_is(x: Ref, *, paired: Sequence[int]) -> Ref:
    del paired
    return moved(x)


def _negated(x: Ref, *, paired: Sequence[int]) -> Ref:
    del paired
    return -x


def _size(x: Ref, *, paired: Sequence[int]) -> Ref:
    del paired
    return norm(x, 2.0, len(x.shape) - 1)


def _complex(re: Ref, im: Ref, *, paired: Sequence[int]) -> Ref:
    del paired
    return _pair(re, im)


def _polar(size: Ref, angle: Ref, *, paired: Sequence[int]) -> Ref:
    del paired
    return _pair(size * size.builder.cos(angle), size * angle.builder.sin(angle))


def _sum(x: Ref, dim: Any = None, keepdim: bool = False, *, paired: Sequence[int]) -> Ref:
    del paired
    last = len(x.shape) - 1
    axes = range(last) if dim is None else [d % last for d in ([dim] if isinstance(dim, int) else dim)]
    return total(x, tuple(axes), keepdim=keepdim)


def _indexed(x: Ref, key: Any, *, paired: Sequence[int], results: Any) -> Ref:
    del paired
    keys = key if isinstance(key, tuple) else (key,)
    if any(one is Ellipsis for one in keys):
        keys = (*keys, slice(None))
    found: Ref = _getitem(x, keys, results=results)
    return found


def _shaped(x: Ref, *sizes: Any, paired: Sequence[int], results: Any) -> Ref:
    """Reshape, view: the record says the shape that it got."""
    del sizes, paired
    return x.builder.reshape(x, shape=results[0].shape)


def _expanded(x: Ref, *sizes: Any, paired: Sequence[int], results: Any) -> Ref:
    del sizes, paired
    return moved(x.broadcast_to(results[0].shape))


def _transposed(x: Ref, a: int, b: int, *, paired: Sequence[int]) -> Ref:
    del paired
    order, last = list(range(len(x.shape))), len(x.shape) - 1
    a, b = a % last, b % last
    order[a], order[b] = b, a
    return x.builder.transpose(x, axes=tuple(order))


_FUNCTIONS: tuple[tuple[str, Callable[..., Ref], bool], ...] = (
    ("view_as_complex", _as_it_is, False),
    ("view_as_real", _as_it_is, False),
    ("resolve_conj", _as_it_is, False),
    ("complex", _complex, False),
    ("polar", _polar, False),
    ("conj", _conj, False),
    ("real", _part(0), False),
    ("imag", _part(1), False),
    ("abs", _size, False),
    ("mul", _mul, False),
    ("add", _added(1.0), False),
    ("sub", _added(-1.0), False),
    ("div", _by_number, False),
    ("neg", _negated, False),
    ("sum", _sum, False),
    ("transpose", _transposed, False),
    ("getitem", _indexed, True),
    *((name, _shaped, True) for name in ("reshape", "view", "flatten", "unsqueeze", "squeeze")),
    ("expand", _expanded, True),
)
PAIRS = tuple(Lowering(f"{PAIRED}{name}", function, sized=sized) for name, function, sized in _FUNCTIONS)
