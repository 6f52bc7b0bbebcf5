"""The memory that sessions of ONNX Runtime share."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from threading import Lock
from types import ModuleType

_ARENA = Lock()
_ARENA_PIECES = {
    "max_mem": 0,  # as much as there is
    "arena_extend_strategy": 0,  # by powers of two, and above the last of them as requested
    "initial_chunk_size_bytes": 1 << 16,
    "initial_growth_chunk_size_bytes": 1 << 16,
    "max_power_of_two_extend_bytes": 1 << 20,
    "max_dead_bytes_per_chunk": -1,
}
"""How the arena grows; see ``OrtArenaCfg`` of ONNX Runtime."""


def share_arena(ort: ModuleType) -> None:
    """Make the arena that sessions take memory from, once."""
    with _ARENA:  # sessions are made on several threads
        _make_arena(ort)


@cache
def _make_arena(ort: ModuleType) -> None:
    """Let sessions take memory from one arena.

    A pipeline makes dozens of sessions for a run or two each. The first touch of memory takes
    longer than most kernels; memory that another session has left is touched already.
    Small values lie side by side in pieces of up to a mebibyte. With a piece for each value,
    the next one takes longer the more are kept: thousands are where all values are recorded.
    """
    info = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    # Where whoever imports this package has made one, that one is used.
    with suppress(RuntimeError):
        ort.create_and_register_allocator(info, ort.OrtArenaCfg(_ARENA_PIECES))
