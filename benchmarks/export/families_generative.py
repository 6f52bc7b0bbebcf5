"""Networks that make images and scenes: transformers of diffusion, codebooks, flows, rays."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.export.families_images import CrossAttention
from benchmarks.export.network import Network
from benchmarks.export.small import BATCH, plain_network


def waves(x: Tensor, count: int) -> Tensor:
    """Return sines and cosines of a value at ``count`` frequencies, in the last axis."""
    angles = x[..., None] * 2.0 ** torch.arange(count)
    return torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)


class ModulatedLayer(nn.Module):
    """A layer of DiT: scale, shift and gate of both halves come from the condition."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.condition = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.first = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.second = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        parts = self.condition(condition)[:, None].chunk(6, -1)
        y = self.first(x) * (1 + parts[1]) + parts[0]
        batch, length, width = x.shape
        qkv = self.qkv(y).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v)
        x = x + parts[2] * self.out(y.transpose(1, 2).reshape(batch, length, width))
        y = self.second(x) * (1 + parts[4]) + parts[3]
        return x + parts[5] * self.narrow(functional.gelu(self.wide(y), approximate="tanh"))


class DiffusionTransformer(nn.Module):
    """DiT: patches, layers modulated by step and class, and the image put together again."""

    def __init__(self, width: int = 128, size: int = 16, patch: int = 2) -> None:
        super().__init__()
        self.patch, self.side = patch, size // patch
        self.enter = nn.Conv2d(4, width, patch, stride=patch)
        self.places = nn.Parameter(torch.randn(1, self.side**2, width) * 0.1)
        self.time = nn.Sequential(nn.Linear(32, width), nn.SiLU(), nn.Linear(width, width))
        self.kinds = nn.Embedding(11, width)
        self.layers = nn.ModuleList(ModulatedLayer(width) for _ in range(3))
        self.normal = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.last = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.leave = nn.Linear(width, patch * patch * 8)

    def forward(self, x: Tensor, step: Tensor, kind: Tensor) -> Tensor:
        condition = self.time(waves(step[:, None] / 1000, 16)) + self.kinds(kind)
        x = self.enter(x).flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x, condition)
        shift, scale = self.last(condition).chunk(2, 1)
        x = self.leave(self.normal(x) * (1 + scale[:, None]) + shift[:, None])
        x = x.reshape(-1, self.side, self.side, self.patch, self.patch, 8)
        x = torch.einsum("nhwpqc->nchpwq", x)
        return x.reshape(-1, 8, self.side * self.patch, self.side * self.patch)


class SkippingTransformer(nn.Module):
    """U-ViT: tokens of time and image together, and long skips that Linear joins."""

    def __init__(self, width: int = 128, depth: int = 2) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, width, 4, stride=4)
        self.time = nn.Linear(32, width)
        self.places = nn.Parameter(torch.randn(1, 65, width) * 0.1)

        def layer() -> nn.Module:
            return nn.TransformerEncoderLayer(
                width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )

        self.before = nn.ModuleList(layer() for _ in range(depth))
        self.middle = layer()
        self.joins = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.after = nn.ModuleList(layer() for _ in range(depth))
        self.normal, self.leave = nn.LayerNorm(width), nn.Linear(width, 48)
        self.final = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        tokens = self.enter(x).flatten(2).transpose(1, 2)
        time = self.time(waves(step[:, None] / 1000, 16))[:, None]
        x, kept = torch.cat([time, tokens], 1) + self.places, []
        for layer in self.before:
            x = layer(x)
            kept.append(x)
        x = self.middle(x)
        for join, layer in zip(self.joins, self.after, strict=True):
            x = layer(join(torch.cat([x, kept.pop()], -1)))
        x = self.leave(self.normal(x))[:, 1:]
        x = x.unflatten(1, (8, 8)).unflatten(3, (4, 4, 3)).permute(0, 5, 1, 3, 2, 4)
        return self.final(x.flatten(4).flatten(2, 3))


class Codebook(nn.Module):
    """VQ-VAE: the nearest of 64 codes in the middle of an autoencoder."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()

        def block() -> nn.Module:
            inner = nn.Conv2d(width, width, 3, padding=1)
            return nn.Sequential(nn.ReLU(), inner, nn.ReLU(), nn.Conv2d(width, width, 1))

        self.down = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1)
        )
        self.first, self.second = block(), block()
        self.codes = nn.Parameter(torch.randn(64, width))
        self.up = nn.Sequential(
            *(nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU()),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.down(x)
        x = x + self.first(x)
        flat = x.permute(0, 2, 3, 1)
        far = flat.square().sum(-1, keepdim=True) + self.codes.square().sum(-1)
        nearest = (far - 2 * flat @ self.codes.T).argmin(-1)
        x = functional.embedding(nearest, self.codes).permute(0, 3, 1, 2)
        x = x + self.second(x)
        return torch.sigmoid(self.up(x)), nearest


class Flow(nn.Module):
    """Glow: squeeze, scales of channels, invertible mixing, affine couplings, a density."""

    def __init__(self, steps: int = 3, width: int = 32) -> None:
        super().__init__()
        self.scales = nn.ParameterList(torch.rand(1, 12, 1, 1) + 0.5 for _ in range(steps))
        self.biases = nn.ParameterList(torch.randn(1, 12, 1, 1) for _ in range(steps))
        self.mixes = nn.ParameterList(torch.randn(12, 12) * 0.3 for _ in range(steps))
        self.nets = nn.ModuleList(
            nn.Sequential(
                *(nn.Conv2d(6, width, 3, padding=1), nn.ReLU()),
                *(nn.Conv2d(width, width, 1), nn.ReLU()),
                nn.Conv2d(width, 12, 3, padding=1),
            )
            for _ in range(steps)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.pixel_unshuffle(x, 2)
        density = torch.zeros(x.shape[0])
        layers = zip(self.scales, self.biases, self.mixes, self.nets, strict=True)
        for scale, bias, mix, net in layers:
            x = (x + bias) * scale
            density = density + scale.abs().log().sum() * x.shape[2] * x.shape[3]
            x = functional.conv2d(x, mix[:, :, None, None])
            kept, moved = x.chunk(2, 1)
            log, shift = net(kept).chunk(2, 1)
            factor = torch.sigmoid(log + 2)
            x = torch.cat([kept, moved * factor + shift], 1)
            density = density + factor.log().sum((1, 2, 3))
        return x, density - 0.5 * x.square().sum((1, 2, 3))


class Radiance(nn.Module):
    """NeRF: points along rays through a perceptron with a skip, then their transmittance."""

    def __init__(self, width: int = 64, points: int = 16) -> None:
        super().__init__()
        self.depths = nn.Parameter(torch.linspace(2, 6, points), requires_grad=False)
        self.first = nn.Sequential(
            nn.Linear(39, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.second = nn.Sequential(nn.Linear(width + 39, width), nn.ReLU())
        self.density, self.feature = nn.Linear(width, 1), nn.Linear(width, width)
        self.color = nn.Sequential(nn.Linear(width + 27, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, origin: Tensor, way: Tensor) -> tuple[Tensor, Tensor]:
        points = origin[:, None] + way[:, None] * self.depths[:, None]
        place = torch.cat([points, waves(points, 6)], -1)
        view = way / way.norm(dim=-1, keepdim=True)
        seen = torch.cat([view, waves(view, 4)], -1)[:, None].expand(-1, len(self.depths), -1)
        x = self.second(torch.cat([self.first(place), place], -1))
        density = functional.relu(self.density(x)).squeeze(-1)
        color = torch.sigmoid(self.color(torch.cat([self.feature(x), seen], -1)))
        gaps = functional.pad(self.depths[1:] - self.depths[:-1], (0, 1), value=1e3)
        alpha = 1 - torch.exp(-density * gaps)
        passed = torch.cumsum(torch.log(1 - alpha + 1e-10), -1)
        weights = alpha * torch.exp(functional.pad(passed[:, :-1], (1, 0)))
        return (weights[..., None] * color).sum(1), (weights * self.depths).sum(-1)


class LatentUNet(nn.Module):
    """Stable Diffusion's network in small: two resolutions, words, and a skip by Concat."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 128), nn.SiLU(), nn.Linear(128, 128))
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        wide = (width, width, 2 * width)
        self.norms = nn.ModuleList(nn.GroupNorm(16, c) for c in wide)
        self.convs = nn.ModuleList(nn.Conv2d(c, width, 3, padding=1) for c in wide)
        self.times = nn.ModuleList(nn.Linear(128, width) for _ in wide)
        self.before = nn.ModuleList(nn.GroupNorm(16, width, eps=1e-6) for _ in wide)
        self.inside = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in wide)
        self.normals = nn.ModuleList(nn.LayerNorm(width) for _ in range(9))
        self.alone = nn.ModuleList(CrossAttention(width, width) for _ in wide)
        self.cross = nn.ModuleList(CrossAttention(width, 48) for _ in wide)
        self.gated = nn.ModuleList(nn.Linear(width, 8 * width) for _ in wide)
        self.narrow = nn.ModuleList(nn.Linear(4 * width, width) for _ in wide)
        self.short = nn.Conv2d(2 * width, width, 1)
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.up = nn.Conv2d(width, width, 3, padding=1)
        self.last, self.leave = nn.GroupNorm(16, width), nn.Conv2d(width, 4, 3, padding=1)

    def block(self, i: int, x: Tensor, time: Tensor, words: Tensor) -> Tensor:
        y = self.convs[i](functional.silu(self.norms[i](x)))
        y = y + self.times[i](functional.silu(time))[:, :, None, None]
        x = (self.short(x) if x.shape[1] != y.shape[1] else x) + y
        batch, channels, height, width = x.shape
        y = self.inside[i](self.before[i](x)).permute(0, 2, 3, 1).flatten(1, 2)
        normal = self.normals[3 * i](y)
        y = y + self.alone[i](normal, normal)
        y = y + self.cross[i](self.normals[3 * i + 1](y), words)
        value, gate = self.gated[i](self.normals[3 * i + 2](y)).chunk(2, -1)
        y = y + self.narrow[i](value * functional.gelu(gate))
        return x + y.reshape(batch, height, width, channels).permute(0, 3, 1, 2)

    def forward(self, x: Tensor, step: Tensor, words: Tensor) -> Tensor:
        time = self.time(waves(step[:, None] / 1000, 16))
        kept = self.block(0, self.enter(x), time, words)
        x = self.block(1, self.down(kept), time, words)
        x = self.up(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        x = self.block(2, torch.cat([x, kept], 1), time, words)
        return self.leave(functional.silu(self.last(x)))


FAMILIES: dict[str, Callable[[], Network]] = {
    "codebook": lambda: plain_network(Codebook(), torch.randn(BATCH, 3, 32, 32), outputs=2),
    "dit": lambda: plain_network(
        *(DiffusionTransformer(), torch.randn(BATCH, 4, 16, 16)),
        *(torch.rand(BATCH) * 1000, torch.randint(0, 11, (BATCH,))),
    ),
    "flow": lambda: plain_network(Flow(), torch.randn(BATCH, 3, 16, 16), outputs=2),
    "latent-unet": lambda: plain_network(
        *(LatentUNet(), torch.randn(BATCH, 4, 16, 16)),
        *(torch.rand(BATCH) * 1000, torch.randn(BATCH, 7, 48)),
    ),
    "radiance": lambda: plain_network(
        Radiance(), torch.randn(BATCH, 3), torch.randn(BATCH, 3), outputs=2
    ),
    "uvit": lambda: plain_network(
        SkippingTransformer(), torch.randn(BATCH, 3, 32, 32), torch.rand(BATCH) * 1000
    ),
}
