"""The check that the options of ``onnx-passes reduce`` ask for."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.reduce_on_data import DataChecks
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainMapping

if TYPE_CHECKING:
    from onnx_passes.contracts import Tolerance
    from onnx_passes.data.plan import ShardPlan
    from onnx_passes.passes.base import Pass
    from onnx_passes.runtime.engine_base import Engine
    from onnx_passes.verify.reduce import Boundary
    from onnx_passes.verify.reduce.checks import PassCheck
    from onnx_passes.verify.reduce.outcome import ModelCheck
    from onnx_passes.verify.reduce.store import CandidateStore


def make_check(
    given: PlainMapping,
    store: CandidateStore,
    boundary: Boundary,
    plan: ShardPlan | None,
    stack: ExitStack,
) -> ModelCheck:
    """Return what judges candidates.

    Args:
        given: The options of the command.
        store: Writes candidates for checks that read files.
        boundary: Values at cuts; gets the engine that is right, if one is given.
        plan: A whole data set that they are judged over; None for one sample.
        stack: Ends workers.

    Raises:
        UsageError: An option does not parse, or names what is not there.
    """
    from onnx_passes.verify.reduce.command import CommandCheck, FailureCriteria

    if given["check"] is not None:
        patterns = tuple(_pattern(text) for text in given["fail_regex"])
        rules = FailureCriteria(
            frozenset(given["fail_code"]), frozenset(given["ignore_fail_code"]), patterns
        )
        return CommandCheck(
            given["check"],
            store,
            rules,
            given["iter_artifact"],
            given["timeout"],
            given["jobs"],
            given["warm"],
        )
    from onnx_passes.contracts import Tolerance
    from onnx_passes.verify.reduce.checks import AskCheck, FunctionCheck, RunCheck

    if given["check_function"]:
        text = given["check_function"]
        return FunctionCheck(_function(text), store, text)
    if given["interactive"]:
        return AskCheck(_ask, store, given["iter_artifact"])
    asked = given["rtol"] is not None or given["atol"] is not None
    contract = Tolerance(given["rtol"], given["atol"])
    if given["passes"] or given["config"]:
        limits = contract if asked else None
        check = _pass_check(given["config"], given["passes"], boundary, limits)
        if plan is None:
            return check
        return DataChecks(given, plan, store, boundary, stack).of_passes(check)
    if plan is not None:
        return DataChecks(given, plan, store, boundary, stack).of_engines()
    engine = _engine(given["engine"])
    if given["against"] == "golden":
        return RunCheck(engine, boundary, contract)
    against = _engine(given["against"]) if given["against"] else None
    if against is not None:
        boundary.engine = against  # what is right gives the values at the cuts
    elif engine.describe().get("isolate"):
        boundary.engine = _engine("onnxruntime{isolate=true}")  # it may end its process, too
    return RunCheck(engine, against, contract)


def _function(text: str) -> Callable[[str], object]:
    """Import a function; what ``compare`` does it with takes longer than a reduction."""
    name, _, attribute = text.rpartition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(name), attribute)
    except Exception as error:  # whatever the module raises
        raise UsageError(
            f"--check-function {text!r} cannot be imported: {type(error).__name__}: {error}",
            help="write MODULE:FUNCTION, of a file in this folder or an installed module",
        ) from error
    finally:
        sys.path.remove(str(Path.cwd()))
    if not callable(found):
        raise UsageError(f"--check-function {text!r} is not a function, but {found!r}")
    function: Callable[[str], object] = found
    return function


def _engine(text: str) -> Engine:
    if "{" not in text:
        from onnx_passes.runtime.engines import engine_from_config

        # Reading options takes longer to import than a small model to reduce.
        return engine_from_config(text)
    from onnx_passes.configs.engine_text import parse_engine

    return parse_engine(text)


def _pass_check(
    config: str | None, texts: Sequence[str], boundary: Boundary, contract: Tolerance | None
) -> PassCheck:
    from onnx_passes.configs.pipeline_files import default_config, load_config
    from onnx_passes.configs.resolve import resolve
    from onnx_passes.contracts import Metric, Tolerance, weakest
    from onnx_passes.verify.reduce.checks import PassCheck

    pipeline = load_config(config, (), texts) if config else default_config((), texts)
    steps = resolve(pipeline).passes

    def make() -> list[Pass]:
        return [step.make({}, {}) for step in steps]

    declared = weakest(promised for step in steps if (promised := step.cls.contracts()))
    limits = [contract for contract in declared if not isinstance(contract, Metric)]
    return PassCheck(
        make,
        boundary.engine,
        ", ".join(step.text for step in steps),
        contract or next(iter(limits), Tolerance()),
    )


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise UsageError(
            f"--fail-regex {text!r} is not a regular expression: {error}"
        ) from error


def _ask(path: Path, number: int) -> bool:
    click.echo(f"{number}: does {path} pass or fail? [p/f] ", nl=False, err=True)
    while answer := sys.stdin.readline():
        if (word := answer.strip().lower()) in ("p", "pass", "f", "fail"):
            return word.startswith("f")
        click.echo("answer p, for pass, or f, for fail: ", nl=False, err=True)
    click.echo(err=True)
    raise UsageError(
        "there is no answer: standard input has ended",
        help="run --interactive in a terminal; --replay FILE keeps the answers so far",
    )
