"""Networks of sequences whose state is linear, or kept from segment to segment."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.export.network import Network, ids
from benchmarks.export.small import BATCH, plain_network


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


def segment_sums(x: Tensor) -> Tensor:
    """Return the sums of all segments of the last axis, minus infinity above the diagonal."""
    total = torch.cumsum(x, -1)
    sums = total[..., :, None] - total[..., None, :]
    below = torch.tril(torch.ones(x.shape[-1], x.shape[-1], dtype=torch.bool))
    return sums.masked_fill(~below, -torch.inf)


class StateDuality(nn.Module):
    """Mamba 2: a gated state space computed in chunks, by products of matrices."""

    def __init__(self, width: int = 64, heads: int = 4, states: int = 16) -> None:
        super().__init__()
        self.width, self.heads, self.states = width, heads, states
        self.normal = nn.LayerNorm(width)
        self.enter = nn.Linear(width, 2 * width + 2 * states + heads, bias=False)
        self.conv = nn.Conv1d(width + 2 * states, width + 2 * states, 4, padding=3, groups=96)
        self.rates, self.step = (
            nn.Parameter(torch.rand(heads)),
            nn.Parameter(torch.rand(heads)),
        )
        self.skip = nn.Parameter(torch.rand(heads))
        self.weight = nn.Parameter(torch.rand(width))
        self.leave = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        length, width, heads, chunk = x.shape[1], self.width, self.heads, 8
        parts = [width, width + 2 * self.states, heads]
        gate, inner, step = self.enter(self.normal(x)).split(parts, -1)
        inner = functional.silu(self.conv(inner.transpose(1, 2))[..., :length].transpose(1, 2))
        values, keys, queries = inner.split([width, self.states, self.states], -1)
        step = functional.softplus(step + self.step)
        values = values.unflatten(-1, (heads, -1))
        given = (values * step[..., None]).unflatten(1, (-1, chunk))
        decay = (-torch.exp(self.rates) * step).unflatten(1, (-1, chunk)).permute(0, 3, 1, 2)
        keys, queries = (y.unflatten(1, (-1, chunk)) for y in (keys, queries))
        total = torch.cumsum(decay, -1)
        near = torch.exp(segment_sums(decay))
        inside = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", queries, keys, near, given)
        rest = torch.exp(total[..., -1:] - total)
        ends = torch.einsum("bcln,bhcl,bclhp->bchpn", keys, rest, given)
        ends = torch.cat([torch.zeros_like(ends[:, :1]), ends], 1)
        far = torch.exp(segment_sums(functional.pad(total[..., -1], (1, 0))))
        starts = torch.einsum("bhzc,bchpn->bzhpn", far, ends)[:, :-1]
        across = torch.einsum("bcln,bchpn,bhcl->bclhp", queries, starts, torch.exp(total))
        y = (inside + across).flatten(1, 2) + values * self.skip[:, None]
        y = y.flatten(2) * functional.silu(gate)
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5) * self.weight
        return x + self.leave(y)


class Retention(nn.Module):
    """RetNet: decayed products without a softmax, rotated by pairs, normalised by heads."""

    def __init__(self, width: int = 64, heads: int = 4, length: int = 16) -> None:
        super().__init__()
        self.heads = heads
        self.normal = nn.LayerNorm(width)
        self.query, self.key, self.value, self.gate, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(5)
        )
        self.group = nn.GroupNorm(heads, width, affine=False)
        places = torch.arange(length)
        gaps = (places[:, None] - places[None]).float()
        decay = 1 - 2.0 ** (-5 - torch.arange(heads))
        self.register_buffer("decay", decay[:, None, None] ** gaps.clamp(min=0) * (gaps >= 0))
        angles = places[:, None] / 10000 ** torch.linspace(0, 1, width // heads // 2)
        angles = angles.repeat_interleave(2, -1)
        self.register_buffer("sine", angles.sin())
        self.register_buffer("cosine", angles.cos())

    def rotated(self, x: Tensor) -> Tensor:
        turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        return x * self.cosine + turned * self.sine

    def forward(self, x: Tensor) -> Tensor:
        y = self.normal(x)
        batch, length, width = x.shape
        q, k, v = (
            part(y).view(batch, length, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        k = k * (width // self.heads) ** -0.5
        scores = self.rotated(q) @ self.rotated(k).transpose(-1, -2) * self.decay
        scores = scores / scores.detach().abs().sum(-1, keepdim=True).clamp(min=1)
        mixed = (scores @ v).transpose(1, 2).reshape(batch * length, width)
        mixed = self.group(mixed).reshape(batch, length, width)
        return x + self.out(functional.silu(self.gate(y)) * mixed)


class Segments(nn.Module):
    """Transformer-XL: attention to a memory, with relative places shifted into line."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.both = nn.Linear(width, 2 * width, bias=False)
        self.place, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.content = nn.Parameter(torch.randn(heads, self.size))
        self.position = nn.Parameter(torch.randn(heads, self.size))
        self.normal, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, width))
        rates = 1 / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("rates", rates)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        batch, length, width = x.shape
        every = torch.cat([memory, x], 1)
        total = every.shape[1]
        q = self.query(x).view(batch, length, self.heads, self.size)
        k, v = self.both(every).view(batch, total, 2, self.heads, self.size).unbind(2)
        angles = torch.arange(total - 1, -1, -1.0)[:, None] * self.rates
        places = self.place(torch.cat([angles.sin(), angles.cos()], -1))
        places = places.view(total, self.heads, self.size)
        by_word = torch.einsum("bihd,bjhd->bhij", q + self.content, k)
        by_place = torch.einsum("bihd,jhd->bhij", q + self.position, places)
        padded = functional.pad(by_place, (1, 0)).view(batch, self.heads, total + 1, length)
        by_place = padded[:, :, 1:].view(batch, self.heads, length, total)
        scores = (by_word + by_place) * self.size**-0.5
        later = torch.ones(length, total).triu(1 + total - length).bool()
        weights = scores.masked_fill(later, -torch.inf).softmax(-1)
        mixed = torch.einsum("bhij,bjhd->bihd", weights, v).reshape(batch, length, width)
        x = self.normal(x + self.out(mixed))
        return self.last(x + self.dense(x)), every[:, -length:]


class GatedCells(nn.Module):
    """An LSTM written as cells, as Keras exports them: one product, a Split, an Add chain."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.given, self.kept = (
            nn.Linear(16, 4 * width),
            nn.Linear(width, 4 * width, bias=False),
        )
        self.scores = nn.Linear(width, 5)
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        hidden = cell = torch.zeros(x.shape[0], self.width)
        for i in range(x.shape[1]):
            i_f_g_o = self.given(x[:, i]) + self.kept(hidden)
            i_gate, forget, new, out = i_f_g_o.chunk(4, 1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(i_gate) * torch.tanh(new)
            hidden = torch.sigmoid(out) * torch.tanh(cell)
        return torch.softmax(self.scores(hidden), -1)


FAMILIES: dict[str, Callable[[], Network]] = {
    "cells": lambda: plain_network(GatedCells(), torch.randn(BATCH, 10, 16)),
    "mamba2": lambda: plain_network(
        nn.Sequential(StateDuality(), StateDuality()), torch.randn(BATCH, 32, 64)
    ),
    "retention": lambda: plain_network(
        nn.Sequential(Retention(), Retention()), torch.randn(BATCH, 16, 64)
    ),
    "rwkv": lambda: plain_network(Receptance(), ids(500, BATCH, 8)),
    "segments": lambda: plain_network(
        Segments(), torch.randn(BATCH, 12, 64), torch.randn(BATCH, 12, 64), outputs=2
    ),
}
