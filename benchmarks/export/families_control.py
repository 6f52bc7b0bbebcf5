"""Networks with loops and branches, several dynamic axes, half precision, and integers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.export.network import Network, ids
from benchmarks.export.small import BATCH, plain_network


@torch.jit.script
def decode(state: Tensor, words: Tensor, inner: Tensor, outer: Tensor, steps: int) -> Tensor:
    """Return the words that a recurrent network says, and stop where all have ended."""
    last = torch.zeros([state.shape[0]], dtype=torch.int64)
    said = torch.zeros([state.shape[0], 0], dtype=torch.int64)
    for step in range(steps):
        state = torch.tanh(torch.mm(torch.cat([words[last], state], 1), inner))
        scores = torch.mm(state, outer)
        if step < 2:
            scores = scores - 5.0 * torch.relu(scores)
        last = torch.argmax(scores, 1)
        said = torch.cat([said, last.unsqueeze(1)], 1)
    return said


class Greedy(nn.Module):
    """A loop that TorchScript keeps: its trip count is the length of an input."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.words = nn.Parameter(torch.randn(40, width))
        self.inner = nn.Parameter(torch.randn(2 * width, width) * 0.3)
        self.outer = nn.Parameter(torch.randn(width, 40))

    def forward(self, state: Tensor, guide: Tensor) -> Tensor:
        return decode(state, self.words, self.inner, self.outer, guide.shape[1])


@torch.jit.script
def settle(x: Tensor, weight: Tensor) -> Tensor:
    """Return a fixed point: a loop with a condition, and a branch by a sum."""
    count, change = 0, torch.ones([])
    while count < 20 and bool(change > 1e-3):
        after = torch.tanh(torch.mm(x, weight) + 0.1)
        change = (after - x).abs().max()
        x = after
        count += 1
    x = x * 2 if bool(x.sum() > 0) else torch.relu(x) - 1
    return x


class Settled(nn.Module):
    """A deep equilibrium between two linear layers."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(8, width), nn.Linear(width, 4)
        self.weight = nn.Parameter(torch.randn(width, width) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(settle(self.enter(x), self.weight)).softmax(-1)


class AnySize(nn.Module):
    """Images of any size: padded to a multiple of eight, cut and resized to what they were."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 8), (8, 16)))
        self.up = nn.ModuleList(nn.Conv2d(a, b, 3, 1, 1) for a, b in ((16, 8), (16, 8)))
        self.scores = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2], x.shape[3]
        low, high = (-height) % 8, (-width) % 8
        x = functional.pad(x, (0, high, 0, low), value=0.5)
        first = functional.relu6(self.down[0](x))
        second = functional.relu6(self.down[1](first))
        y = functional.interpolate(self.up[0](second), first.shape[2:], mode="nearest")
        y = functional.interpolate(self.up[1](torch.cat([y, first], 1)), x.shape[2:])
        return self.scores(y)[:, :, :height, :width].softmax(1)


def _any_size() -> Network:
    axes = {0: "batch", 2: "height", 3: "width"}
    args = (torch.rand(BATCH, 3, 24, 40),)
    return Network(AnySize(), args, ["x0"], ["y0"], {"x0": axes, "y0": axes})


class HalfImages(nn.Module):
    """Convolutions in float16 with an inverted residual, in and out of float32."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width))
        self.wide = nn.Sequential(nn.Conv2d(width, 48, 1), nn.BatchNorm2d(48), nn.Hardswish())
        self.deep = nn.Sequential(
            nn.Conv2d(48, 48, 3, 1, 1, groups=48), nn.BatchNorm2d(48), nn.Hardswish()
        )
        self.narrow = nn.Sequential(nn.Conv2d(48, width, 1), nn.BatchNorm2d(width))
        self.scores = nn.Linear(width, 10)
        self.half()

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x.half() / 255)
        x = x + self.narrow(self.deep(self.wide(x)))
        return self.scores(x.mean((2, 3))).float().softmax(-1)


class Counts(nn.Module):
    """Hashes of pairs of words, counted in buckets, weighed by how rare they are."""

    def __init__(self, buckets: int = 64) -> None:
        super().__init__()
        self.buckets = buckets
        self.register_buffer("edges", torch.tensor([1, 2, 4, 8]))
        self.rare = nn.Parameter(torch.rand(buckets) + 0.5)
        self.kinds = nn.Embedding(5, 8)
        self.scores = nn.Linear(buckets + 8, 3)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        known = words != 0
        mixed = (words[:, 1:] * 31 + words[:, :-1] * 17) % self.buckets
        both = (known[:, 1:] & known[:, :-1]).float()
        counts = torch.zeros(words.shape[0], self.buckets).scatter_add(1, mixed, both)
        weighed = torch.log1p(counts) * self.rare
        weighed = weighed / weighed.norm(dim=1, keepdim=True).clamp(min=1e-6)
        length = known.sum(1)
        kind = (length[:, None] >= self.edges).sum(1)
        parity = torch.where(length % 2 == 0, 1, -1)
        scores = self.scores(torch.cat([weighed, self.kinds(kind)], 1))
        return scores * parity[:, None], mixed.sort(1)[0]


FAMILIES: dict[str, Callable[[], Network]] = {
    "any-size": _any_size,
    "counts": lambda: plain_network(Counts(), ids(30, BATCH, 12), outputs=2),
    "greedy": lambda: plain_network(Greedy(), torch.randn(BATCH, 24), ids(9, BATCH, 6)),
    "half-images": lambda: plain_network(HalfImages(), torch.rand(BATCH, 3, 32, 32) * 255),
    "settled": lambda: plain_network(Settled(), torch.randn(BATCH, 8)),
}
