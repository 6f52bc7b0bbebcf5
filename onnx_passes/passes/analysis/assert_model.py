"""Check that the model has the properties that are asked for, and fail the run if not."""

from types import MappingProxyType

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import OptionError, VerificationError
from onnx_passes.passes.analysis import _demands as demands
from onnx_passes.passes.analysis._demands import Asked, DemandResult


@passes.register("assert")
class AssertModel(Asked):
    """Check that the model has the properties that are asked for, and fail the run if not.

    Finds: whether each property given as an option holds here, in the middle or at the end of
    a pipeline. Where one does not, the run ends with exit code 1, and one sentence for each
    says by how much and at which nodes; with ``on_failure: warn`` it continues. What is not
    known, such as operations on dimensions without a size, does not hold. Subgraphs and
    functions count.

    Attributes:
        max_nodes: Most nodes.
        max_parameters: Most elements of all weights.
        max_size: Most bytes of all weights, such as 100 MB.
        max_flops: Most scalar operations of a run, as counted by `cost`; such as 4e9.
        max_traffic: Most bytes that nodes read and write in a run, as counted by `cost`.
        max_peak_memory: Most bytes of activations at once, as found by `peak-memory`.
        max_op_counts: Most nodes by operator.
        ops_absent: Operators that must not occur; other domains as `domain::Op`.
        ops_present: Operators that must occur.
        ops_only: Operators besides which none may occur.
        static_shapes: Whether every input, output and inner value must have a fixed shape.
        min_opset: Oldest version of the default opset.
        max_opset: Newest version of the default opset.
        ranges: The least and the greatest number that a value may reach where it is not NaN,
            by name, as bounded by `value-ranges`: ``{probability: [0, 1]}``.
        inputs: The least and the greatest number of inputs, for ``ranges``.
        dims: Sizes of dynamic dimensions, for what depends on them.
        integers_between_thresholds: Whether all that is computed between thresholds must be
            known to be integers, means aside, and no quantiser be left.
        floats: Operators that may compute in floating point there, with what lies between them
            and the thresholds in front of them; such as ``Softmax``.
        accumulator_bits: Bits of the signed integers that must hold each sum of a MatMul, Conv
            or ConvTranspose of integers, in whatever order it is taken. What does not fit is
            shown with data that reaches it.
    """

    example = MappingProxyType({"max_nodes": 1_000_000})

    def analyse(self, model: ir.Model) -> list[str]:
        """Return what holds, a sentence each, and note it for the report.

        Raises VerificationError if something does not hold, and OptionError if nothing is
        asked for.
        """
        found = list(demands.findings(self, model))
        if not found:
            raise OptionError(
                "assert asks for nothing",
                help="name a property: assert: {max_nodes: 400, ops_absent: [Loop]}",
            )
        wrong = [finding for finding in found if not finding.holds]
        if wrong:
            raise _failure(wrong, len(found))
        self.context.notes += [finding.text for finding in found]
        return [finding.text for finding in found]


def _failure(wrong: list[DemandResult], asked: int) -> VerificationError:
    help_ = next((finding.help for finding in wrong if finding.help), None)
    if len(wrong) == 1:
        return VerificationError(f"assertion failed: {wrong[0].text}", help=help_)
    lines = "".join(f"\n  {finding.text}" for finding in wrong)
    return VerificationError(f"{len(wrong)} of {asked} assertions failed:{lines}", help=help_)
