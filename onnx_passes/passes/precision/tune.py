"""Choose the precision of each part of the model."""

import onnx_ir as ir
from pydantic import Field

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.passes.precision._recording import read_feeds


@passes.verify.metric
@passes.register()
class Tune(passes.Transformation):
    """Choose the precision of each part of the model.

    Before: ``y = MatMul(Relu(MatMul(x, w)), v)`` in float32
    After:  the same with parts in the formats of the section ``tune``: those that cost least,
            within the budget of ``verify.metrics`` and ``tune.flips``

    What ``onnx-passes tune`` does, as a step: other passes may come before it and after it.

    Sound because the whole model is run on the user's samples before a choice is taken, and
    keeps the budget; the metrics of the pipeline then judge it again.

    Leaves alone: a model in which no part can change within the budget. Functions are inlined
    where a choice is taken.

    Attributes:
        data: .npz files, each with the inputs of one run by name; by default the inputs under
            ``reference`` of the pipeline.
    """

    data: list[str] = Field(default_factory=list)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Search."""
        feeds = read_feeds(self.data, self.name) if self.data else self.context.samples
        if not feeds:
            raise PassError(
                f"{self.name}: there is no data to measure losses on",
                help="give reference.inputs in the pipeline, or data: [FILE.npz]",
            )
        # It runs passes and engines: most of the package, which other uses need not load.
        from onnx_passes.tuning.configured_search import search_within

        found, lines = search_within(model, self.config, feeds)
        self.context.notes.extend(line for line in lines if line)
        if found is None:
            return ir.passes.PassResult(model, modified=False)
        model.graph = found.graph
        model.functions.clear()
        model.functions.update(found.functions)
        return ir.passes.PassResult(model, modified=True)
