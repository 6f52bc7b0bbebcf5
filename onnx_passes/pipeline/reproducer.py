"""What every reproducer holds: the models, a pipeline of the pass alone, what happened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import yaml

from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import EngineError
from onnx_passes.passes.base import Pass
from onnx_passes.pipeline.judgement import Judgement
from onnx_passes.plain import PlainMapping
from onnx_passes.report.run_report import Blame, RunReport
from onnx_passes.report.text import one_line
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.verify.bundle import Bundle
from onnx_passes.verify.case import Case
from onnx_passes.verify.cut import cut
from onnx_passes.verify.shrink import WHOLE


@dataclass(frozen=True)
class Failure:
    """A check that failed, to be left as a reproducer.

    Attributes:
        judgement: The check.
        name: Names the folder: the place in the run and what failed.
        title: What failed, as text.
        error: The error, as text.
        contract: What was promised, as text.
        pairs: Models that may show the fault, those that differ least first.
        steps: The passes to run, as the pipeline writes them.
        blame: What the failure was traced to.
        make: Creates the pass anew; None where it is not one pass that failed.
    """

    judgement: Judgement
    name: str
    title: str
    error: str
    contract: str
    pairs: Sequence[Case]
    steps: Sequence[str]
    blame: Sequence[Blame] = ()
    make: Callable[[], Pass] | None = None


@dataclass
class Author(ABC):
    """Turns a failure into bundles.

    Attributes:
        failure: What failed.
        config: The pipeline.
        run: The report of the run.
    """

    failure: Failure
    config: PipelineConfig
    run: RunReport

    does: ClassVar[tuple[str, ...]]
    """What repro.py does and needs, a line each."""
    packages: ClassVar[tuple[str, ...]]
    """The packages whose versions matter."""

    @abstractmethod
    def cases(self) -> Iterator[Case]:
        """Yield models that may show the failure, those that differ least first."""

    @abstractmethod
    def judge(self, case: Case) -> Any:
        """Return what is wrong in a case; None where it does not show the failure."""

    @abstractmethod
    def bundles(self, case: Case, found: Any) -> Iterator[Bundle]:
        """Yield what to write of a case, the smallest first.

        Args:
            case: The case.
            found: What running it showed.
        """

    def every(self) -> Iterator[Bundle]:
        """Yield what to write, the smallest first; where none fails, the last case."""
        case, shown = None, False
        for case in self.cases():
            found = self.judge(case)
            if found is not None:
                shown = True
                yield from self.bundles(case, found)
        if case is not None and not shown:
            yield from self.bundles(case, None)

    def cut(self, feeds: Feeds, engine: Engine) -> Iterator[Case]:
        """Yield the regions in which the pairs of models differ.

        Args:
            feeds: Inputs by name.
            engine: The engine that records the values at the boundary.
        """
        for pair in self.failure.pairs:
            try:
                part = cut(pair.before, pair.after, feeds, engine)
            except EngineError:
                continue
            if part is not None:
                before, after, values = part
                yield replace(pair, before=before, after=after, feeds=values, part=True)

    def whole(self, feeds: Feeds) -> Iterator[Case]:
        """Yield the pairs as whole models."""
        for pair in self.failure.pairs:
            yield replace(pair, feeds=dict(feeds), what=pair.what + WHOLE)

    def pipeline(self, case: Case, engine: PlainMapping, **more: object) -> str:
        """Return a pipeline that runs the passes of a case alone.

        Args:
            case: The case.
            engine: The options of the engine, by its name.
            **more: Further sections of the pipeline.
        """
        data = {
            "imports": list(self.config.imports),
            "passes": list(case.steps or self.failure.steps),
            "engines": [{name: {**given, "when": "each"} for name, given in engine.items()}],
            **more,
            "reproducers": False,
        }
        kept = {key: value for key, value in data.items() if value}
        return yaml.safe_dump({**kept, "reproducers": False}, sort_keys=False)

    def readme(self, case: Case, engine: str, facts: Sequence[str], model: str) -> str:
        """Return what happened, in Markdown.

        Args:
            case: The models.
            engine: The engine that judged.
            facts: What else is known of the models, a sentence each.
            model: The file to run the pass on.
        """
        failure, known = self.failure, self.run.versions
        versions = ", ".join(f"{n} {known[n]}" for n in self.packages if n in known)
        lines = [
            f"# `{failure.title}` fails on `{self.run.model}`",
            "",
            "    python repro.py",
            "",
            *self.does,
            "",
            f"- models: {case.what}",
            *[f"- {fact}" for fact in facts],
            f"- promise: {failure.contract}; "
            f"the check that failed: {failure.judgement.check.kind}",
            f"- engine: {engine}",
            f"- versions: {versions}",
        ]
        for blame in failure.blame:
            what = f"rewrite {blame.number}, rule {blame.rule}" if blame.rule else blame.name
            lines += [f"- {what}, {blame.how}:", ""]
            lines += [f"      - {node}" for node in blame.nodes]
            lines += [f"      + {node}" for node in blame.new_nodes]
            lines.append("")
        passes = "these passes" if len(case.steps or failure.steps) > 1 else "this pass"
        lines += ["", "What the run said:", ""]
        lines += [f"    {line}" for line in failure.error.splitlines()]
        lines += [
            "",
            f"`pipeline.yaml` runs {passes} alone. Passes of your own are imported from the",
            "folder that you are in, so from theirs:",
            "",
            f"    onnx-passes -c THIS_FOLDER/pipeline.yaml -o out.onnx THIS_FOLDER/{model}",
            "",
        ]
        return "\n".join(map(one_line, lines))
