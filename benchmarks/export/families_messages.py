"""Networks that gather and scatter: graphs, beams, boxes, bags of words, experts, neurons."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.export.network import Network, ids
from benchmarks.export.small import BATCH, plain_network


class Sage(nn.Module):
    """GraphSAGE over a list of edges: the mean of neighbours is scattered, GIN after it."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.own = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.other = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.eps = nn.Parameter(torch.rand(1))
        self.inner = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.scores = nn.Linear(width, 7)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges.unbind(0)
        at = target[:, None].expand(-1, x.shape[1])
        ones = torch.ones_like(source, dtype=x.dtype)
        count = torch.zeros(x.shape[0]).scatter_add(0, target, ones)
        for own, other in zip(self.own, self.other, strict=True):
            total = torch.zeros_like(x).scatter_add(0, at, x[source])
            x = own(x) + other(total / count.clamp(min=1)[:, None])
            x = functional.normalize(functional.relu(x), dim=-1)
        total = torch.zeros_like(x).index_add(0, target, x[source])
        x = self.inner((1 + self.eps) * x + total)
        return self.scores(x).log_softmax(-1)


def _sage() -> Network:
    args = (torch.randn(20, 32), ids(20, 2, 60))
    axes = {"x0": {0: "nodes"}, "x1": {1: "edges"}, "y0": {0: "nodes"}}
    return Network(Sage(), args, ["x0", "x1"], ["y0"], axes)


class BeamStep(nn.Module):
    """A step of beam search: scores of all continuations, the best, their parents' states."""

    def __init__(self, words: int = 200, width: int = 64, beams: int = 4) -> None:
        super().__init__()
        self.beams, self.count = beams, words
        self.words = nn.Embedding(words, width)
        self.cell, self.scores = nn.GRUCell(width, width), nn.Linear(width, words)
        self.register_buffer("banned", torch.tensor([0, 2, 5]))

    def forward(
        self, last: Tensor, state: Tensor, total: Tensor, history: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        batch = last.shape[0]
        now = self.cell(self.words(last.flatten()), state.flatten(0, 1))
        scores = self.scores(now).log_softmax(-1)
        scores = scores.index_fill(1, self.banned, float("-inf"))
        ended = (last == 1).flatten()[:, None]
        alone = torch.where(torch.arange(self.count) == 1, 0.0, -1e9)
        scores = torch.where(ended, alone, scores).view(batch, self.beams, self.count)
        best, at = (total[..., None] + scores).flatten(1).topk(self.beams, -1)
        parent = torch.div(at, self.count, rounding_mode="floor")
        word = at % self.count
        now = now.view(batch, self.beams, -1)
        now = now.gather(1, parent[..., None].expand_as(now))
        history = history.gather(1, parent[..., None].expand_as(history))
        return word, now, best, torch.cat([history, word[..., None]], -1)


def _beams() -> Network:
    args = (
        ids(200, BATCH, 4),
        torch.randn(BATCH, 4, 64),
        -torch.rand(BATCH, 4),
        ids(200, BATCH, 4, 5),
    )
    names, taken = [f"x{i}" for i in range(4)], [f"y{i}" for i in range(4)]
    axes = {name: {0: "batch"} for name in (*names, *taken)}
    axes["x3"] = {0: "batch", 2: "past"}
    axes["y3"] = {0: "batch", 2: "longer"}
    return Network(BeamStep(), args, names, taken, axes)


class Bags(nn.Module):
    """DLRM and DeepFM: sums of bags, products of all pairs, a second order in one pass."""

    def __init__(self, width: int = 16, tables: int = 4) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(100, width) for _ in range(tables))
        self.first = nn.ModuleList(nn.Embedding(100, 1) for _ in range(tables))
        self.below = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, width))
        pairs = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("rows", pairs[0])
        self.register_buffer("columns", pairs[1])
        self.above = nn.Sequential(
            *(nn.Linear(width + 10, 32), nn.ReLU(), nn.Linear(32, 1)),
        )

    def forward(self, bags: Tensor, dense: Tensor) -> Tensor:
        known = (bags > 0).to(dense.dtype)[..., None]
        parts = [
            (table(bags[:, i]) * known[:, i]).sum(1) for i, table in enumerate(self.tables)
        ]
        low = self.below(torch.log1p(dense.clamp(min=0)))
        every = torch.stack([low, *parts], 1)
        pairs = torch.bmm(every, every.transpose(1, 2))[:, self.rows, self.columns]
        deep = self.above(torch.cat([low, pairs], 1))
        second = 0.5 * (every.sum(1).square() - every.square().sum(1)).sum(1, keepdim=True)
        linear = torch.stack([t(bags[:, i]).sum(1) for i, t in enumerate(self.first)]).sum(0)
        return torch.sigmoid(deep + second + linear)


class TopOne(nn.Module):
    """Switch transformer: each word goes to one expert, by a place within its capacity."""

    def __init__(self, width: int = 32, experts: int = 4, capacity: int = 8) -> None:
        super().__init__()
        self.experts, self.capacity = experts, capacity
        self.normal = nn.LayerNorm(width)
        self.router = nn.Linear(width, experts)
        self.wide = nn.Parameter(torch.randn(experts, width, 64) * 0.1)
        self.narrow = nn.Parameter(torch.randn(experts, 64, width) * 0.1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = self.normal(x).flatten(0, 1)
        gates = self.router(flat).softmax(-1)
        gate, at = gates.max(-1)
        chosen = functional.one_hot(at, self.experts).to(x.dtype)
        place = (chosen.cumsum(0) * chosen).sum(-1).long() - 1
        fits = (place < self.capacity).to(x.dtype)
        places = functional.one_hot(place.clamp(max=self.capacity - 1), self.capacity)
        send = chosen[:, :, None] * places[:, None].to(x.dtype) * fits[:, None, None]
        sent = torch.einsum("tec,td->ecd", send, flat)
        y = torch.bmm(functional.gelu(torch.bmm(sent, self.wide)), self.narrow)
        back = torch.einsum("tec,ecd->td", send * gate[:, None, None], y)
        balance = self.experts * (chosen.mean(0) * gates.mean(0)).sum()
        return x + back.view_as(x), balance


class Spiking(nn.Module):
    """Neurons that leak, fire and reset, in eight steps, by convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1, stride=2)
        self.second = nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.decay = nn.Parameter(torch.rand(16, 1, 1))
        self.scores = nn.Linear(16 * 16, 10)

    def forward(self, x: Tensor) -> Tensor:
        drive = self.first(x)
        low, high = torch.zeros_like(drive), torch.zeros(())
        total = torch.zeros(())
        for _ in range(8):
            low = low * 0.9 + drive
            spikes = (low > 1.0).to(x.dtype)
            low = low - spikes
            high = high * torch.sigmoid(self.decay) + self.second(spikes)
            fired = torch.gt(high, 0.5).float()
            high = high * (1.0 - fired)
            total = total + fired.flatten(1)
        return self.scores(total / 8)


class Suppressed(nn.Module):
    """Centres of objects: maxima of a heat map, the best of them, and their boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU()),
            *(nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU()),
        )
        self.heat = nn.Sequential(nn.Conv2d(32, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 5, 1))
        self.sizes = nn.Sequential(nn.Conv2d(32, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 4, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.body(x)
        heat = self.heat(y).sigmoid().clamp(1e-4, 1 - 1e-4)
        heat = heat * (functional.max_pool2d(heat, 3, 1, 1) == heat).float()
        batch, kinds, _, columns = heat.shape
        scores, at = heat.view(batch, kinds, -1).topk(8, -1)
        scores, best = scores.view(batch, -1).topk(8, -1)
        kind = torch.div(best, 8, rounding_mode="trunc").int()
        at = at.view(batch, -1).gather(1, best)
        row, column = torch.div(at, columns, rounding_mode="trunc"), at % columns
        sizes = self.sizes(y).permute(0, 2, 3, 1).reshape(batch, -1, 4)
        sizes = sizes.gather(1, at[..., None].expand(-1, -1, 4))
        centre = torch.stack([column.float(), row.float()], -1) + sizes[..., :2]
        half = sizes[..., 2:] / 2
        return torch.cat([centre - half, centre + half], -1) * 4.0, scores, kind


class Corners(nn.Module):
    """SuperPoint and LoFTR: cells to pixels, descriptors at points by GridSample, matches."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        )
        self.cells = nn.Conv2d(width, 17, 1)
        self.marks = nn.Conv2d(width, width, 1)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, image: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        y = self.body(image)
        cells = self.cells(y).softmax(1)[:, :-1]
        batch, _, rows, columns = cells.shape
        cells = cells.permute(0, 2, 3, 1).reshape(batch, rows, columns, 4, 4)
        pixels = cells.permute(0, 1, 3, 2, 4).reshape(batch, rows * 4, columns * 4)
        marks = functional.normalize(self.marks(y), p=2.0, dim=1)
        at = (points / 32 * 2 - 1)[:, None]
        found = functional.grid_sample(marks, at, mode="bilinear", align_corners=True)
        found = functional.normalize(found.reshape(batch, marks.shape[1], -1), dim=1)
        x = found.transpose(1, 2)
        q, k = functional.elu(self.q(x)) + 1, functional.elu(self.k(x)) + 1
        v = self.v(x) / x.shape[1]
        context = torch.einsum("nsd,nsv->ndv", k, v)
        weight = 1 / (torch.einsum("nld,nd->nl", q, k.sum(1)) + 1e-6)
        x = x + torch.einsum("nld,ndv,nl->nlv", q, context, weight) * v.shape[1]
        near = torch.einsum("nld,nsd->nls", x, x) / 0.1
        return pixels, near.softmax(1) * near.softmax(2)


FAMILIES: dict[str, Callable[[], Network]] = {
    "bags": lambda: plain_network(Bags(), ids(100, BATCH, 4, 6), torch.randn(BATCH, 13)),
    "beam-step": _beams,
    "centres": lambda: plain_network(Suppressed(), torch.rand(BATCH, 3, 64, 64), outputs=3),
    "corners": lambda: plain_network(
        Corners(), torch.rand(BATCH, 1, 32, 32), torch.rand(BATCH, 10, 2) * 31, outputs=2
    ),
    "sage": _sage,
    "spiking": lambda: plain_network(Spiking(), torch.rand(BATCH, 1, 16, 16)),
    "switch": lambda: plain_network(TopOne(), torch.randn(BATCH, 10, 32), outputs=2),
}
