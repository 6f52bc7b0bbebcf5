"""How passes written for the seed system are checked: in a bare pass manager, and by tests.

So the seed system did where ``config["verify"]`` is set. In a pipeline of this package, the
pipeline compares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.compat.util import load_reference_data
from onnx_passes.contracts import Equality, Metric, Tolerance, metrics
from onnx_passes.contracts.contract import Contract
from onnx_passes.errors import VerificationError
from onnx_passes.model.diff import explain_difference, structurally_equal
from onnx_passes.passes.base import Pass
from onnx_passes.passes.registry import collect
from onnx_passes.plain import Plain, PlainDict, PlainMapping
from onnx_passes.verify.judge import Promise


def run_checked(
    pass_: Pass, model: ir.Model, run: Callable[[], ir.passes.PassResult]
) -> ir.passes.PassResult:
    """Run a pass, and compare what the model computes before and after on reference inputs.

    Args:
        pass_: The pass. Its ``config`` has the sections ``reference`` and ``verify`` of a
            pipeline file of the seed system.
        model: What it is run on.
        run: Runs it.

    Returns:
        What ``run`` returns.

    Raises:
        PreconditionError: The model cannot be run before.
        PostconditionError: The contract is broken. The cause says which output.
    """
    contracts, name = pass_.contracts(), type(pass_).__name__
    if not contracts:
        return run()
    mapping = pass_.interface_map(model)
    try:
        feeds, labels = _reference(pass_, model)
        if mapping is not None:
            new = dict(mapping.inputs(*item) for item in feeds.items())
            feeds = dict(mapping.back(*item) for item in new.items())
        expected = _evaluate(model, feeds)
        if mapping is not None:
            feeds, expected = new, dict(mapping.outputs(*item) for item in expected.items())
    except Exception as error:
        raise ir.passes.PreconditionError(f"Pre-condition for pass {name!r} failed") from error
    result = run()
    if not result.modified:
        return result
    try:
        produced = _evaluate(result.model, feeds)
        asked = pass_.config["verify"]
        _same_names(list(produced), list(expected))
        for contract in contracts:
            _hold(
                contract, produced, expected, labels, asked if isinstance(asked, dict) else {}
            )
    except Exception as error:
        raise ir.passes.PostconditionError(
            f"Post-condition for pass {name!r} failed"
        ) from error
    return result


def _reference(pass_: Pass, model: ir.Model) -> tuple[dict[str, Array], list[Array]]:
    """Return reference inputs by name, and expected outputs or labels."""
    inputs, labels = load_reference_data(pass_)
    needed = [str(v.name) for v in model.graph.inputs if not v.is_initializer()]
    if len(inputs) < len(needed):
        raise VerificationError(
            f"verify is set, and reference.inp has {len(inputs)} of {len(needed)} inputs",
            help="give arrays or .npy files in the order of the model's inputs",
        )
    return dict(zip(needed, inputs, strict=False)), labels


def _evaluate(model: ir.Model, feeds: dict[str, Array]) -> dict[str, Array]:
    from onnx_passes.model.ort_sessions import open_session
    from onnx_passes.ops.bodies import attach_bodies

    proto = ir.to_proto(model)
    attach_bodies(proto)
    session = open_session(proto)
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def _same_names(produced: list[str], expected: list[str]) -> None:
    if produced != expected:
        raise VerificationError(f"outputs are {produced}, and were {expected}")


def _hold(
    contract: Contract,
    produced: dict[str, Array],
    expected: dict[str, Array],
    labels: Sequence[Array],
    asked: PlainMapping,
) -> None:
    """Raise VerificationError if outputs do not keep a contract."""
    if isinstance(contract, Metric):
        _measure(contract, list(produced.values()), labels, asked.get("metrics") or {})
        return
    limit = contract if isinstance(contract, Equality) else _limit(contract, asked)
    for wrong in Promise(limit).broken(dict(expected), dict(produced)):
        raise VerificationError(f"{wrong.output} is not as expected: {wrong.reason}")


def _limit(contract: Tolerance, asked: PlainMapping) -> Tolerance:
    """Return the limit of a configuration; where it has none, that of the pass."""
    given = asked.get("tolerance") or {}
    return Tolerance(given.get("rtol", contract.rtol), given.get("atol", contract.atol))


def _measure(
    contract: Metric, produced: list[Array], labels: Sequence[Array], ranges: PlainMapping
) -> None:
    for name, (low, high) in ranges.items() if labels else ():
        if contract.names and name not in contract.names:
            continue
        value = metrics.lookup(name).measure([produced], [labels])
        if not low <= value <= high:
            raise VerificationError(f"{name} is {value:g}, not in [{low:g}, {high:g}]")


class PassesTestBase:
    """Applies passes to a model, which they verify, and compares it with another one.

    A subclass sets ``__passes__``, and functions of onnxscript as ``__model__`` and
    ``__expected__``. ``__inputs__`` returns arrays on which each pass checks itself. What is
    not set is not tested.
    """

    __passes__: Sequence[str | type[Pass]] = ()
    __common__: Sequence[str | type[Pass]] = ("cleanup", "checker", "verify")
    __model__: Plain = None
    __expected__: Plain = None
    __inputs__: Plain = None
    __config__: PlainDict | None = None
    __state__: PlainDict | None = None

    def test_apply_and_verify(self) -> None:
        """Apply the passes to the model."""
        if self.__passes__ and self.__model__ is not None:
            self._applied([*self.__common__, *self.__passes__], self.__model__)

    def test_isomorphic_to_expected(self) -> None:
        """Compare the result with the expected model, up to names."""
        if not self.__passes__ or self.__model__ is None or self.__expected__ is None:
            return
        steps = [*self.__common__, *self.__passes__, *self.__common__]
        found = self._applied(steps, self.__model__)
        expected = self._applied(self.__common__, self.__expected__)
        assert structurally_equal(found, expected), explain_difference(found, expected)

    def _applied(self, steps: Sequence[str | type[Pass]], function: Plain) -> ir.Model:
        config = dict(self.__config__ or {})
        if self.__inputs__ is not None:
            config.setdefault("verify", {True: True})
            config["reference"] = {"inp": self.__inputs__()}
        state = {} if self.__state__ is None else self.__state__
        manager = ir.passes.PassManager(
            [cls(config, state) for cls in collect(steps)], steps=1
        )
        return manager(ir.from_proto(function.to_model_proto())).model
