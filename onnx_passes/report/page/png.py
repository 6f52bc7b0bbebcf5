"""Pictures as PNG (the W3C's specification, third edition), without a library for it."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from onnx_passes.arrays import Array

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_TRUECOLOUR = 2


def encode(image: Array) -> bytes:
    """Return a picture as a PNG file.

    Args:
        image: uint8 of shape [height, width, 3]: red, green, blue.
    """
    height, width, _ = image.shape
    # Each line begins with the number of its filter, 0 for none.
    lines = np.zeros((height, 1 + 3 * width), np.uint8)
    lines[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, _TRUECOLOUR, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
