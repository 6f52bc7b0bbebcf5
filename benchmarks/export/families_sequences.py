"""Networks of sequences, tables and graphs that no library has in small: torch alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.export.network import Network, ids
from benchmarks.export.small import BATCH, plain_network


class Recommender(nn.Module):
    """Bags of embeddings, their pairwise products, and dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.Embedding(100, 16) for _ in range(4))
        self.below = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.above = nn.Sequential(nn.Linear(26, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x = self.below(dense)
        rows = [x] + [bag(sparse[:, i]).sum(1) for i, bag in enumerate(self.bags)]
        stacked = torch.stack(rows, 1)
        products = stacked @ stacked.transpose(1, 2)
        i, j = torch.tril_indices(5, 5, -1)
        return torch.sigmoid(self.above(torch.cat([x, products[:, i, j]], 1)))


class GraphNet(nn.Module):
    """Messages along edges, summed at their targets by ScatterElements."""

    def __init__(self) -> None:
        super().__init__()
        self.message = nn.ModuleList(nn.Linear(32, 16) for _ in range(2))
        self.update = nn.ModuleList(nn.Linear(32, 16) for _ in range(2))
        self.scores = nn.Linear(16, 3)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        for message, update in zip(self.message, self.update, strict=True):
            said = functional.relu(message(torch.cat([nodes[source], nodes[target]], -1)))
            heard = torch.zeros_like(nodes).index_add(0, target, said)
            nodes = functional.elu(update(torch.cat([nodes, heard], -1))) + nodes
        return self.scores(nodes).log_softmax(-1)


class Translator(nn.Module):
    """A GRU that reads, one that writes, and attention of the second to the first."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 64)
        self.reader = nn.GRU(64, 48, bidirectional=True, batch_first=True)
        self.writer = nn.LSTM(64, 96, batch_first=True)
        self.query = nn.Linear(96, 96, bias=False)
        self.out = nn.Linear(192, 1000)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        read, _ = self.reader(self.words(source))
        written, _ = self.writer(self.words(target))
        weights = torch.softmax(self.query(written) @ read.transpose(1, 2), -1)
        both = torch.cat([written, weights @ read], -1)
        return self.out(torch.tanh(both))


class SelectiveScan(nn.Module):
    """A state-space layer as Mamba's, with its scan unrolled."""

    def __init__(self, width: int = 32, states: int = 8) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.conv = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.rates = nn.Parameter(torch.log(torch.arange(1, states + 1.0)).repeat(width, 1))
        self.selected = nn.Linear(width, 2 * states + 1)
        self.skip = nn.Parameter(torch.rand(width))
        self.states = states

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        inner, gate = self.enter(x).chunk(2, -1)
        inner = self.conv(inner.transpose(1, 2))[..., :length].transpose(1, 2)
        inner = functional.silu(inner)
        step, read, write = self.selected(inner).split([1, self.states, self.states], -1)
        step = functional.softplus(step)
        decay = torch.exp(-torch.exp(self.rates) * step[..., None])
        given = (step * inner)[..., None] * read[:, :, None]
        state, seen = torch.zeros_like(given[:, 0]), []
        for i in range(length):
            state = decay[:, i] * state + given[:, i]
            seen.append((state * write[:, i, None]).sum(-1))
        y = torch.stack(seen, 1) + inner * self.skip
        return self.leave(y * functional.silu(gate))


class Speech(nn.Module):
    """Dilated gated convolutions, as WaveNet, then a mixer of tokens and channels."""

    def __init__(self, width: int = 32, length: int = 64) -> None:
        super().__init__()
        self.enter = nn.Conv1d(20, width, 1)
        self.gated = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 3, padding=2**i, dilation=2**i) for i in range(3)
        )
        self.normal = nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(length, 64), nn.GELU(), nn.Linear(64, length))
        self.out = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for conv in self.gated:
            value, gate = conv(x).chunk(2, 1)
            x = x + torch.tanh(value) * torch.sigmoid(gate)
        x = x + self.tokens(self.normal(x.transpose(1, 2)).transpose(1, 2))
        return self.out(x.transpose(1, 2)).log_softmax(-1)


def _graph() -> Network:
    args: tuple[Any, ...] = (torch.randn(20, 16), torch.randint(0, 20, (2, 60)))
    axes = {"nodes": {0: "nodes"}, "edges": {1: "edges"}, "scores": {0: "nodes"}}
    return Network(GraphNet(), args, ["nodes", "edges"], ["scores"], axes)


FAMILIES: dict[str, Callable[[], Network]] = {
    "graph": _graph,
    "recommender": lambda: plain_network(
        Recommender(), torch.randn(BATCH, 8), ids(100, BATCH, 4, 3)
    ),
    "selective-scan": lambda: plain_network(SelectiveScan(), torch.randn(BATCH, 12, 32)),
    "speech": lambda: plain_network(Speech(), torch.randn(BATCH, 20, 64)),
    "translator": lambda: plain_network(
        Translator(), ids(1000, BATCH, 12), ids(1000, BATCH, 9)
    ),
}
