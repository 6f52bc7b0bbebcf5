"""Remove opset imports that no node needs."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import graphs_within


@passes.verify.equality
@passes.register("remove-unused")
@passes.register("cleanup")
class RemoveUnusedOpsets(passes.Annotation):
    """Remove opset imports that no node needs.

    Before: ``opset_import: ["" : 20, "com.example" : 1]`` and no node of com.example
    After:  ``opset_import: ["" : 20]``

    Sound because an import only says which version of a domain's operators is meant.

    Leaves alone: the import of ONNX's own domain; in the model those that its functions need;
    a model that imports none of the domains that it uses.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Compare the imports with the domains in use."""
        modified = False
        everywhere = {"", *_domains(model.graph)}
        for function in model.functions.values():
            inside = _domains(function.graph)
            # Engines look up what a function's body uses in the model's imports as well.
            everywhere |= {function.domain, *inside}
            modified |= _keep(function.opset_imports, {"", *inside})
        modified |= _keep(model.graph.opset_imports, everywhere)
        return ir.passes.PassResult(model, modified=modified)


def _domains(graph: ir.Graph) -> set[str]:
    return {node.domain for inner in graphs_within(graph) for node in inner}


def _keep(imports: dict[str, int], used: set[str]) -> bool:
    unused = [domain for domain in imports if domain not in used]
    if len(unused) == len(imports):  # a file without imports cannot be read
        return False
    for domain in unused:
        del imports[domain]
    return bool(unused)
