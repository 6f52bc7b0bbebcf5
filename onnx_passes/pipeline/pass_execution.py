"""Run one pass: hooks, time limits, and runs with some of its rewrites left out.

An instrument is called before and after each pass. An attempt runs a pass again with fewer
rewrites. Rewrites that remove nodes which the user keeps are left out.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Literal

import onnx_ir as ir

from onnx_passes.configs.problems import located
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import (
    ConfigError,
    LostWeightsError,
    OnnxPassesError,
    PassError,
    TimeLimitError,
)
from onnx_passes.model.save import changed_files, save_model, stamps_of
from onnx_passes.model.walk import all_nodes
from onnx_passes.optional import users_line
from onnx_passes.passes.base import Analysis, Pass, is_shipped
from onnx_passes.passes.context import Application, PassContext, Rewrites
from onnx_passes.passes.options import did_you_mean
from onnx_passes.passes.patterns import describe
from onnx_passes.pipeline.state import Checked
from onnx_passes.report.run_report import PassReport, RunReport
from onnx_passes.risky_runs import running
from onnx_passes.verify.evidence import Check, Checks, Verdict
from onnx_passes.verify.snapshot import Change, Snapshot


class Instrument:
    """Something that looks on. Subclass it and override what is wanted.

    An instrument must not change the model: what it changes would be charged to the pass.
    """

    def start(self, report: RunReport, model: ir.Model) -> None:
        """Called once, before the first pass."""

    def before_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        """Called before a pass runs."""

    def after_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        """Called when a pass has run and was checked; ``model`` is what the next one gets."""

    def finish(self, report: RunReport, model: ir.Model) -> None:
        """Called once, when the run has ended, however it did."""


class Dump(Instrument):
    """Writes the model after passes, as ``DIR/0003-fold-constants.onnx``.

    ``which`` is "all", "changed" for the passes that changed it, or names of passes.
    """

    def __init__(self, which: Literal["all", "changed"] | list[str], folder: Path) -> None:
        self.which, self.folder = which, folder

    def after_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        wanted = (
            self.which == "all"
            or (self.which == "changed" and report.changed)
            or (isinstance(self.which, list) and pass_.name in self.which)
        )
        if wanted:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_model(model, self.folder / f"{report.index:04d}-{pass_.name}.onnx")


class SeedLogging(Instrument):
    """What the seed system's ``logging`` section asks for.

    The file ``checkpoint`` is written anew before and after each pass with that prefix. The
    folder ``intermediates`` gets the model after each pass. Relative paths start at
    ``folder``.
    """

    def __init__(
        self, checkpoint: str | None, intermediates: str | None, folder: Path
    ) -> None:
        self.checkpoint = folder / checkpoint if checkpoint else None
        self.intermediates = folder / intermediates if intermediates else None

    def before_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        if self.checkpoint:
            save_model(model, self.checkpoint.with_name(f"before-{self.checkpoint.name}"))

    def after_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        if self.checkpoint:
            save_model(model, self.checkpoint.with_name(f"after-{self.checkpoint.name}"))
        if self.intermediates:
            self.intermediates.mkdir(parents=True, exist_ok=True)
            name = f"{report.index - 1:08d}-{type(pass_).__name__}.onnx"
            save_model(model, self.intermediates / name)


def execute(pass_: Pass, model: ir.Model, seconds: float | None) -> ir.passes.PassResult:
    """Run a pass under a time limit in seconds; the pass may change the model.

    Raises PassError if it raised, did not end, or returned something other than a result, and
    LostWeightsError if it wrote to a file that the model reads. Our own errors pass through.
    """
    name = pass_.name
    stamps = {} if is_shipped(type(pass_)) else stamps_of(model)
    try:
        with running(f"pass {name!r}"), time_limit(seconds, f"pass {name!r}"):
            result = pass_(model)
    except OnnxPassesError:
        raise
    except (ir.passes.PassError, ir.passes.InvariantError) as error:
        cause = error.__cause__
        if isinstance(cause, OnnxPassesError):
            raise cause from error
        reason = f"{error}: {type(cause).__name__}: {cause}" if cause else str(error)
        raise PassError(f"pass {name!r}: {reason}") from error
    except RecursionError as error:
        raise PassError(f"pass {name!r} recursed without end") from error
    except MemoryError as error:
        raise PassError(f"pass {name!r} ran out of memory") from error
    except Exception as error:
        raise PassError(
            f"pass {name!r} raised {type(error).__name__}: {error}{users_line(error)}",
            help="run again with --debug for the traceback",
        ) from error
    if changed := changed_files(stamps):
        raise LostWeightsError(
            f"pass {name!r} wrote to {', '.join(changed)}, where the weights of the model are",
            help="restore the file; a pass gives a value another tensor, not another file",
        )
    if not isinstance(result.model, ir.Model):
        raise PassError(
            f"pass {name!r} returned a {type(result.model).__name__} in place of a model",
            help="return onnx_ir.passes.PassResult(model, modified)",
        )
    return result


def complaint(pass_: Pass, change: Change) -> str | None:
    """Return what a pass of its kind must not have done; None if it did nothing such."""
    if isinstance(pass_, Analysis) and change is not Change.NONE:
        return f"pass {pass_.name!r} is an analysis and changed the model ({change})"
    return None


@contextmanager
def time_limit(seconds: float | None, what: str) -> Iterator[None]:
    """Raise in the code inside when it runs past ``seconds``.

    Python can only interrupt its main thread, and only between two of its own instructions: in
    another thread, and where the platform has no alarm, there is no limit. Raises
    TimeLimitError; ``what`` names what runs.
    """
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeLimitError(
            f"{what} did not end within {seconds:g} s",
            help="give it more time under limits.pass_seconds, if it needs that",
        )

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


LEAST_RUNS = 32
"""Runs that a search for culprits may take in any case, else as many as passes ran before."""


class SearchEnded(Exception):  # noqa: N818 - control flow, not an error
    """The runs or the time for looking are spent."""


@dataclass
class Attempt:
    """What a pass makes with some of its rewrites; it is checked once that is asked for."""

    attempts: Attempts
    model: ir.Model
    applied: list[Application]

    @cached_property
    def change(self) -> Change:
        return self.attempts.before.change(self.model)

    @cached_property
    def checked(self) -> Checked:
        return self.attempts.check(self.model, self.change, self.applied)

    @property
    def checks(self) -> list[Check]:
        """The checks of the model; none where nothing changed."""
        return self.checked.checks

    @property
    def fails(self) -> bool:
        """Whether it fails its checks, or the one that the search is about."""
        if self.attempts.ask is not None and "checked" not in vars(self):
            return self._fails_alone
        return Checks(tuple(self.checks)).verdict is Verdict.FAILED

    @cached_property
    def _fails_alone(self) -> bool:
        assert self.attempts.ask is not None
        return Checks(tuple(self.attempts.ask(self.model))).verdict is Verdict.FAILED

    @property
    def keys(self) -> list[str]:
        return [application.key for application in self.applied]


@dataclass
class Attempts:
    """Runs a pass again and again, each time from the same model.

    ``first`` is the position in the record of rewrites at which the pass began, and
    ``context`` is not changed. ``deadline`` is on the clock of ``time.monotonic``. ``ask``
    puts only the question that failed, if all of ``check`` take far longer.
    """

    make: Callable[[], Pass]
    before: Snapshot
    context: PassContext
    first: int
    check: Callable[[ir.Model, Change, Sequence[Application]], Checked]
    pass_seconds: float | None = None
    runs: float = float("inf")
    deadline: float = float("inf")
    ask: Callable[[ir.Model], list[Check]] | None = None

    def apply(
        self,
        *,
        skip: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
        count: int | None = None,
        expected: Sequence[str] | None = None,
    ) -> Attempt:
        """Run the pass without the rewrites of ``skip``, or with ``only`` these; None for all.

        The run leaves out some in any case. ``count`` limits the rewrites, and ``expected``
        are keys that it has to make. Raises OnnxPassesError if the pass raised or did not make
        these, and SearchEnded if no run is left or the deadline is over.
        """
        if time.monotonic() > self.deadline:
            raise SearchEnded("the time for localising was over")
        if self.runs <= 0:
            raise SearchEnded("localising took as many runs as the pipeline before")
        self.runs -= 1
        given = self.context.rewrites
        limit = given.limit if count is None else self.first + count
        pass_ = self.make()
        pass_.context = PassContext(
            Rewrites(limit, given.skip | skip, only, list(given.applied[: self.first])),
            dict(self.context.analyses),
            file_bytes=self.context.file_bytes,
            samples=self.context.samples,
            made_up=self.context.made_up,
        )
        model = execute(pass_, self.before.restore(), self.pass_seconds).model
        made = Attempt(self, model, pass_.context.rewrites.applied[self.first :])
        if expected is not None and made.keys != list(expected):
            raise OnnxPassesError("the pass does not repeat its rewrites")
        return made

    def known(
        self, model: ir.Model, applied: list[Application], change: Change, checked: Checked
    ) -> Attempt:
        made = Attempt(self, model, applied)
        made.change, made.checked = change, checked
        return made


@dataclass(frozen=True)
class KeptNodes:
    """The nodes that must stay: operators by the name of a node, or of a value it computes."""

    operators: dict[str, ir.OperatorIdentifier]

    @classmethod
    def of(cls, model: ir.Model, config: PipelineConfig) -> KeptNodes:
        """Look up the nodes that a pipeline names; raise ConfigError if one does not exist."""
        known = _nodes(model) if config.keep else {}
        for index, name in enumerate(config.keep):
            if name not in known:
                raise ConfigError(
                    f"{name!r} is to be kept, and the model has no such node or value",
                    where=located(config.tree.values.get(("keep", index))),
                    help=did_you_mean(
                        name, known, "onnx-passes inspect model MODEL --show layers lists them"
                    ),
                )
        return cls({name: known[name].op_identifier() for name in config.keep})

    def lost_in(self, model: ir.Model) -> list[str]:
        """Return the names of those that a model no longer has."""
        found = _nodes(model) if self.operators else {}
        return [
            name
            for name, operator in self.operators.items()
            if name not in found or found[name].op_identifier() != operator
        ]

    def restore(
        self, before: ir.Model, made: Attempt
    ) -> tuple[Attempt | None, frozenset[str]]:
        """Run a pass again without the rewrites that remove a node; return also their keys.

        There is no attempt if nothing less than the whole pass can be left out. Raises
        OnnxPassesError if the pass raised in a second run.
        """
        nodes, skip, left = _nodes(before), frozenset[str](), made
        while lost := self.lost_in(left.model):
            texts = tuple(_head(describe(nodes[name])) for name in lost if name in nodes)
            keys = {a.key for a in left.applied if _matches(a, texts)}
            if not keys:
                return None, skip
            skip |= keys
            left = made.attempts.apply(skip=skip)
        return left, skip


def _nodes(model: ir.Model) -> dict[str, ir.Node]:
    nodes = list(all_nodes(model))
    found = {str(value.name): node for node in nodes for value in node.outputs}
    return found | {node.name: node for node in nodes if node.name}


def _head(text: str) -> str:
    return text.partition("(")[0] + "("


def _matches(application: Application, heads: Sequence[str]) -> bool:
    return any(text.startswith(head) for text in application.nodes for head in heads)
