"""What one result has that another has not is counted by operator and by chain."""

import json
from collections import Counter

import onnx

from benchmarks.peers.measure import Cell, from_json, to_json
from benchmarks.peers.patterns import chains, histogram, surplus

MODEL = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
        a = Mul(x, w)
        b = Add(a, w)
        y = If(c) <then_branch = t () => (float[2] p) { p = Neg(b) },
                   else_branch = e () => (float[2] q) { q = Exp(b) }>
    }""")


def test_nodes_of_bodies_are_counted():
    assert histogram(MODEL) == Counter(["Mul", "Add", "If", "Neg", "Exp"])


def test_chains_say_where_an_operand_is_constant():
    found = chains(MODEL, 2)
    assert found["Mul(c)", "Add(c)"] == 1
    assert found["Add(c)", "Neg"] == 1


def test_only_what_is_more_is_surplus():
    ours, theirs = Counter({("Mul",): 3, ("Add",): 1}), Counter({("Mul",): 1, ("Add",): 1})
    assert surplus(ours, theirs, 5) == [(("Mul",), 2)]


def test_figures_are_written_and_read_again():
    cells = {"tool": Cell([2.0, 1.0, 3.0], [0.5], "", {"nodes": 3})}
    assert from_json(json.loads(json.dumps(to_json(cells)))) == cells
    assert cells["tool"].median == 2.0
