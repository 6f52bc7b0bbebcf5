"""Networks of torch alone that no library has in small."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.export.network import Network, ids
from benchmarks.export.small import BATCH, IMAGES, plain_network


def twice(before: int, after: int) -> nn.Sequential:
    """Return two convolutions with batch normalisation."""
    made = []
    for channels in (before, after):
        made += [nn.Conv2d(channels, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*made)


class UNet(nn.Module):
    """Segmentation: down by pooling, up by transposed convolutions, joined by Concat."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        pairs = list(zip((3, *widths), widths, strict=False))
        self.down = nn.ModuleList(twice(a, b) for a, b in pairs)
        back = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in back)
        self.joined = nn.ModuleList(twice(2 * b, b) for _, b in back)
        self.scores = nn.Conv2d(widths[0], 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for block in self.down:
            x = block(functional.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        kept.pop()
        for up, block in zip(self.up, self.joined, strict=True):
            x = block(torch.cat([up(x), kept.pop()], 1))
        return self.scores(x)


class CrossAttention(nn.Module):
    """Attention of an image's pixels to words, or to themselves."""

    def __init__(self, width: int, context: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(context, width, bias=False)
        self.value = nn.Linear(context, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(context)), split(self.value(context))
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Diffusion(nn.Module):
    """A step of diffusion: GroupNorm, SiLU, a time embedding, self and cross attention."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, width))
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.normals = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.alone = CrossAttention(width, width)
        self.cross = CrossAttention(width, 48)
        self.wide, self.narrow = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.leave = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x: Tensor, step: Tensor, words: Tensor) -> Tensor:
        x = self.enter(x)
        rates = torch.exp(-torch.arange(16) * 0.5)
        angles = step[:, None].float() * rates[None]
        time = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], -1))
        y = self.convs[0](functional.silu(self.norms[0](x)))
        y = y + time[:, :, None, None]
        x = x + self.convs[1](functional.silu(self.norms[1](y)))
        batch, channels, height, width = x.shape
        flat = self.norms[2](x).permute(0, 2, 3, 1).reshape(batch, height * width, channels)
        normal = self.normals[0](flat)
        flat = flat + self.alone(normal, normal)
        flat = flat + self.cross(self.normals[1](flat), words)
        value, gate = self.wide(self.normals[2](flat)).chunk(2, -1)
        flat = flat + self.narrow(value * functional.gelu(gate))
        x = x + flat.reshape(batch, height, width, channels).permute(0, 3, 1, 2)
        x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.leave(x)


class Branches(nn.Module):
    """Two resolutions side by side that are exchanged, as in HRNet, and a pyramid."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.enter = twice(3, width)
        self.lower = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.high, self.low = twice(width, width), twice(2 * width, 2 * width)
        self.up, self.down = (
            nn.Conv2d(2 * width, width, 1),
            nn.Conv2d(width, 2 * width, 3, 2, 1),
        )
        self.heads = nn.ModuleList(nn.Conv2d(n * width, 8, 1) for n in (1, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        high = self.enter(x)
        low = self.low(functional.relu(self.lower(high)))
        high = self.high(high)
        mixed = functional.interpolate(
            self.up(low), size=high.shape[2:], mode="bilinear", align_corners=False
        )
        high, low = functional.relu(high + mixed), functional.relu(low + self.down(high))
        return self.heads[0](high), self.heads[1](low)


def images(size: int = 64, channels: int = 3) -> Tensor:
    """Return random images."""
    return torch.randn(BATCH, channels, size, size)


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


class TimeMix(nn.Module):
    """A layer of RWKV: tokens mixed with those before, and its sums unrolled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixes = nn.Parameter(torch.rand(5, width))
        self.decay, self.bonus = (
            nn.Parameter(torch.randn(width)),
            nn.Parameter(torch.rand(width)),
        )
        self.key, self.value, self.gate, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.wide = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)
        self.receive = nn.Linear(width, width, bias=False)

    def shifted(self, x: Tensor, *mixes: int) -> list[Tensor]:
        before = functional.pad(x, (0, 0, 1, 0))[:, :-1]
        return [x * self.mixes[i] + before * (1 - self.mixes[i]) for i in mixes]

    def forward(self, x: Tensor) -> Tensor:
        k, v, r = self.shifted(self.first(x), 0, 1, 2)
        k, v, r = self.key(k), self.value(v), torch.sigmoid(self.gate(r))
        decay = -torch.exp(self.decay)
        top, below, most, seen = *torch.zeros(2, *k[:, 0].shape), k[:, 0] - 1e4, []
        for i in range(k.shape[1]):
            high = torch.maximum(most, self.bonus + k[:, i])
            a, b = torch.exp(most - high), torch.exp(self.bonus + k[:, i] - high)
            seen.append((a * top + b * v[:, i]) / (a * below + b))
            high = torch.maximum(most + decay, k[:, i])
            a, b = torch.exp(most + decay - high), torch.exp(k[:, i] - high)
            top, below, most = a * top + b * v[:, i], a * below + b, high
        x = x + self.out(r * torch.stack(seen, 1))
        k, r = self.shifted(self.second(x), 3, 4)
        wide = torch.square(torch.relu(self.wide(k)))
        return x + torch.sigmoid(self.receive(r)) * self.narrow(wide)


class Receptance(nn.Module):
    """RWKV: words, two layers, scores."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(500, width)
        self.start = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(TimeMix(width) for _ in range(2)))
        self.end, self.scores = nn.LayerNorm(width), nn.Linear(width, 500, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        return self.scores(self.end(self.layers(self.start(self.words(words)))))


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


def _graph() -> Network:
    args = (torch.randn(20, 16), torch.randint(0, 20, (2, 60)))
    axes = {"nodes": {0: "nodes"}, "edges": {1: "edges"}, "scores": {0: "nodes"}}
    return Network(GraphNet(), args, ["nodes", "edges"], ["scores"], axes)


class Tagger(nn.Module):
    """An embedding, a recurrent network in both directions, and a score for each word."""

    def __init__(self, kind: type[nn.RNNBase], layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 128)
        self.inner = kind(128, 96, num_layers=layers, bidirectional=True, batch_first=True)
        self.normal = nn.LayerNorm(192)
        self.scores = nn.Linear(192, 12)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.scores(self.normal(self.inner(self.words(words))[0]))


def _tagger(kind: type[nn.RNNBase], layers: int) -> Network:
    axes = {"words": IMAGES, "scores": IMAGES}
    args = (ids(1000, BATCH, 24),)
    return Network(Tagger(kind, layers), args, ["words"], ["scores"], axes)


FAMILIES: dict[str, Callable[[], Network]] = {
    "branches": lambda: plain_network(Branches(), images(), outputs=2),
    "diffusion": lambda: plain_network(
        Diffusion(), images(16, 4), torch.randint(0, 99, (BATCH,)), torch.randn(BATCH, 7, 48)
    ),
    "unet": lambda: plain_network(UNet(), images()),
    "half-images": lambda: plain_network(HalfImages(), torch.rand(BATCH, 3, 32, 32) * 255),
    "counts": lambda: plain_network(Counts(), ids(30, BATCH, 12), outputs=2),
    "beam-step": _beams,
    "rwkv": lambda: plain_network(Receptance(), ids(500, BATCH, 8)),
    "recommender": lambda: plain_network(
        Recommender(), torch.randn(BATCH, 8), ids(100, BATCH, 4, 3)
    ),
    "graph": _graph,
    "gru": lambda: _tagger(nn.GRU, 2),
    "lstm": lambda: _tagger(nn.LSTM, 2),
}
