"""Networks of signals and series: waves, spectra, splines, forecasts; styles of images."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.export.network import Network, ids
from benchmarks.export.small import BATCH, plain_network


class Waves(nn.Module):
    """WaveNet: dilated causal convolutions, gates, residual and skipped sums."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.enter = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(5)
        )
        self.condition = nn.ModuleList(nn.Conv1d(8, 2 * width, 1) for _ in range(5))
        self.residual = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(5))
        self.skipped = nn.ModuleList(nn.Conv1d(width, 32, 1) for _ in range(5))
        self.leave = nn.Sequential(nn.ReLU(), nn.Conv1d(32, 32, 1), nn.ReLU())
        self.scores = nn.Conv1d(32, 16, 1)

    def forward(self, x: Tensor, given: Tensor) -> Tensor:
        x = self.enter(x)
        total = 0.0
        layers = zip(self.layers, self.condition, self.residual, self.skipped, strict=True)
        for i, (layer, condition, residual, skipped) in enumerate(layers):
            y = layer(functional.pad(x, (2**i, 0))) + condition(given)
            value, gate = y.chunk(2, 1)
            y = value.tanh() * gate.sigmoid()
            total = total + skipped(y)
            x = (x + residual(y)) * 0.5**0.5
        return self.scores(self.leave(total))


class Spectral(nn.Module):
    """A Fourier neural operator, its transform by matrices of cosines and sines."""

    def __init__(self, points: int = 32, modes: int = 8, width: int = 16) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(modes), torch.arange(points)) * 2 * torch.pi / points
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())
        self.points = points
        self.enter, self.leave = nn.Linear(2, width), nn.Linear(width, 1)
        self.real = nn.ParameterList(torch.randn(width, width, modes) * 0.1 for _ in range(2))
        self.other = nn.ParameterList(torch.randn(width, width, modes) * 0.1 for _ in range(2))
        self.local = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(2))
        self.register_buffer("grid", torch.linspace(0, 1, points)[None, :, None])

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, self.grid.expand(x.shape[0], -1, -1)], -1)
        x = self.enter(x).permute(0, 2, 1)
        for real, other, local in zip(self.real, self.other, self.local, strict=True):
            a, b = x @ self.cosines.T, -(x @ self.sines.T)
            up = torch.einsum("bim,iom->bom", a, real) - torch.einsum("bim,iom->bom", b, other)
            down = torch.einsum("bim,iom->bom", a, other) + torch.einsum(
                "bim,iom->bom", b, real
            )
            y = (2.0 / self.points) * (up @ self.cosines - down @ self.sines)
            x = functional.gelu(y + local(x))
        return self.leave(x.permute(0, 2, 1))


class Transformed(nn.Module):
    """Features of sound by the Fourier transform of torch, then convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("bands", torch.rand(33, 16))
        self.body = nn.Sequential(
            *(nn.Conv1d(16, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU()),
            *(nn.Conv1d(32, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU()),
        )
        self.scores = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        frames = x.unfold(-1, 64, 32) * self.window
        found = torch.view_as_real(torch.fft.rfft(frames))
        power = found.square().sum(-1) @ self.bands
        power = torch.log(power.clamp(min=1e-6))
        power = (power - power.mean(1, keepdim=True)) / (power.std(1, keepdim=True) + 1e-5)
        return self.scores(self.body(power.transpose(1, 2)).amax(-1))


class Splines(nn.Module):
    """KAN: each edge is a sum of B-splines on a grid, and of SiLU."""

    def __init__(self, *widths: int, count: int = 5, order: int = 3) -> None:
        super().__init__()
        self.order = order
        step = 2 / count
        grid = torch.arange(-order, count + order + 1) * step - 1
        self.register_buffer("grid", grid)
        pairs = list(pairwise(widths))
        self.base = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairs)
        self.spline = nn.ModuleList(
            nn.Linear(a * (count + order), b, bias=False) for a, b in pairs
        )

    def forward(self, x: Tensor) -> Tensor:
        for base, spline in zip(self.base, self.spline, strict=True):
            y, g = x[..., None], self.grid
            bases = ((y >= g[:-1]) & (y < g[1:])).to(x.dtype)
            for k in range(1, self.order + 1):
                left = (y - g[: -(k + 1)]) / (g[k:-1] - g[: -(k + 1)])
                right = (g[k + 1 :] - y) / (g[k + 1 :] - g[1:-k])
                bases = left * bases[..., :-1] + right * bases[..., 1:]
            x = base(functional.silu(x)) + spline(bases.flatten(1))
        return x


class Forecast(nn.Module):
    """N-BEATS: blocks that explain a part of a series; a trend and a season."""

    def __init__(self, past: int = 20, future: int = 8) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(past, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
            for _ in range(4)
        )
        self.theta = nn.ModuleList(nn.Linear(64, 8, bias=False) for _ in range(4))
        times = torch.linspace(-1, 1, past + future)
        powers = torch.stack([times**i for i in range(4)])
        waves = torch.cat([torch.stack([(i * 3.14 * times).cos() for i in range(1, 3)])] * 2)
        for name, basis in (("trend", powers), ("season", waves)):
            self.register_buffer(f"{name}_past", basis[:, :past].clone())
            self.register_buffer(f"{name}_future", basis[:, past:].clone())

    def forward(self, x: Tensor) -> Tensor:
        level = x.abs().amax(1, keepdim=True) + 1e-6
        x = x / level
        total = torch.zeros(())
        for i, (block, theta) in enumerate(zip(self.blocks, self.theta, strict=True)):
            name = "trend" if i < 2 else "season"
            back, ahead = theta(block(x)).split(4, -1)
            x = x - back @ getattr(self, f"{name}_past")
            total = total + ahead @ getattr(self, f"{name}_future")
        return total * level


class Gated(nn.Module):
    """The gated residual network of the temporal fusion transformer."""

    def __init__(self, width: int, before: int = 0, out: int = 0) -> None:
        super().__init__()
        out = out or width
        self.a, self.b = nn.Linear(before or width, width), nn.Linear(width, width)
        self.gate = nn.Linear(width, 2 * out)
        self.skip = nn.Linear(before or width, out) if (before or width) != out else None
        self.normal = nn.LayerNorm(out)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.glu(self.gate(self.b(functional.elu(self.a(x)))), -1)
        return self.normal((x if self.skip is None else self.skip(x)) + y)


class TemporalFusion(nn.Module):
    """Variables are chosen by weights, an LSTM, attention with one value, quantiles."""

    def __init__(self, variables: int = 5, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.ModuleList(nn.Linear(1, width) for _ in range(variables))
        self.each = nn.ModuleList(Gated(width) for _ in range(variables))
        self.choice = Gated(width, variables * width, variables)
        self.inner = nn.LSTM(width, width, batch_first=True)
        self.after, self.last = Gated(width), Gated(width)
        self.q = nn.ModuleList(nn.Linear(width, 8) for _ in range(2))
        self.k = nn.ModuleList(nn.Linear(width, 8) for _ in range(2))
        self.v, self.out = nn.Linear(width, 8), nn.Linear(8, width)
        self.quantiles = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        parts = [layer(x[..., i : i + 1]) for i, layer in enumerate(self.embed)]
        weight = self.choice(torch.cat(parts, -1)).softmax(-1)[..., None]
        each = torch.stack([f(p) for f, p in zip(self.each, parts, strict=True)], -2)
        x = self.after((weight * each).sum(-2) + self.inner((weight * each).sum(-2))[0])
        length = x.shape[1]
        hidden = torch.triu(torch.ones(length, length), 1).bool()
        total = torch.zeros(())
        for q, k in zip(self.q, self.k, strict=True):
            near = q(x) @ k(x).transpose(1, 2) / 8**0.5
            total = total + near.masked_fill(hidden, -1e9).softmax(-1) @ self.v(x)
        return self.quantiles(self.last(x + self.out(total / 2)))


class Styles(nn.Module):
    """StyleGAN: a mapping, weights that a style scales and norms, noise, upsampling."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.map = nn.Sequential(*(nn.Linear(32, 32), nn.LeakyReLU(0.2)) * 2)
        self.start = nn.Parameter(torch.randn(1, width, 4, 4))
        self.styles = nn.ModuleList(nn.Linear(32, width) for _ in range(3))
        self.weights = nn.ParameterList(torch.randn(width, width, 3, 3) for _ in range(3))
        self.bias = nn.ParameterList(torch.randn(width) for _ in range(3))
        self.noise = nn.ParameterList(torch.randn(1, 1, 4 * 2**i, 4 * 2**i) for i in range(3))
        self.colours = nn.Conv2d(width, 3, 1)

    def forward(self, z: Tensor) -> Tensor:
        z = z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8)
        z = self.map(z)
        x = self.start.expand(z.shape[0], -1, -1, -1)
        image = torch.zeros(())
        layers = zip(self.styles, self.weights, self.bias, self.noise, strict=True)
        for i, (style, weight, bias, noise) in enumerate(layers):
            if i:
                x = functional.interpolate(x, scale_factor=2, mode="bilinear")
                image = functional.interpolate(image, scale_factor=2, mode="nearest")
            scale = style(z) + 1
            norm = torch.rsqrt((scale.square() @ weight.square().sum((2, 3)).T) + 1e-8)
            x = functional.conv2d(x * scale[:, :, None, None], weight, padding=1)
            x = x * norm[:, :, None, None] + noise * 0.1 + bias[None, :, None, None]
            x = functional.leaky_relu(x, 0.2) * 2**0.5
            image = image + self.colours(x)
        return image.tanh() * 0.5 + 0.5


class Hyper(nn.Module):
    """A network that makes the weights of another from a task, one for each of a batch."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.tasks = nn.Embedding(10, 8)
        self.make = nn.Sequential(
            *(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 6 * width + width + width * 2)),
        )
        self.width = width

    def forward(self, x: Tensor, task: Tensor) -> Tensor:
        made = self.make(self.tasks(task))
        a, b, c = made.split([6 * self.width, self.width, 2 * self.width], -1)
        x = torch.baddbmm(b[:, None], x, a.view(-1, 6, self.width))
        return torch.bmm(x.relu(), c.view(-1, self.width, 2)).softmax(-1)


class Latents(nn.Module):
    """A VAE: group norms, attention of one head in its middle, mean, variance, an image."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.enter, self.down = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, width, 3, 2)
        self.normals = nn.ModuleList(nn.GroupNorm(8, width, eps=1e-6) for _ in range(4))
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in range(3))
        self.q, self.k, self.v, self.o = (nn.Conv2d(width, width, 1) for _ in range(4))
        self.moments, self.back = nn.Conv2d(width, 8, 1), nn.Conv2d(4, width, 1)
        self.leave = nn.Conv2d(width, 3, 3, 1, 1)

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        x = self.down(functional.pad(self.enter(x), (0, 1, 0, 1)))
        x = x + self.convs[0](functional.silu(self.normals[0](x)))
        y = self.normals[1](x)
        b, c, h, w = y.shape
        q = self.q(y).reshape(b, c, h * w).permute(0, 2, 1)
        near = torch.bmm(q, self.k(y).reshape(b, c, h * w)) * c**-0.5
        v = self.v(y).reshape(b, c, h * w)
        y = torch.bmm(v, near.softmax(2).permute(0, 2, 1)).reshape(b, c, h, w)
        mean, spread = self.moments(x + self.o(y)).chunk(2, 1)
        spread = spread.clamp(-30.0, 20.0)
        z = mean + torch.exp(0.5 * spread) * noise
        x = self.convs[1](functional.silu(self.normals[2](self.back(z))))
        x = self.convs[2](functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        kl = 0.5 * (mean.square() + spread.exp() - 1.0 - spread).sum((1, 2, 3))
        return self.leave(functional.silu(self.normals[3](x))), kl


class Shifted(nn.Module):
    """Swin by hand: windows, a roll, a table of relative positions, a mask of regions."""

    def __init__(self, width: int = 32, side: int = 4, size: int = 8) -> None:
        super().__init__()
        self.side, self.width = side, width
        self.enter = nn.Conv2d(3, width, 4, 4)
        self.normals = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.wide = nn.ModuleList(nn.Linear(width, 64) for _ in range(2))
        self.narrow = nn.ModuleList(nn.Linear(64, width) for _ in range(2))
        self.bias = nn.ParameterList(torch.randn((2 * side - 1) ** 2, 2) for _ in range(2))
        at = torch.stack(torch.meshgrid(*[torch.arange(side)] * 2, indexing="ij")).flatten(1)
        near = (at[:, :, None] - at[:, None]).permute(1, 2, 0) + side - 1
        self.register_buffer("near", near[..., 0] * (2 * side - 1) + near[..., 1])
        regions = torch.zeros(1, size, size, 1)
        cuts = (slice(0, -side), slice(-side, -side // 2), slice(-side // 2, None))
        for i, (a, b) in enumerate((a, b) for a in cuts for b in cuts):
            regions[:, a, b] = i
        parts = self.windows(regions).squeeze(-1)
        mask = (parts[:, None] != parts[:, :, None]).float() * -100.0
        self.register_buffer("mask", mask)

    def windows(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        x = x.view(b, h // self.side, self.side, w // self.side, self.side, c)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, self.side**2, c)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        for i in range(2):
            y = self.normals[2 * i](x)
            if i:
                y = torch.roll(y, (-2, -2), (1, 2))
            y = self.windows(y)
            qkv = self.qkv[i](y).reshape(-1, self.side**2, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
            near = (qkv[0] * (c // 2) ** -0.5) @ qkv[1].transpose(-2, -1)
            near = near + self.bias[i][self.near.view(-1)].view(
                self.side**2, self.side**2, 2
            ).permute(2, 0, 1)
            if i:
                n = self.mask.shape[0]
                near = near.view(-1, n, 2, self.side**2, self.side**2) + self.mask[:, None]
                near = near.view(-1, 2, self.side**2, self.side**2)
            y = (near.softmax(-1) @ qkv[2]).transpose(1, 2).reshape(-1, self.side**2, c)
            y = self.out[i](y).view(
                -1, h // self.side, w // self.side, self.side, self.side, c
            )
            y = y.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
            if i:
                y = torch.roll(y, (2, 2), (1, 2))
            x = x + y
            y = functional.gelu(self.wide[i](self.normals[2 * i + 1](x)))
            x = x + self.narrow[i](y)
        return x.mean((1, 2))


class Resolutions(nn.Module):
    """HRNet: branches of three sizes that exchange sums; squeeze and excite in each."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        wide = [width, 2 * width, 4 * width]

        def conv(a: int, b: int, size: int = 3, stride: int = 1) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(a, b, size, stride, size // 2, bias=False), nn.BatchNorm2d(b)
            )

        self.enter = conv(3, width, 3, 2)
        self.lower = nn.ModuleList(conv(a, 2 * a, 3, 2) for a in wide[:2])
        self.body = nn.ModuleList(conv(a, a) for a in wide)
        self.squeeze = nn.ModuleList(nn.Conv2d(a, a // 4, 1) for a in wide)
        self.excite = nn.ModuleList(nn.Conv2d(a // 4, a, 1) for a in wide)
        self.mix = nn.ModuleDict(
            {
                f"{i}{j}": conv(a, b, 1) if i > j else conv(a, b, 3, 2 ** (j - i))
                for i, a in enumerate(wide)
                for j, b in enumerate(wide)
                if i != j
            }
        )
        self.scores = nn.Conv2d(sum(wide), 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.enter(x).relu()]
        for layer in self.lower:
            parts.append(layer(parts[-1]).relu())
        for i, part in enumerate(parts):
            y = self.body[i](part)
            gate = self.squeeze[i](functional.adaptive_avg_pool2d(y, 1)).relu()
            parts[i] = (part + y * functional.hardsigmoid(self.excite[i](gate))).relu()
        made = []
        for j, whole in enumerate(parts):
            for i, part in enumerate(parts):
                if i == j:
                    continue
                y = self.mix[f"{i}{j}"](part)
                if i > j:
                    y = functional.interpolate(y, scale_factor=float(2 ** (i - j)))
                whole = whole + y
            made.append(whole.relu())
        size = made[0].shape[-2:]
        made[1:] = [
            functional.interpolate(y, size, mode="bilinear", align_corners=False)
            for y in made[1:]
        ]
        return self.scores(torch.cat(made, 1)).argmax(1)


class HalfBlock(nn.Module):
    """A layer of a transformer in float16, its sums of squares in float32."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(200, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 128), nn.Linear(128, width)
        self.weight = nn.ParameterList(torch.rand(width) + 0.5 for _ in range(2))
        self.half()

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words)
        for weight in self.weight:
            y = x.float()
            y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)
            y = weight * y.to(x.dtype)
            q, k, v = (
                p.view(*p.shape[:2], 4, 16).transpose(1, 2) for p in self.qkv(y).chunk(3, -1)
            )
            near = (q @ k.transpose(2, 3)) * 0.25
            y = near.float().softmax(-1).to(x.dtype) @ v
            x = x + self.out(y.transpose(1, 2).flatten(2))
            x = x + self.narrow(functional.gelu(self.wide(x), approximate="tanh"))
        return x.float()


FAMILIES: dict[str, Callable[[], Network]] = {
    "forecast": lambda: plain_network(Forecast(), torch.randn(BATCH, 20)),
    "half-block": lambda: plain_network(HalfBlock(), ids(200, BATCH, 12)),
    "hyper": lambda: plain_network(Hyper(), torch.randn(BATCH, 5, 6), ids(10, BATCH)),
    "latents": lambda: plain_network(
        Latents(), torch.randn(BATCH, 3, 16, 16), torch.randn(BATCH, 4, 8, 8), outputs=2
    ),
    "resolutions": lambda: plain_network(Resolutions(), torch.rand(BATCH, 3, 64, 64)),
    "shifted": lambda: plain_network(Shifted(), torch.rand(BATCH, 3, 32, 32)),
    "spectral": lambda: plain_network(Spectral(), torch.randn(BATCH, 32, 1)),
    "splines": lambda: plain_network(Splines(4, 16, 3), torch.rand(BATCH, 4) * 2 - 1),
    "styles": lambda: plain_network(Styles(), torch.randn(BATCH, 32)),
    "temporal-fusion": lambda: plain_network(TemporalFusion(), torch.randn(BATCH, 12, 5)),
    "transformed": lambda: plain_network(Transformed(), torch.randn(BATCH, 512)),
    "waves": lambda: plain_network(
        Waves(), torch.randn(BATCH, 1, 64), torch.randn(BATCH, 8, 64)
    ),
}
