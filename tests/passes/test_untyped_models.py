"""Each pass does to a file without types what it does to one with them."""

from contextlib import suppress
from functools import cache
from itertools import chain

import onnx
import onnx_ir as ir

import onnx_passes
from onnx_passes.certifying.models.recipe import recipes_on
from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.copy import copy_model
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.base import Analysis, is_shipped
from onnx_passes.passes.registry import all_passes
from tests.passes.test_in_bodies import drawn
from tests.tables import each_of

OF_TYPES = {"shape-inference", "remove-inferred-shapes"}
"""What adds or removes types itself."""
WITHOUT = [
    cls
    for cls in all_passes()
    if is_shipped(cls)
    and not issubclass(cls, Analysis)
    and not OF_TYPES & {cls.name, *cls.required_passes}
]
QDQ = """<ir_version: 10, opset_import: ["" : 18]>
main (float[n,3,4,4] x) => (float[n,4,4,4] y)
<float[4,3,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float s = {0.02}, uint8 z = {128}> {
  c = Conv(x, w)
  q = QuantizeLinear(c, s, z)  d = DequantizeLinear(q, s, z)
  p = QuantizeLinear(d, s, z)  e = DequantizeLinear(p, s, z)
  y = Relu(e)
}"""
"""A network as onnxruntime.quantization writes it: no value between its ends has a type."""


def untyped(model):
    """Return a copy in which no value between inputs and outputs has a type."""
    proto = ir.to_proto(model)
    graph = proto.graph
    del graph.value_info[:]
    ends = {value.name for value in (*graph.initializer, *graph.output)}
    for given in graph.input:
        if given.name not in ends:
            name, given.name = given.name, f"{given.name}_given"
            node = onnx.helper.make_node("Identity", [given.name], [name], name=name)
            graph.node.insert(0, node)
    return ir.from_proto(proto)


def pair(model):
    """Return a model without types, and with those that are inferred."""
    bare, typed = untyped(model), untyped(model)
    ShapeInference().call(typed)
    return bare, typed


@cache
def random_pairs(kinds):
    return [pair(recipe.model()) for recipe in recipes_on(kinds, 12, seed=3)]


def pairs(cls):
    yield pair(ir.from_onnx_text(QDQ))
    yield from random_pairs(cls.tested_on)
    with suppress(Exception):  # it is not made of rules
        yield from map(pair, chain.from_iterable(drawn(cls)))


@each_of("cls", *WITHOUT, ids=lambda cls: cls.name)
def test_what_reads_types_needs_them(cls):
    for bare, typed in pairs(cls):
        try:
            changed = cls(**cls.example).call(copy_model(typed)).modified
        except (OnnxPassesError, NotImplementedError):
            continue
        if changed:
            assert cls(**cls.example).call(copy_model(bare)).modified, (
                'it lacks needs = ("shape-inference",)'
            )


@each_of("name, left", ("remove-qdq", 0), ("fold-qdq", 1))
def test_quantisers_without_types_are_removed(name, left):
    result = onnx_passes.run(onnx.parser.parse_model(QDQ), [name], verify=False)
    assert sum(node.op_type == "QuantizeLinear" for node in result.model.graph) == left
