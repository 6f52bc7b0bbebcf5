"""Apply every fusion, as one pass."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.compose import begins_nowhere, is_needless, operators_of
from onnx_passes.passes.registry import collect, members_of

FIRST = (
    "fuse-instance-normalization",
    "fuse-layer-normalization",
    "fuse-rms-normalization",
    "fuse-gelu",
    "fuse-mish",
    "fuse-hard-sigmoid",
    "fuse-hard-swish",
    "fuse-rotary-embedding",
    "fuse-attention",
)
"""Whole formulas, before the others take parts of them."""


@passes.verify.tolerance
@passes.register()
class FuseAll(passes.Transformation):
    """Apply every fusion, as one pass.

    Before: ``Relu(BatchNormalization(Conv(x, w)))``, and whatever else a pass of the group
            ``fuse`` knows
    After:  what they make of it, here ``Relu(Conv(x, w', b'))``

    A pipeline checks a pass as a whole: with all fusions in one, values are recorded and
    compared once, not once for each of them. Every rewrite still has its own number and the
    name of its rule, by which a fault is found and can be left out.

    Sound because each of the passes is; the contract is the weakest of theirs.

    Leaves alone: what each of them leaves alone (``onnx-passes explain fuse``).

    Attributes:
        exclude: Names of fusions to do without.
        first: Names of fusions to apply before the others, in this order: whole formulas,
            before the others take parts of them.
    """

    needs = ("topological-sort", "shape-inference")
    keeps_shapes = True  # itself: each pass that it applies says whether it does

    exclude: tuple[str, ...] = ()
    first: tuple[str, ...] = FIRST

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run them one after the other: formulas first, then in the order of their names."""
        modified, operators = False, operators_of(model)
        for name in self.names():
            if is_needless(name, operators):
                continue
            for cls in collect([name]):
                member = cls(self.config, self.state_dict)
                member.context = self.context
                if begins_nowhere(member, operators):
                    continue
                result = member(model)
                if result.modified:
                    model, modified, operators = result.model, True, operators_of(result.model)
        return ir.passes.PassResult(model, modified=modified)

    def members(self) -> list[type[passes.Pass]]:
        """Return the passes that it applies, in order."""
        return collect(self.names())

    def names(self) -> list[str | type[passes.Pass]]:
        """Return the same, the library's passes by their names, without importing them."""
        order = {name: place for place, name in enumerate(self.first)}
        found = {one if isinstance(one, str) else one.name: one for one in members_of("fuse")}
        names = sorted(found, key=lambda name: (order.get(name, len(order)), name))
        return [found[name] for name in names if name not in self.exclude]
