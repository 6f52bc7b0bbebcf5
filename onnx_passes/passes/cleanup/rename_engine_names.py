"""Rename values that are called what ONNX Runtime calls the ones that it adds."""

import itertools
import re
from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import all_graphs, all_nodes
from onnx_passes.passes.common.graph_edits import name_counts, own_values, rename_value
from onnx_passes.plain import PlainMapping

_NUMBER = r"(_token_\d+)?"
_FIXED = re.compile(
    rf"(gemm_(in|out)put_shape|gemm_(in|out)put_reshape{_NUMBER}_new_shape"
    rf"|(Squeeze|Unsqueeze|Slice)AxesInitializer|squeeze_axes){_NUMBER}|_inlfunc_.*",
    re.DOTALL,
)
"""Measured with ONNX Runtime 1.31: MatMulAddFusion, ReshapeFusion, the fusions of Gather and
Slice, and functions that replace their calls."""

_OF_NODE = "_new_shape"
"""What ReshapeFusion puts behind the name of the first of the nodes that it joins."""


@passes.verify.equality
@passes.register()
class RenameEngineNames(passes.Annotation):
    """Rename values that are called what ONNX Runtime calls the ones that it adds.

    Before: ``<int64[2] gemm_input_shape = {6, 4}> { y = Reshape(x, gemm_input_shape) }``
    After:  ``<int64[2] gemm_input_shape_saved = {6, 4}> { y = Reshape(x, ..._saved) }``

    Some fusions of ONNX Runtime ask whether a *node* has the name that they give a tensor. A
    model that ONNX Runtime has saved holds tensors of these names. It loads, because what
    there was to be fused is fused. Once a pass has found shapes or made a pattern, the same
    fusion applies again, and loading ends with "Attempt to replace the existing tensor".
    Quantization annotations follow the names they refer to.

    Sound because names only connect values with their readers, and the readers follow.

    Leaves alone: the names of the inputs and outputs of graphs; all other names.

    Attributes:
        suffix: What is put behind such a name; a number follows where that is taken.
        also: More names that an engine gives to what it adds, in full.
    """

    suffix: str = "_saved"
    also: Sequence[str] = ()

    @classmethod
    def example_for(cls, model: ir.Model) -> PlainMapping:
        """Rename what the first node computes."""
        outputs = (str(v.name) for node in model.graph for v in node.outputs if v.name)
        return {"also": list(itertools.islice(outputs, 1))}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Look at the values of every graph."""
        nodes = {node.name or "" for node in all_nodes(model)}
        found = [
            value
            for graph in all_graphs(model)
            for value in own_values(graph)
            if value.name and self._is_given(value.name, nodes)
            if not (value.is_graph_input() or value.is_graph_output())
        ]
        names = set(name_counts(model)) if found else set()
        for value in found:
            new = self._free_name(str(value.name), names, nodes)
            names.add(new)
            rename_value(value, new)
        return ir.passes.PassResult(model, modified=bool(found))

    def _is_given(self, name: str, nodes: set[str]) -> bool:
        """Whether an engine may give a value of its own this name."""
        if _FIXED.fullmatch(name) or name in self.also:
            return True
        return name.endswith(_OF_NODE) and name.removesuffix(_OF_NODE) in nodes

    def _free_name(self, old: str, names: set[str], nodes: set[str]) -> str:
        # What begins as the values of inlined functions do would be one of them again.
        stem = f"{old.removeprefix('_')}{self.suffix}"
        new, count = stem, 0
        while new in names or self._is_given(new, nodes):
            count += 1
            new = f"{stem}_{count}"
        return new
