import io
import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from onnx_passes.errors import UsageError
from onnx_passes.report.error_plots import ValueLayer, heat_map, histogram, layers, png


def cells(expected, actual):
    """Return the colours of a heat map: float64 of shape [rows, columns, 4]."""
    (image,) = heat_map(expected, actual, "y").axes[0].images
    return np.asarray(image.get_array())


def colours(figure):
    return [patch.get_facecolor()[:3] for patch in figure.axes[0].patches]


RED = pytest.approx((200 / 255, 30 / 255, 40 / 255))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (3, 1000), (700, 2), (2, 3, 4, 5)])
def test_every_shape_has_a_picture(shape):
    from matplotlib.image import imread

    expected = np.zeros(shape, np.float32)
    actual = expected + np.float32(0.5)
    for draw in (heat_map, histogram):
        image = imread(io.BytesIO(png(draw(expected, actual, "y"))))
        assert image.shape == (400, 640, 4)
        assert len(np.unique(image.reshape(-1, 4), axis=0)) > 2


def test_the_heat_map_shows_where_the_error_is():
    expected = np.zeros((4, 4), np.float32)
    actual = expected.copy()
    actual[1, 2] = 1.0
    none, one = cells(expected, expected), cells(expected, actual)
    assert np.argwhere((none != one).any(-1)).tolist() == [[1, 2]]


def test_larger_errors_are_lighter_and_tiny_ones_are_seen():
    expected = np.zeros((1, 4))
    found = cells(expected, np.array([[1e-300, 1e-303, 1e-305, 0.0]]))
    light = found[0, :, :3].sum(-1)
    assert light[0] > light[1] > light[2]
    assert found[0, 3, :3] == pytest.approx((240 / 255, 240 / 255, 236 / 255))


def test_what_is_finite_on_one_side_only_is_red():
    expected = np.zeros((2, 2), np.float32)
    actual = expected.copy()
    actual[0, 0] = np.nan
    assert cells(expected, actual)[0, 0, :3] == RED
    assert cells(actual, actual)[0, 0, :3] != RED


def test_the_histogram_counts_each_decade():
    expected = np.zeros(6)
    figure = histogram(expected, np.array([0, 0, 1e-3, 2e-3, 0.5, np.inf]), "$y_1$")
    (stairs,) = figure.axes[0].patches
    assert stairs.get_data().values.sum() == 3
    assert stairs.get_data().edges[[0, -1]].tolist() == [-3, 0]
    assert "2 equal, 1 not finite on one side" in figure.axes[0].get_title()
    assert png(figure) == png(figure)


def test_layers_that_differ_are_red():
    good, bad = ValueLayer(1e-6, passed=True), ValueLayer(1.0, passed=False)
    blue, red = colours(layers([good, bad], "run"))
    assert red == RED
    assert blue != RED
    odd = [ValueLayer(None, passed=False), ValueLayer(np.inf, passed=False)]
    heights = [patch.get_height() for patch in layers(odd, "r").axes[0].patches]
    assert heights == pytest.approx([0.01, 1])


def test_without_matplotlib_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match="matplotlib") as failure:
        layers([ValueLayer(1.0, passed=True)], "run")
    assert "pip install '.[plots]'" in failure.value.help
