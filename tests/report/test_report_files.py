"""The wall time of a run, divided among its parts."""

import pytest

from onnx_passes.report.report_files import Laps


def test_a_clock_without_a_start_begins_now():
    assert 0.0 <= Laps().end("reading") == pytest.approx(0.0, abs=60.0)
