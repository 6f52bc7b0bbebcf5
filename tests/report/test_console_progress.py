"""The line of a run on a terminal: which pass, for how long, and how long still."""

import io

from rich.console import Console

from onnx_passes.report.console import make_progress


def line(elapsed, completed, total):
    now = [0.0]
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, color_system=None)
    progress = make_progress(console, ascii_only=True)
    progress.get_time = lambda: now[0]
    task = progress.add_task("[b]3/4 name[/b]", total=total)
    now[0] = elapsed
    progress.update(task, completed=completed)
    console.print(progress.get_renderable())
    return stream.getvalue().strip()


def test_time_left_is_told_from_the_passes_that_are_done():
    assert line(30.0, 3, 4).endswith("[b]3/4 name[/b] 30 s, about 10 s left")
    assert line(600.0, 2, 4).endswith("10 min 0 s, about 10 min 0 s left")


def test_short_runs_and_unknown_ends_get_no_estimate():
    assert line(1.0, 1, 4).endswith("[b]3/4 name[/b]")
    assert line(30.0, 3, None).endswith("30 s")
    assert line(30.0, 0, 4).endswith("30 s")
