"""Reverse-mode differentiation over numpy: just what trains small transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray


class Var:
    """A float32 array, its gradient, and how that reaches what it was computed from."""

    def __init__(
        self,
        data: Array,
        parents: Sequence[Var] = (),
        back: Callable[[Array], Sequence[Array | None]] | None = None,
    ) -> None:
        self.data = np.asarray(data, np.float32)
        self.grad: Array | None = None
        self._parents, self._back = tuple(parents), back

    def __add__(self, other: Var) -> Var:
        def back(g: Array) -> list[Array]:
            return [_fit(g, self.data.shape), _fit(g, other.data.shape)]

        return Var(self.data + other.data, (self, other), back)

    def __matmul__(self, other: Var) -> Var:
        def back(g: Array) -> list[Array]:
            left = g @ np.swapaxes(other.data, -1, -2)
            if other.data.ndim == 2:
                right = self.data.reshape(-1, self.data.shape[-1]).T @ g.reshape(
                    -1, g.shape[-1]
                )
            else:
                right = np.swapaxes(self.data, -1, -2) @ g
            return [left, right]

        return Var(self.data @ other.data, (self, other), back)

    def scaled(self, factor: float) -> Var:
        """Return the product with a number."""
        return Var(self.data * factor, (self,), lambda g: [g * factor])

    def reshape(self, *shape: int) -> Var:
        """Return another shape."""
        return Var(self.data.reshape(shape), (self,), lambda g: [g.reshape(self.data.shape)])

    def transpose(self, *axes: int) -> Var:
        """Return another order of axes."""
        inverse = np.argsort(axes)
        return Var(self.data.transpose(axes), (self,), lambda g: [g.transpose(inverse)])

    def mean(self, axis: int) -> Var:
        """Return the mean over an axis."""
        size = self.data.shape[axis]

        def back(g: Array) -> list[Array]:
            return [np.repeat(np.expand_dims(g / size, axis), size, axis)]

        return Var(self.data.mean(axis), (self,), back)

    def backward(self) -> None:
        """Fill the gradients of all that this was computed from."""
        order: list[Var] = []
        seen: set[int] = set()

        def visit(var: Var) -> None:
            if id(var) not in seen:
                seen.add(id(var))
                for parent in var._parents:
                    visit(parent)
                order.append(var)

        visit(self)
        self.grad = np.ones_like(self.data)
        for var in reversed(order):
            if var._back is None or var.grad is None:
                continue
            for parent, g in zip(var._parents, var._back(var.grad), strict=True):
                if g is not None:
                    parent.grad = g if parent.grad is None else parent.grad + g
            var.grad = None


def _fit(g: Array, shape: tuple[int, ...]) -> Array:
    while g.ndim > len(shape):
        g = g.sum(0)
    for axis, size in enumerate(shape):
        if size == 1 and g.shape[axis] > 1:
            g = g.sum(axis, keepdims=True)
    return g


def softmax(x: Var, mask: Array | None = None) -> Var:
    """Return probabilities along the last axis; a mask is added before."""
    shifted = x.data if mask is None else x.data + mask
    e = np.exp(shifted - shifted.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return Var(p, (x,), lambda g: [p * (g - (g * p).sum(-1, keepdims=True))])


def normalise(x: Var, gain: Var, bias: Var) -> Var:
    """Return LayerNormalization over the last axis."""
    mean = x.data.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(x.data.var(-1, keepdims=True) + 1e-5)
    n = (x.data - mean) * inverse

    def back(g: Array) -> list[Array]:
        h = g * gain.data
        own = (h - h.mean(-1, keepdims=True) - n * (h * n).mean(-1, keepdims=True)) * inverse
        return [own, _fit(g * n, gain.data.shape), _fit(g, bias.data.shape)]

    return Var(n * gain.data + bias.data, (x, gain, bias), back)


def gelu(x: Var) -> Var:
    """Return Gelu by tanh."""
    inner = np.tanh(0.7978845608 * (x.data + 0.044715 * x.data**3))
    slope = 0.5 * (1 + inner) + 0.5 * x.data * (1 - inner**2) * 0.7978845608 * (
        1 + 3 * 0.044715 * x.data**2
    )
    return Var(0.5 * x.data * (1 + inner), (x,), lambda g: [g * slope])


def rows(table: Var, places: Array) -> Var:
    """Return rows of a table."""

    def back(g: Array) -> list[Array]:
        found = np.zeros_like(table.data)
        np.add.at(found, places, g)
        return [found]

    return Var(table.data[places], (table,), back)


def loss(scores: Var, labels: Array) -> Var:
    """Return the mean cross entropy of scores along the last axis."""
    flat = scores.data.reshape(-1, scores.data.shape[-1])
    e = np.exp(flat - flat.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    at = (np.arange(len(flat)), labels.reshape(-1))

    def back(g: Array) -> list[Array]:
        d = p.copy()
        d[at] -= 1
        return [(g * d / len(flat)).reshape(scores.data.shape)]

    return Var(-np.log(p[at] + 1e-12).mean(), (scores,), back)


class Adam:
    """The optimiser, with decoupled decay of weights."""

    def __init__(self, parameters: Sequence[Var], rate: float, decay: float = 0.01) -> None:
        self.parameters, self.rate, self.decay, self.step = list(parameters), rate, decay, 0
        self.first = [np.zeros_like(p.data) for p in self.parameters]
        self.second = [np.zeros_like(p.data) for p in self.parameters]

    def update(self, share: float) -> None:
        """Take one step at a share of the rate, and forget the gradients."""
        self.step += 1
        for p, m, v in zip(self.parameters, self.first, self.second, strict=True):
            if p.grad is None:
                continue
            m += 0.1 * (p.grad - m)
            v += 0.01 * (p.grad**2 - v)
            ahead = m / (1 - 0.9**self.step)
            scale = np.sqrt(v / (1 - 0.99**self.step)) + 1e-8
            decay = self.decay * p.data if p.data.ndim > 1 else 0.0
            p.data -= self.rate * share * (ahead / scale + decay)
            p.grad = None
