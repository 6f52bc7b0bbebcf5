"""The wall time of a run, divided among its parts."""

import time

import pytest

from onnx_passes.report.report_files import Laps


def test_all_time_belongs_to_a_part(monkeypatch):
    now = iter([3.0, 4.0, 6.0, 7.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    laps = Laps(1.0)
    laps.end("reading")
    laps.end("passes")
    laps.end("reading")
    assert laps.end("writing") == 6.0
    assert laps.times == {"reading": 4.0, "passes": 1.0, "writing": 1.0}


def test_a_clock_without_a_start_begins_now():
    assert 0.0 <= Laps().end("reading") == pytest.approx(0.0, abs=60.0)
