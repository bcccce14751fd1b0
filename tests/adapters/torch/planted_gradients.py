"""Kernels whose forward pass is right and whose derivative is not."""

from collections.abc import Callable

import torch
from planted import Planted
from planted_kernels import IMAGE, ROWS, WORDS, Attention, Images, Words, X, classes, ignoring, kernel, layer_norm, mlp
from torch import nn
from torch.nn import functional as F  # noqa: N812 # PyTorch's own name for it


def derivative(backward: Callable) -> Callable:
    """The function that it replaces, with this derivative of its first inputs: backward(gradient, output, *inputs)."""

    def replaced(func, *args, **kwargs):
        tensors = [item for item in args if isinstance(item, torch.Tensor)]

        class Derived(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *given):
                rest = iter(given)
                y = func(*(next(rest) if isinstance(item, torch.Tensor) else item for item in args), **kwargs)
                ctx.save_for_backward(y, *given)
                return y

            @staticmethod
            def backward(ctx, gradient):
                found = backward(gradient, *ctx.saved_tensors)
                found = found if isinstance(found, tuple) else (found,)
                return *found, *(None,) * (len(tensors) - len(found))

        return Derived.apply(*tensors)

    return replaced


def linear(gy, y, x, weight, bias, *, of_weight=lambda gy, x: gy.T @ x, of_bias=lambda gy: gy.sum(0)):
    return gy @ weight, of_weight(gy, x), of_bias(gy)


def replaced_linear(**mistake: Callable) -> Callable:
    return derivative(lambda *given: linear(*given, **mistake))


def square() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())


def total(y):
    return (y * torch.linspace(0.5, 1.5, y.numel()).reshape(y.shape)).sum()


def norm(gy, y, x, weight, bias):
    """Without the term that takes the direction of the output away."""
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    z, g = (x - mean) / (var + 1e-5).sqrt(), gy * weight
    return (g - g.mean(-1, keepdim=True)) / (var + 1e-5).sqrt(), (gy * z).sum(0), gy.sum(0)


def repeated(gy, y, x, table):
    """Of an index that comes twice only the last is kept."""
    found = torch.zeros_like(table)
    found[x] = gy
    return None, found


def of_all_rows(gy, y, logits, target):
    """Divided by all rows, not by those that count."""
    kept = (target != -100).float()
    found = (F.softmax(logits, 1) - F.one_hot(target.clamp(min=0), logits.shape[1])) * kept[:, None]
    return gy * found / len(target)


def to_all(gy, y, x, *_):
    """The gradient of a window goes to each of its elements."""
    return gy.repeat_interleave(2, -1).repeat_interleave(2, -2)


def relu_case(name: str, backward: Callable, **more):
    return Planted(
        name, kernel(mlp(nn.ReLU()), X, classes, relu=derivative(backward)), "gradient", more.pop("place", ""), **more
    )


CASES = (
    relu_case("ReLU backward without its mask", lambda gy, y, x: gy, cause="mask"),
    relu_case("a backward that is twice too large", lambda gy, y, x: 2 * gy * (x > 0), cause="2 times"),
    relu_case("a backward with the wrong sign", lambda gy, y, x: -gy * (x > 0), cause="−1"),
    relu_case("a backward that gives zeros", lambda gy, y, x: 0 * gy, cause="zero"),
    relu_case("a backward divided by the batch", lambda gy, y, x: gy * (x > 0) / len(x), cause="1/24"),
    relu_case(
        "a backward that is a tenth of a percent too large", lambda gy, y, x: gy * (x > 0) * 1.001, cause="1.001"
    ),
    relu_case("a backward shifted by one row", lambda gy, y, x: (gy * (x > 0)).roll(1, 0), cause="shifted"),
    Planted(
        "tanh backward from its input instead of its output",
        kernel(mlp(nn.Tanh()), X, classes, tanh=derivative(lambda gy, y, x: gy * (1 - x * x))),
        "gradient",
    ),
    Planted(
        "sigmoid backward that forgets a factor",
        kernel(mlp(nn.Sigmoid()), X, classes, sigmoid=derivative(lambda gy, y, x: gy * y)),
        "gradient",
    ),
    Planted(
        "softmax backward without its sum",
        kernel(
            lambda: nn.Sequential(nn.Linear(8, 6), nn.Softmax(-1)),
            X,
            total,
            softmax=derivative(lambda gy, y, x: gy * y),
        ),
        "gradient",
    ),
    Planted(
        "a transposed weight gradient",
        kernel(square, X, total, linear=replaced_linear(of_weight=lambda gy, x: x.T @ gy)),
        "gradient",
        "2.weight",
        cause="transposed",
    ),
    Planted(
        "a bias gradient averaged where it should be summed",
        kernel(square, X, total, linear=replaced_linear(of_bias=lambda gy: gy.mean(0))),
        "gradient",
        "2.bias",
        cause="1/24",
    ),
    Planted(
        "a weight gradient that misses the last row of the batch",
        kernel(square, X, total, linear=replaced_linear(of_weight=lambda gy, x: gy[:-1].T @ x[:-1])),
        "gradient",
        "2.weight",
    ),
    Planted(
        "layer norm backward with a term missing",
        kernel(
            layer_norm(),
            X,
            classes,
            layer_norm=lambda f, x, shape, weight, bias, eps: derivative(norm)(
                lambda *given: f(given[0], shape, *given[1:], eps), x, weight, bias
            ),
        ),
        "gradient",
    ),
    Planted(
        "an embedding's gradient dropped for repeated words",
        kernel(Words, WORDS, classes, embedding=lambda f, x, w, *_, **__: derivative(repeated)(f, x, w)),
        "gradient",
        "table.weight",
    ),
    Planted(
        "a loss's gradient divided by the ignored rows too",
        kernel(mlp(), X, ignoring, cross_entropy=derivative(of_all_rows)),
        "gradient",
    ),
    Planted(
        "a pool's gradient that goes to every element",
        kernel(lambda: Images(pool=True), IMAGE, classes, max_pool2d=derivative(to_all)),
        "gradient",
    ),
    Planted(
        "attention's gradient to the values without the weights",
        kernel(
            Attention,
            ROWS,
            classes,
            scaled_dot_product_attention=derivative(
                lambda gy, y, q, k, v: (torch.zeros_like(q), torch.zeros_like(k), gy)
            ),
        ),
        "gradient",
    ),
)
