"""``reduce --data``: candidates are judged over a whole data set."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_passes.cli.data_options import make_executor, read_engine_choice, read_spec
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainMapping

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.contracts import Equality, Tolerance
    from onnx_passes.data.evaluation_job import EngineChoice
    from onnx_passes.data.plan import ShardPlan
    from onnx_passes.data.reduction_checks import DataCandidates
    from onnx_passes.verify.reduce import Boundary
    from onnx_passes.verify.reduce.checks import PassCheck
    from onnx_passes.verify.reduce.outcome import ModelCheck
    from onnx_passes.verify.reduce.store import CandidateStore


def plan_data(given: PlainMapping, model: ir.Model) -> ShardPlan:
    """Find the data set of the options.

    Args:
        given: Values of the options by name.
        model: The model, for its inputs.

    Raises:
        UsageError: An option cannot be read.
        ReferenceDataError: There is no data, or it does not fit the model.
        IncompleteDataError: A part of it cannot be read.
    """
    from onnx_passes.data.input_binding import DataInterface
    from onnx_passes.data.plan import IncompleteDataError, make_plan

    plan = make_plan(read_spec(given), DataInterface.of(model))
    if plan.broken:
        raise IncompleteDataError(
            f"{plan.broken[0].name}: {plan.broken[0].reason}",
            help="mend that part, or leave it out: no candidate could be said to be right",
        )
    return plan


@dataclass(frozen=True)
class DataChecks:
    """Makes checks that judge candidates over a data set.

    Attributes:
        given: Values of the options by name.
        plan: The data set.
        store: Where recorded values are kept.
        boundary: Gives candidates the values at their inputs.
        stack: Closes what is opened.
    """

    given: PlainMapping
    plan: ShardPlan
    store: CandidateStore
    boundary: Boundary
    stack: ExitStack

    def of_engines(self) -> ModelCheck:
        """Return a check that compares two engines.

        Raises:
            UsageError: An engine cannot be read.
        """
        from onnx_passes.contracts import Tolerance
        from onnx_passes.data.reduction_checks import EngineDataCheck

        given = self.given
        right, doubted = (read_engine_choice(given[n]) for n in ("against", "engine"))
        contract = Tolerance(given["rtol"], given["atol"])
        return EngineDataCheck(
            doubted.make(),
            self.boundary.engine,
            contract,
            data=self._whole(right, contract),
            choices=(right, doubted),
        )

    def of_passes(self, check: PassCheck) -> ModelCheck:
        """Return a check that compares a model with what passes make of it.

        Args:
            check: The check on one sample, with passes and engine.
        """
        from onnx_passes.data.evaluation_job import EngineChoice
        from onnx_passes.data.reduction_checks import PassDataCheck

        choice = EngineChoice("onnxruntime", {})
        data = self._whole(choice, check.contract)
        return PassDataCheck(
            check.make, check.engine, check.what, check.contract, data=data, choice=choice
        )

    def _whole(self, right: EngineChoice, contract: Equality | Tolerance) -> DataCandidates:
        from onnx_passes.data.measures import Measures
        from onnx_passes.data.reduction_checks import DataCandidates
        from onnx_passes.data.workers import KeptExecutor

        jobs = self.given["jobs"]
        workers = {**self.given, "jobs": jobs if jobs > 1 else None}
        workers_kept = KeptExecutor(make_executor(workers))
        self.stack.callback(workers_kept.end)
        self.boundary.engine = right.make()
        data = DataCandidates(
            self.boundary.model,
            self.plan,
            Measures.of(contract, {}, scores=""),
            workers_kept,
            self.store,
            self.boundary,
            right,
            self.given["mixed_cpus"],
        )
        data.start()
        return data


def refuse_data(given: PlainMapping) -> None:
    """Check the options that go with a data set.

    Raises:
        UsageError: Some do not.
    """
    if given["check"] is not None:
        raise UsageError(
            "--data and --check do not go together: a command reads its own data",
            help="give it to the command: --check 'onnx-passes compare {model} --data DATA'",
        )
    for name in ("check_function", "interactive", "load_inputs"):
        if given[name]:
            raise UsageError(
                f"--{name.replace('_', '-')} and --data do not go together",
                help="--data goes with --engine and --against, or with --pass",
            )
    if given["engine"] and given["against"] in (None, "golden"):
        raise UsageError(
            "--data compares two engines, and --against names none",
            help="give --against ENGINE: the engine that is right",
        )
