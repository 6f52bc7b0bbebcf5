"""The line on a terminal that says which pass is at work, for how long, and how long still."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from onnx_passes.report.text import whole_seconds

_SHORT = 2.0  # seconds that need no words


class _Times(ProgressColumn):
    """Seconds since the first pass, and what the passes left take if they are like those."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        elapsed = task.elapsed or 0.0
        if elapsed < _SHORT:
            return Text("")
        told = whole_seconds(elapsed)
        if task.total is not None and task.completed and not task.finished:
            left = elapsed * (task.total - task.completed) / task.completed
            told += f", about {whole_seconds(left)} left" if left >= 1 else ""
        return Text(told, "dim", no_wrap=True)


def make_progress(console: Console, *, ascii_only: bool) -> Progress:
    """Return a line that goes when it is stopped."""
    return Progress(
        SpinnerColumn("line" if ascii_only else "dots"),
        TextColumn("{task.description}", markup=False),
        _Times(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
