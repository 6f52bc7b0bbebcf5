"""Search for inputs on which a model runs, once it did not run on those generated for it."""

from __future__ import annotations

import itertools
import json
import shlex
import time
from contextlib import suppress
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes import risky_runs
from onnx_passes.errors import EngineError, ModelError, OnnxPassesError, ReferenceDataError
from onnx_passes.runtime.engine_base import Feeds, Outputs, Session, label_of_feeds
from onnx_passes.runtime.inputs.adversarial import adversarial
from onnx_passes.runtime.inputs.alternatives import Alternative, Alternatives
from onnx_passes.runtime.inputs.dims import Dims
from onnx_passes.runtime.inputs.seeded_feeds import Ranges

MOST = 256
"""Runs of a model to find inputs that it takes."""

SECONDS = 60.0
"""After these no other way is tried, and the search says that it ran out of time."""

_SHOWN = 6


@dataclass(frozen=True)
class Substitute:
    """Inputs on which the model runs, and its results.

    Attributes:
        text: What is special about them: "batch=1, seq=8".
        samples: The inputs.
        outputs: What the model gave for each.
    """

    text: str
    samples: list[Feeds]
    outputs: list[Outputs]

    @property
    def note(self) -> str:
        """A sentence for a report."""
        return f"the original does not run on the first generated inputs; used: {self.text}"


@dataclass
class Substitutes:
    """Other inputs, made up by the settings of the first ones.

    Attributes:
        model: The model.
        seed: As for ``generate``.
        samples: As for ``generate``.
        ranges: As for ``generate``; values outside are not tried.
        dims: As for ``generate``; other sizes of these dimensions are not tried.
        adversarial: Whether samples of special values are added.
        tried: What was tried in vain, with the engine's message.
        chosen: What was found.
    """

    model: ir.Model
    seed: int = 0
    samples: int | None = None
    ranges: Ranges = field(default_factory=dict)
    dims: Dims = field(default_factory=dict)
    adversarial: bool = False
    tried: list[tuple[str, str]] = field(default_factory=list)
    chosen: Substitute | None = None
    _found: Alternatives | None = None
    _late: bool = False

    def search(self, session: Session) -> Substitute | None:
        """Try other sizes, then other values, until the model runs.

        Args:
            session: The model on an engine.

        Returns:
            Inputs on which it runs; None if there are none among those tried.

        Raises:
            EngineError: The engine ended, or lacks an operator: no inputs change that.
        """
        self.tried, self._late, begun = [], False, time.monotonic()
        self._found = found = Alternatives(self.model, ranges=self.ranges, dims=self.dims)
        for alternative in itertools.islice(found, MOST):
            if self.tried and time.monotonic() - begun > SECONDS:
                self._late = True
                break
            try:
                first = self._run(session, alternative)
            except OnnxPassesError as error:
                if isinstance(error, EngineError) and type(error) is not EngineError:
                    raise
                self.tried.append((alternative.text, error.message))
                if isinstance(error, EngineError):
                    found.refuse(alternative, error)
                continue
            self.chosen = self._complete(session, alternative, first)
            return self.chosen
        return None

    def _make(self, alternative: Alternative, samples: int | None) -> list[Feeds]:
        return alternative.make(
            self.model,
            seed=self.seed,
            samples=samples,
            ranges=self.ranges,
            dims=self.dims,
            shaping=None if self._found is None else self._found.shaping,
        )

    def _run(self, session: Session, alternative: Alternative) -> Outputs:
        """Run on one sample.

        Raises:
            EngineError: The engine refuses it, or has ended the process on it before.
            ReferenceDataError: It cannot be made.
            ModelError: It does not fit into memory.
        """
        label = risky_runs.label(risky_runs.GENERATED, alternative.text)
        if why := risky_runs.avoided(label):
            raise EngineError(why)
        (feeds,) = self._make(alternative, 1)
        with risky_runs.engine_run(label):
            return session.run(feeds)

    def _complete(
        self, session: Session, alternative: Alternative, first: Outputs
    ) -> Substitute:
        """Run the other samples, and leave out those on which the model does not run."""

        def runs(other: Alternative) -> bool:
            with suppress(EngineError, ModelError, ReferenceDataError):
                return bool(self._run(session, other))
            return False

        if self.samples is None and self._found is not None:
            alternative = self._found.vary(alternative, runs)
        samples = self._make(alternative, self.samples)
        kept, outputs = [samples[0]], [first]
        more: list[Feeds] = samples[1:]
        if self.adversarial:
            dims = {**alternative.dims, **self.dims}
            special = adversarial(
                self.model, samples[:1], seed=self.seed, ranges=self.ranges, dims=dims
            )
            more += [feeds for feeds in special if feeds.may_run]
        for feeds in more:
            try:
                with risky_runs.engine_run(label_of_feeds(feeds)):
                    outputs.append(session.run(feeds))
            except EngineError as error:
                if type(error) is not EngineError:
                    raise
                continue
            kept.append(feeds)
        return Substitute(alternative.text, kept, outputs)

    @property
    def failure(self) -> str:
        """What was tried in vain, for the help of an error."""
        if not self.tried:
            return "there are no other inputs to try"
        shown = [text for text, _ in self.tried[:_SHOWN]]
        more = f" and {len(self.tried) - _SHOWN} more" if len(self.tried) > _SHOWN else ""
        late = f"; out of time after {SECONDS:.0f} s" if self._late else ""
        return f"tried in vain as well: {'; '.join(shown)}{more}{late}{self._refusal}"

    @property
    def _refusal(self) -> str:
        """The node that the search got to, what it demands, and how to give sizes."""
        furthest = None if self._found is None else self._found.search.furthest
        if furthest is None or not furthest.node:
            return ""
        sizes = ", ".join(f"{name}={size}" for name, size in furthest.sizes.items())
        line = shlex.quote(f"reference.dims={json.dumps(furthest.sizes, ensure_ascii=False)}")
        return (
            f"; at {sizes} the node that refuses is {furthest.node}: {furthest.text}; "
            f"give sizes that it takes in place of these: -s {line}"
        )
