import struct
import zlib

import numpy as np
import pytest

from onnx_passes.report.plots.pictures import ValueLayer, heat_map, histogram, layers
from onnx_passes.report.plots.png import encode


def decoded(data):
    """Read a PNG back, checksums included."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, found = 8, {}
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        (check,) = struct.unpack(">I", data[place + 8 + size : place + 12 + size])
        assert zlib.crc32(kind + body) == check
        found[kind] = body
        place += 12 + size
    width, height = struct.unpack(">II", found[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_a_png_holds_the_picture():
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    assert np.array_equal(decoded(encode(image)), image)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (3, 1000), (700, 2), (2, 3, 4, 5)])
def test_every_shape_has_a_picture(shape):
    expected = np.zeros(shape, np.float32)
    actual = expected + np.float32(0.5)
    for draw in (heat_map, histogram):
        image = draw(expected, actual, "y")
        assert image.dtype == np.uint8
        assert image.ndim == 3
        assert max(image.shape) < 700


def test_the_heat_map_shows_where_the_error_is():
    expected = np.zeros((4, 4), np.float32)
    actual = expected.copy()
    actual[1, 2] = 1.0
    none, one = heat_map(expected, expected, "y"), heat_map(expected, actual, "y")
    different = np.argwhere((none[44:204, 60:220] != one[44:204, 60:220]).any(-1))
    assert different.min(0).tolist() == [40, 80]
    assert different.max(0).tolist() == [79, 119]


def test_what_is_finite_on_one_side_only_is_red():
    expected = np.zeros((2, 2), np.float32)
    actual = expected.copy()
    actual[0, 0] = np.nan
    assert heat_map(expected, actual, "y")[50, 66].tolist() == [200, 30, 40]
    assert heat_map(actual, actual, "y")[50, 66].tolist() != [200, 30, 40]


def test_layers_that_differ_are_red():
    good, bad = ValueLayer(1e-6, passed=True), ValueLayer(1.0, passed=False)
    image = layers([good, bad], "run")
    assert (image == (200, 30, 40)).all(-1).any()
    assert not (layers([good, good], "run") == (200, 30, 40)).all(-1).any()
    assert layers(
        [ValueLayer(None, passed=False), ValueLayer(np.inf, passed=False)], "r"
    ).shape
