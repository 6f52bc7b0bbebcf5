"""Errors as pictures."""

from onnx_passes.report.plots.draw import draw_plots

__all__ = ["draw_plots"]
