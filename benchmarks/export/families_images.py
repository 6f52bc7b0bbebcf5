"""Networks of images that no library has in small: torch alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.export.network import Network
from benchmarks.export.small import BATCH, plain_network


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


class Modulated(nn.Module):
    """A generator whose weights are modulated by a style: grouped convolutions."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.style = nn.Sequential(nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, width))
        self.start = nn.Parameter(torch.randn(1, width, 8, 8))
        self.weights = nn.Parameter(torch.randn(2, width, width, 3, 3) * 0.1)
        self.rgb = nn.Conv2d(width, 3, 1)

    def forward(self, z: Tensor) -> Tensor:
        z = z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8)
        style = self.style(z)
        x = self.start.repeat(z.shape[0], 1, 1, 1)
        for weight in self.weights:
            x = functional.interpolate(x, scale_factor=2.0, mode="bilinear")
            scaled = weight[None] * style[:, None, :, None, None]
            size = torch.rsqrt(scaled.square().sum((2, 3, 4)) + 1e-8)
            x = x * style[:, :, None, None]
            x = functional.conv2d(x, weight, padding=1) * size[:, :, None, None]
            x = functional.leaky_relu(x, 0.2)
        return self.rgb(x)


class SuperResolution(nn.Module):
    """Residual convolutions and PixelShuffle."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1),
                nn.PReLU(width),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(3)
        )
        self.leave = nn.Sequential(
            nn.Conv2d(width, 4 * width, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(width, 3, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.enter(x - 0.5)
        first = y
        for block in self.blocks:
            y = y + block(y) * 0.1
        return self.leave(y + first).clamp(-0.5, 0.5) + 0.5


class Detector(nn.Module):
    """A YOLO-like head: grids, scores, and the best boxes by TopK and GatherElements."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.body = nn.Sequential(
            twice(3, 16), nn.MaxPool2d(2), twice(16, 32), nn.MaxPool2d(4)
        )
        self.small = nn.Conv2d(32, 5 + classes, 1)
        self.next = nn.Sequential(nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.SiLU())
        self.large = nn.Conv2d(32, 5 + classes, 1)

    def decode(self, x: Tensor, stride: int) -> Tensor:
        _, channels, height, width = x.shape
        y, x0 = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        grid = torch.stack([x0, y], -1).reshape(1, -1, 2)
        x = x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, channels)
        centre = (x[..., :2].sigmoid() * 2 - 0.5 + grid) * stride
        size = (x[..., 2:4].sigmoid() * 2).square() * stride
        return torch.cat([centre, size, x[..., 4:].sigmoid()], -1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.body(image)
        found = [self.decode(self.small(x), 8), self.decode(self.large(self.next(x)), 16)]
        both = torch.cat(found, 1)
        score, label = (both[..., 4:5] * both[..., 5:]).max(-1)
        best, at = score.topk(20, 1)
        centre, half = both[..., :2], both[..., 2:4] / 2
        boxes = torch.cat([centre - half, centre + half], -1)
        boxes = boxes.gather(1, at[..., None].expand(-1, -1, 4))
        label = label.gather(1, at)
        return boxes, best, label


class Ghost(nn.Module):
    """Cheap maps beside few convolutions, and squeeze and excitation."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.few = nn.Conv2d(3, width // 2, 3, stride=2, padding=1, bias=False)
        self.cheap = nn.Conv2d(width // 2, width // 2, 3, padding=1, groups=width // 2)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width // 2) for _ in range(2))
        self.squeeze, self.excite = nn.Conv2d(width, 8, 1), nn.Conv2d(8, width, 1)
        self.scores = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        few = functional.relu(self.norms[0](self.few(x)))
        x = torch.cat([few, functional.relu(self.norms[1](self.cheap(few)))], 1)
        score = self.excite(functional.relu(self.squeeze(x.mean((2, 3), keepdim=True))))
        x = x * functional.hardsigmoid(score)
        return self.scores(functional.adaptive_avg_pool2d(x, 1).flatten(1))


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


FAMILIES: dict[str, Callable[[], Network]] = {
    "branches": lambda: plain_network(Branches(), images(), outputs=2),
    "detector": lambda: plain_network(Detector(), images(), outputs=3),
    "diffusion": lambda: plain_network(
        Diffusion(), images(16, 4), torch.randint(0, 99, (BATCH,)), torch.randn(BATCH, 7, 48)
    ),
    "ghost": lambda: plain_network(Ghost(), images()),
    "modulated": lambda: plain_network(Modulated(), torch.randn(BATCH, 32)),
    "super-resolution": lambda: plain_network(SuperResolution(), images(24)),
    "unet": lambda: plain_network(UNet(), images()),
}
