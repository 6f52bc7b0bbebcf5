"""A shuffled order of any length in constant memory."""

from __future__ import annotations

import hashlib

import numpy as np

from onnx_passes.arrays import Array

_ROUNDS = 6


class Order:
    """A permutation of ``0 .. count - 1`` that is computed, not stored.

    It is a Feistel network over the next power of four, walked until a number is in range.
    The same seed and count give the same order on each machine.

    Args:
        count: Length of the order.
        seed: None for the order as it is.
    """

    def __init__(self, count: int, seed: int | None) -> None:
        self.count, self.seed = count, seed
        self._half = max(1, ((count - 1).bit_length() + 1) // 2)
        self._keys = [
            int.from_bytes(
                hashlib.sha256(f"{seed}:{count}:{number}".encode()).digest()[:8], "little"
            )
            for number in range(_ROUNDS)
        ]

    def rows(self, start: int, stop: int) -> Array:
        """Return the numbers at positions ``start`` up to ``stop``, as int64.

        Args:
            start: The first position.
            stop: The position after the last.
        """
        places = np.arange(start, stop, dtype=np.uint64)
        if self.seed is None:
            return places.astype(np.int64)
        found = self._walk(places)
        while (beyond := found >= self.count).any():
            found[beyond] = self._walk(found[beyond])
        return found.astype(np.int64)

    def _walk(self, numbers: Array) -> Array:
        half = np.uint64(self._half)
        mask = np.uint64((1 << self._half) - 1)
        left, right = numbers >> half, numbers & mask
        with np.errstate(over="ignore"):
            for key in self._keys:
                left, right = right, left ^ (_mix(right + np.uint64(key)) & mask)
        joined: Array = (left << half) | right
        return joined


def _mix(value: Array) -> Array:
    # The finaliser of splitmix64 (Steele, Lea and Flood, 2014).
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = value ^ (value >> np.uint64(31))
    return mixed
