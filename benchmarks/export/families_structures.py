"""Networks of points, tables, sounds and boxes, and layouts of other frameworks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.export.network import Network, ids
from benchmarks.export.small import BATCH, plain_network


def shared(*widths: int) -> nn.Sequential:
    """Return perceptrons for each point: convolutions of one pixel with normalisation."""
    made: list[nn.Module] = []
    for before, after in pairwise(widths):
        made += [nn.Conv1d(before, after, 1), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*made)


class Points(nn.Module):
    """PointNet: a transform that the points choose, their maximum, a class and parts."""

    def __init__(self) -> None:
        super().__init__()
        self.look, self.turn = shared(3, 32, 64), nn.Linear(64, 9)
        self.local, self.wide = shared(3, 32, 32), shared(32, 64, 128)
        self.scores = nn.Sequential(
            *(nn.Linear(128, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3)),
            nn.Linear(64, 10),
        )
        self.parts = nn.Sequential(shared(160, 64), nn.Conv1d(64, 6, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        turn = self.turn(self.look(x).max(2)[0]).view(-1, 3, 3) + torch.eye(3)
        x = torch.bmm(x.transpose(2, 1), turn).transpose(2, 1)
        local = self.local(x)
        whole = self.wide(local).max(2, keepdim=True)[0]
        every = torch.cat([local, whole.expand(-1, -1, x.shape[2])], 1)
        parts = self.parts(every).transpose(2, 1).log_softmax(-1)
        return self.scores(whole.flatten(1)).log_softmax(-1), parts


class GraphAttention(nn.Module):
    """GAT over a dense matrix of neighbours, heads side by side."""

    def __init__(self, before: int, size: int = 8, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.project = nn.Linear(before, heads * size, bias=False)
        self.source = nn.Parameter(torch.randn(heads, size))
        self.target = nn.Parameter(torch.randn(heads, size))

    def forward(self, x: Tensor, near: Tensor) -> Tensor:
        y = self.project(x).view(x.shape[0], x.shape[1], self.heads, self.size)
        source, target = (y * self.source).sum(-1), (y * self.target).sum(-1)
        scores = source[:, :, None] + target[:, None]
        scores = functional.leaky_relu(scores, 0.2).permute(0, 3, 1, 2)
        weights = torch.where(near[:, None] > 0, scores, torch.full((), -1e9)).softmax(-1)
        return functional.elu(torch.einsum("bhij,bjhd->bihd", weights, y).flatten(2))


class Neighbours(nn.Module):
    """Two layers of GAT and a score for each graph."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphAttention(16), GraphAttention(32)
        self.scores = nn.Linear(32, 3)

    def forward(self, x: Tensor, near: Tensor) -> Tensor:
        return self.scores(self.second(self.first(x, near), near).mean(1))


class Columns(nn.Module):
    """TabTransformer: columns of categories through attention, numbers beside them."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.register_buffer("offsets", torch.arange(6) * 10)
        self.values, self.names = nn.Embedding(60, width), nn.Parameter(torch.randn(6, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.normal = nn.LayerNorm(5)
        self.dense = nn.Sequential(
            *(nn.Linear(6 * width + 5, 64), nn.BatchNorm1d(64), nn.SELU()), nn.Linear(64, 2)
        )

    def forward(self, kinds: Tensor, numbers: Tensor) -> Tensor:
        x = self.layers(self.values(kinds + self.offsets) + self.names)
        return self.dense(torch.cat([x.flatten(1), self.normal(numbers)], -1))


class Separator(nn.Module):
    """Conv-TasNet: a learned basis, dilated blocks with PReLU, masks, and the way back."""

    def __init__(self, width: int = 32, speakers: int = 2) -> None:
        super().__init__()
        self.speakers = speakers
        self.basis = nn.Conv1d(1, 64, 16, stride=8, bias=False)
        self.start, self.enter = nn.GroupNorm(1, 64, eps=1e-8), nn.Conv1d(64, width, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                *(nn.Conv1d(width, 64, 1), nn.PReLU(), nn.GroupNorm(1, 64, eps=1e-8)),
                nn.Conv1d(64, 64, 3, padding=2**i, dilation=2**i, groups=64),
                *(nn.PReLU(), nn.GroupNorm(1, 64, eps=1e-8), nn.Conv1d(64, 2 * width, 1)),
            )
            for i in range(4)
        )
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(width, speakers * 64, 1), nn.Sigmoid())
        self.back = nn.ConvTranspose1d(64, 1, 16, stride=8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        basis = functional.relu(self.basis(x[:, None]))
        y, skipped = self.enter(self.start(basis)), torch.zeros(())
        for block in self.blocks:
            kept, skip = block(y).chunk(2, 1)
            y, skipped = y + kept, skipped + skip
        masks = self.mask(skipped).unflatten(1, (self.speakers, -1))
        apart = (masks * basis[:, None]).flatten(0, 1)
        return self.back(apart).view(x.shape[0], self.speakers, -1)


class Causal(nn.Module):
    """A TCN: padded dilated convolutions cut at their end, with weight normalisation."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        channels = (8, width, width, width)
        self.first, self.second = (
            nn.ModuleList(
                norm(nn.Conv1d(a if own else width, width, 3, padding=2 * 2**i, dilation=2**i))
                for i, a in enumerate(channels[:-1])
            )
            for own in (True, False)
        )
        self.short = nn.Conv1d(8, width, 1)
        self.scores = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        for i, (first, second) in enumerate(zip(self.first, self.second, strict=True)):
            cut = 2 * 2**i
            y = functional.relu(first(x)[..., :-cut])
            y = functional.relu(second(y)[..., :-cut])
            x = functional.relu(y + (self.short(x) if i == 0 else x))
        return self.scores(x[:, :, -1])


class Boxes(nn.Module):
    """A YOLO of later kinds: boxes as distributions, anchors, and the best candidates."""

    def __init__(self, width: int = 24, kinds: int = 6) -> None:
        super().__init__()

        def conv(before: int, after: int, stride: int = 1) -> nn.Module:
            inner = nn.Conv2d(before, after, 3, stride, 1, bias=False)
            return nn.Sequential(inner, nn.BatchNorm2d(after, eps=1e-3), nn.SiLU())

        self.kinds = kinds
        self.enter = nn.Sequential(conv(3, width, 2), conv(width, width, 2))
        self.split = nn.ModuleList(conv(width // 2, width // 2) for _ in range(2))
        self.join = nn.Conv2d(3 * width, width, 1)
        self.pool, self.after = nn.MaxPool2d(5, 1, 2), nn.Conv2d(3 * width, width, 1)
        self.down = conv(width, width, 2)
        self.boxes = nn.ModuleList(nn.Conv2d(width, 32, 1) for _ in range(2))
        self.scores = nn.ModuleList(nn.Conv2d(width, kinds, 1) for _ in range(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = list(self.enter(x).chunk(2, 1))
        for conv in self.split:
            parts.append(conv(parts[-1]))
        x = self.join(torch.cat(parts + parts[:2], 1))
        once = self.pool(x)
        high = self.after(torch.cat([x, once, self.pool(once)], 1))
        heads = []
        for box, score, y in zip(
            self.boxes, self.scores, (high, self.down(high)), strict=True
        ):
            heads.append(torch.cat([box(y), score(y)], 1).flatten(2))
        every = torch.cat(heads, 2)
        boxes, scores = every.split([32, self.kinds], 1)
        sides = boxes.unflatten(1, (4, 8)).transpose(1, 2).softmax(1)
        sides = (sides * torch.arange(8.0)[:, None, None]).sum(1)
        sizes, grids = ((16, 4.0), (8, 8.0)), []
        for size, stride in sizes:
            line = torch.arange(size) + 0.5
            y, x = torch.meshgrid(line, line, indexing="ij")
            grids.append(torch.stack([x, y, torch.full_like(x, stride)]).flatten(1))
        grid = torch.cat(grids, 1)
        low, far = grid[:2] - sides[:, :2], grid[:2] + sides[:, 2:]
        boxes = torch.cat([(low + far) / 2, far - low], 1) * grid[2]
        best, kind = scores.sigmoid().max(1)
        best, at = best.topk(20, -1)
        boxes = boxes.transpose(1, 2).gather(1, at[..., None].expand(-1, -1, 4))
        return boxes, best, kind.gather(1, at)


class ChannelsLast(nn.Module):
    """A network of TensorFlow as its converters write it: NHWC around each convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 16, 3, stride=2)
        self.deep = nn.ModuleList(nn.Conv2d(16, 16, 3, groups=16, padding=1) for _ in range(2))
        self.flat = nn.ModuleList(nn.Conv2d(16, 16, 1, bias=False) for _ in range(2))
        self.scales = nn.ParameterList(torch.rand(16) + 0.5 for _ in range(2))
        self.shifts = nn.ParameterList(torch.randn(16) for _ in range(2))
        self.squeeze, self.excite = nn.Linear(16, 4), nn.Linear(4, 16)
        self.scores = nn.Linear(16, 10)

    @staticmethod
    def apart(layer: nn.Module, x: Tensor) -> Tensor:
        return layer(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.pad(x, (0, 0, 0, 1, 0, 1))
        x = functional.relu6(self.apart(self.enter, x))
        layers = zip(self.deep, self.flat, self.scales, self.shifts, strict=True)
        for deep, flat, scale, shift in layers:
            y = functional.relu6(self.apart(deep, x))
            y = self.apart(flat, y) * scale + shift
            x = x + y * functional.relu6(y + 3) / 6
        gate = x.mean((1, 2), keepdim=True)
        x = x * torch.sigmoid(self.excite(functional.relu(self.squeeze(gate))))
        x = self.apart(nn.MaxPool2d(2), x)
        return torch.softmax(self.scores(x.mean((1, 2))), -1)


class Experts(nn.Module):
    """A switch layer: the two best experts by TopK, joined by a matrix of their weights."""

    def __init__(self, width: int = 64, experts: int = 4) -> None:
        super().__init__()
        self.words, self.normal = nn.Embedding(500, width), nn.LayerNorm(width)
        self.router = nn.Linear(width, experts, bias=False)
        self.wide = nn.Parameter(torch.randn(experts, width, 2 * width) * 0.1)
        self.narrow = nn.Parameter(torch.randn(experts, 2 * width, width) * 0.1)
        self.scores = nn.Linear(width, 12)

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words)
        y = self.normal(x)
        best, at = self.router(y).softmax(-1).topk(2, -1)
        best = best / best.sum(-1, keepdim=True)
        gates = torch.zeros(*x.shape[:2], self.wide.shape[0]).scatter(-1, at, best)
        wide = functional.silu(torch.einsum("bld,edf->blef", y, self.wide))
        mixed = torch.einsum("blef,efd,ble->bld", wide, self.narrow, gates)
        return self.scores(x + mixed)


class Upscaler(nn.Module):
    """EDSR: a mean that is taken off, residual blocks with a factor, PixelShuffle twice."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.45, 0.44, 0.40]).view(1, 3, 1, 1))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                *(nn.Conv2d(width, width, 3, padding=1), nn.ReLU()),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(3)
        )
        self.body = nn.Conv2d(width, width, 3, padding=1)
        self.up = nn.Sequential(
            *(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2)),
            *(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2)),
            nn.Conv2d(width, 3, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter((x - self.mean) * 255)
        y = x
        for block in self.blocks:
            y = y + block(y) * 0.1
        return (self.up(x + self.body(y)) / 255 + self.mean).clamp(0, 1)


FAMILIES: dict[str, Callable[[], Network]] = {
    "boxes": lambda: plain_network(Boxes(), torch.rand(BATCH, 3, 64, 64), outputs=3),
    "causal": lambda: plain_network(Causal(), torch.randn(BATCH, 8, 40)),
    "channels-last": lambda: plain_network(ChannelsLast(), torch.randn(BATCH, 32, 32, 3)),
    "columns": lambda: plain_network(Columns(), ids(10, BATCH, 6), torch.randn(BATCH, 5)),
    "experts": lambda: plain_network(Experts(), ids(500, BATCH, 12)),
    "neighbours": lambda: plain_network(
        Neighbours(), torch.randn(BATCH, 12, 16), (torch.rand(BATCH, 12, 12) > 0.6).float()
    ),
    "points": lambda: plain_network(Points(), torch.randn(BATCH, 3, 64), outputs=2),
    "separator": lambda: plain_network(Separator(), torch.randn(BATCH, 800)),
    "upscaler": lambda: plain_network(Upscaler(), torch.rand(BATCH, 3, 16, 16)),
}
