"""Convert a model to another version of the ONNX operators.

ONNX Runtime must load the converted model, if it loads the original.
"""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import PassError
from onnx_passes.model.copy import copy_model
from onnx_passes.model.ort_sessions import open_session, session_options
from onnx_passes.model.walk import graphs_within
from onnx_passes.ops.versions import CannotConvertError, Edit
from onnx_passes.passes.common.graph_edits import nodes_within, roots
from onnx_passes.passes.common.inlining import Names, inline_call
from onnx_passes.passes.common.large_tensors import weightless_proto
from onnx_passes.passes.convert._versions import (
    body_of,
    conform,
    lower_node,
    raise_node,
    schema_of,
)
from onnx_passes.passes.folding._evaluate import constant_value
from onnx_passes.passes.replace import Namer
from onnx_passes.plain import PlainMapping


def lost(before: ir.Model, after: ir.Model) -> str | None:
    """Return why ONNX Runtime loads a model no longer, None if it does or never did.

    Its optimisations are asked, too: those for quantised models break some opsets.
    """
    for optimized in (False, True):
        reason = refusal(after, optimized=optimized)
        if reason is not None and refusal(before, optimized=optimized) is None:
            return reason
    return None


def refusal(model: ir.Model, *, optimized: bool = False) -> str | None:
    """Return why ONNX Runtime does not load a model, None if it does.

    It finds a kernel for every node when it loads a model, or puts the function there that the
    standard defines the operator by. No list of kernels says as much: which function holds in
    an opset depends on the operators within it. Big weights are taken for inputs, so that none
    is copied.
    """
    try:
        options = session_options("all" if optimized else "none")
        open_session(weightless_proto(model), options)
    except Exception as error:  # each status has a class of its own, with no common one
        first = next(iter(str(error).splitlines()), type(error).__name__)
        return first.rpartition(" : ")[2]
    return None


SHOWN = 5
"""Number of obstacles that an error lists."""


@passes.verify.tolerance
@passes.register()
class ConvertOpset(passes.Transformation):
    """Convert a model to another version of the ONNX operators.

    Before: opset 12, ``y = Unsqueeze <axes = [0]> (x)``
    After:  opset 13, ``a = Constant <value_ints = [0]> ()  y = Unsqueeze (x, a)``

    Up or down, in subgraphs and functions too, node by node: names, weights, metadata and
    operators of other domains stay as they are. An operator that an older opset lacks is
    replaced by the function that ONNX defines it by, if there is one. Every node is compared
    with its new schema afterwards. The IR version is raised as the opset demands.

    Sound because where a new version changes what an operator means, the node is rewritten.
    All other changes only add types, attributes with the old behaviour as default, or inputs
    and outputs that may be left out. The contract is a tolerance since engines compute the
    versions of one operator with different kernels.

    Leaves alone: nodes whose operator is the same in both opsets. A node without an equivalent
    is an error that says why; then the model stays as it was. A model that ONNX Runtime loads
    in the old opset only is converted, and a note says what it lacks.

    Attributes:
        version: The opset wanted.
    """

    needs = ("topological-sort", "shape-inference")

    example: ClassVar[PlainMapping] = {"version": 21}

    version: int

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Convert every graph and function."""
        if all(imports.get("", self.version) == self.version for _, imports in roots(model)):
            return ir.passes.PassResult(model, modified=False)
        reason = rehearse(model, self.version)
        if reason is not None:
            self.context.notes.append(f"ONNX Runtime no longer loads the model: {reason}")
        convert(model, self.version)
        return ir.passes.PassResult(model, modified=True)


def rehearse(model: ir.Model, version: int) -> str | None:
    """Convert a copy, so that an obstacle does not leave the model half converted.

    Returns why ONNX Runtime would load the model no longer; None if it does or never did.
    Raises PassError as ``convert``.
    """
    copy = copy_model(model)
    convert(copy, version)
    return lost(model, copy)


def convert(model: ir.Model, version: int) -> None:
    """Convert every graph and function of a model.

    A PassError says that there is no such opset, or which nodes have no equivalent in it; the
    model is then half converted.
    """
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= version <= newest:
        raise PassError(
            f"convert-opset: there is no opset {version}",
            help=f"the installed onnx knows opsets 1 to {newest}",
        )
    obstacles = _convert(model, version)
    if not obstacles:
        return
    shown = [f"  {text}" for text in obstacles[:SHOWN]]
    more = len(obstacles) - len(shown)
    shown += [f"  and {more} more"] if more else []
    nodes = "1 node has" if len(obstacles) == 1 else f"{len(obstacles)} nodes have"
    raise PassError(
        f"convert-opset: {nodes} no equivalent in opset {version}",
        where="\n".join(shown),
        help="choose another version, or replace these nodes first",
    )


def _convert(model: ir.Model, version: int) -> list[str]:
    """Convert a model, and return what is in the way."""
    namer = Namer(model)
    obstacles = []
    for root, imports in roots(model):
        source = imports.get("")
        if source is None or source == version:
            continue
        reached = {**imports, "": version}
        names = Names(*graphs_within(root))
        nodes = [inner for node in list(root) for inner in nodes_within(node)]
        for node in nodes:
            label = f"{node.op_type} {node.name or node.outputs[0].name!r}"
            pending = [(node, source)]
            try:
                while pending:
                    current, since = pending.pop()
                    if current.domain or current.op_identifier() in model.functions:
                        continue
                    edit = Edit(current, namer, partial(constant_value, model, reached))
                    # What is added comes first, as it computes what the others read.
                    pending.extend(reversed(_convert_node(edit, since, version, names)))
            except CannotConvertError as error:
                obstacles.append(f"{label}: {error}")
        imports[""] = version
    model.ir_version = max(model.ir_version, _ir_version(model.opset_imports))
    return obstacles


def _convert_node(
    edit: Edit, since: int, version: int, names: Names
) -> list[tuple[ir.Node, int]]:
    """Convert one node, and return the nodes added, with the opsets that they are of."""
    node = edit.node
    before = schema_of(node, since)
    if before is not None and before == schema_of(node, version):
        return []
    if version > since:
        steps = [(raise_node, border, border) for border in range(since + 1, version + 1)]
    else:
        steps = [(lower_node, border, border - 1) for border in range(since, version, -1)]
    added: list[tuple[ir.Node, int]] = []
    for cross, border, reached in steps:
        cross(edit, border)
        added.extend((new, reached) for new in edit.added)
        edit.added.clear()
    after = schema_of(node, version)
    if after is None:
        return added + _expand(node, since, version, names)
    conform(node, before, after)
    node.version = None
    return added


def _expand(
    node: ir.Node, since: int, version: int, names: Names
) -> list[tuple[ir.Node, int]]:
    """Replace a node by the definition of its operator, with its opset."""
    found = body_of(node, since) if version < since else None
    graph = node.graph
    if found is None or graph is None:
        raise CannotConvertError(f"opset {version} has no such operator")
    body, opset = found
    nodes = inline_call(graph, node, body, names)
    return [(inner, opset) for outer in nodes for inner in nodes_within(outer)]


def _ir_version(imports: Mapping[str, int]) -> int:
    known = [
        onnx.helper.make_opsetid(domain, version)
        for domain, version in imports.items()
        if domain == ""
    ]
    return int(onnx.helper.find_min_ir_version_for(known, ignore_unknown=True))
