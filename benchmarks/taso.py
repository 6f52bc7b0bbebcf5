"""Prove or refute the 133 substitutions that TASO ships.

    python benchmarks/taso.py PATH/TO/taso_rules.json [--grouped] [--json OUT] [-v]

The rules are those of ``graph_subst.pb`` in jiazhihao/TASO (Apache-2.0), decoded to JSON: per
rule a source graph, a target graph, and which outputs correspond. The file is not part of this
project. Each rule becomes a pair of ONNX models and goes through the prover.

How the operators are read:

- ``conv2d`` has one group in the source graph. In the target graph it has as many groups as
  the channels of its image divided by those of its weights, as TASO infers. ``--grouped`` adds
  a second reading, in which the source graph's convolutions have two groups as well.
- ``mul`` is elementwise. ``split`` cuts where the sizes of the source graph's outputs say.
- A rule holds for sizes on which both graphs are well-formed, as TASO applies it to no others.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.domains.bitvectors import z3
from onnx_passes.verify.rules import Arithmetic, Outcome, Proof, prove_pair

Shape = list[Any]
RANKS = {"matmul": 2, "conv2d": 4}


class Shapes:
    """Sizes for the inputs of a rule on which both of its graphs are well-formed."""

    def __init__(self, rule: dict[str, Any], groups: int) -> None:
        self._rule, self._groups = rule, groups
        self._solver = z3().Solver()
        self.free: dict[int, Shape] = {}
        rank = self._rank()
        ids = sorted(
            {i for side in ("source", "target") for n in rule[side] for i, _ in n["inputs"]},
            reverse=True,
        )
        for number in (i for i in ids if i < 0):
            self.free[number] = [z3().Int(f"x{-number}_{axis}") for axis in range(rank)]
        for shape in self.free.values():
            self._solver.add(*(d >= 1 for d in shape), *(d <= 12 for d in shape))
        source = self._walk(rule["source"], target=False)
        target = self._walk(rule["target"], target=True)
        for a, b, c, d in rule["outputs"]:
            self._same(source[a][c], target[b][d])

    def _rank(self) -> int:
        for side in ("source", "target"):
            for node in self._rule[side]:
                if node["op"] in RANKS or node["op"] == "concat":
                    return int(RANKS.get(node["op"], node.get("num_dim")))
        return 2

    def _same(self, left: Shape, right: Shape) -> None:
        self._solver.add(*(a == b for a, b in zip(left, right, strict=True)))

    def _walk(self, nodes: list[dict[str, Any]], *, target: bool) -> list[list[Shape]]:
        shapes: list[list[Shape]] = []
        for index, node in enumerate(nodes):
            inputs = [self.free[i] if i < 0 else shapes[i][o] for i, o in node["inputs"]]
            shapes.append(self._apply(node, index, inputs, target=target))
        return shapes

    def _apply(
        self, node: dict[str, Any], index: int, inputs: list[Shape], *, target: bool
    ) -> list[Shape]:
        first, *rest = inputs
        match node["op"]:
            case "add" | "mul":
                self._same(first, rest[0])
                return [first]
            case "relu":
                return [first]
            case "matmul":
                self._solver.add(first[1] == rest[0][0])
                return [[first[0], rest[0][1]]]
            case "concat":
                axis = node["axis"]
                for i, (a, b) in enumerate(zip(first, rest[0], strict=True)):
                    if i != axis:
                        self._solver.add(a == b)
                return [[*first[:axis], first[axis] + rest[0][axis], *first[axis + 1 :]]]
            case "conv2d":
                return [self._conv(first, rest[0], target=target)]
            case "split":
                axis = node["axis"]
                wanted = [o for o in self._rule["outputs"] if o[1] == index]
                parts = [
                    [z3().Int(f"s{index}_{o[3]}_{i}") for i in range(len(first))]
                    for o in sorted(wanted, key=lambda o: o[3])
                ]
                for part in parts:
                    self._same(
                        [d for i, d in enumerate(part) if i != axis],
                        [d for i, d in enumerate(first) if i != axis],
                    )
                self._solver.add(sum(p[axis] for p in parts) == first[axis])
                return parts
        raise ValueError(f"operator {node['op']!r} of the rules file is not known")

    def _conv(self, x: Shape, w: Shape, *, target: bool) -> Shape:
        self._solver.add(w[2] == 3, w[3] == 3)
        if target:
            # As many groups as it takes: TASO infers the number from the shapes.
            groups = z3().FreshInt("groups")
            self._solver.add(groups >= 1, groups * w[1] == x[1], w[0] % groups == 0)
        else:
            self._solver.add(x[1] == self._groups * w[1], w[0] % self._groups == 0)
        return [x[0], w[0], x[2], x[3]]

    def solve(self) -> dict[int, list[int]] | None:
        """Return small sizes, unlike one another where they may be, or None where none fit."""
        dims = [d for shape in self.free.values() for d in shape]
        for k, dim in enumerate(dims):
            for size in [2 + (k + j) % 3 for j in range(3)] + [1]:
                self._solver.push()
                self._solver.add(dim == size)
                if self._solver.check() == z3().sat:
                    break
                self._solver.pop()
        if self._solver.check() != z3().sat:
            return None
        model = self._solver.model()
        return {
            number: [model.eval(d, model_completion=True).as_long() for d in shape]
            for number, shape in self.free.items()
        }


def build(
    nodes: list[dict[str, Any]],
    rule: dict[str, Any],
    sizes: dict[int, list[int]],
    side: int,
    outputs_like: list[list[int]] | None,
) -> ir.Model:
    """Return one side of a rule as an ONNX model on inputs of the given sizes."""
    inputs = {
        number: ir.val(f"x{-number}", dtype=ir.DataType.FLOAT, shape=shape)
        for number, shape in sizes.items()
    }
    built: list[list[ir.Value]] = []
    shapes: list[list[list[int]]] = []
    made: list[ir.Node] = []

    def emit(op_type: str, operands: list[ir.Value], count: int = 1, **attrs: Any) -> ir.Node:
        node = ir.node(op_type, operands, attributes=attrs, num_outputs=count)
        for k, value in enumerate(node.outputs):
            value.name = f"{op_type}{len(made)}_{k}"
            value.dtype = ir.DataType.FLOAT
        made.append(node)
        return node

    for index, spec in enumerate(nodes):
        operands = [inputs[i] if i < 0 else built[i][o] for i, o in spec["inputs"]]
        known = [sizes[i] if i < 0 else shapes[i][o] for i, o in spec["inputs"]]
        first = list(known[0])
        match spec["op"]:
            case "matmul":
                node = emit("MatMul", operands)
                result = [[first[0], known[1][1]]]
            case "add" | "mul" | "relu":
                node = emit(spec["op"].capitalize(), operands)
                result = [first]
            case "concat":
                node = emit("Concat", operands, axis=spec["axis"])
                first[spec["axis"]] += known[1][spec["axis"]]
                result = [first]
            case "conv2d":
                group = known[0][1] // known[1][1]
                node = emit("Conv", operands, pads=[1, 1, 1, 1], group=group)
                result = [[first[0], known[1][0], *first[2:]]]
            case "split":
                axis = spec["axis"]
                assert outputs_like is not None
                wanted = sorted(
                    (o[3], outputs_like[k][axis])
                    for k, o in enumerate(rule["outputs"])
                    if o[1] == index
                )
                lengths = [length for _, length in wanted]
                cut = emit("Constant", [], value=ir.tensor(np.array(lengths, np.int64)))
                cut.outputs[0].dtype = ir.DataType.INT64
                node = emit("Split", [*operands, cut.outputs[0]], len(lengths), axis=axis)
                result = [[*first[:axis], n, *first[axis + 1 :]] for n in lengths]
        if spec.get("activation") == "relu":
            node = emit("Relu", list(node.outputs))
        for value, shape in zip(node.outputs, result, strict=True):
            value.shape = ir.Shape(shape)
        built.append(list(node.outputs))
        shapes.append(result)
    ends = [built[o[side]][o[2 + side]] for o in rule["outputs"]]
    graph = ir.Graph(
        list(inputs.values()), ends, nodes=made, opset_imports={"": 18}, name="rule"
    )
    return ir.Model(graph, ir_version=10)


def prove(rule: dict[str, Any], groups: int) -> Proof | None:
    """Return the verdicts on a rule, or None where no sizes fit both of its graphs."""
    sizes = Shapes(rule, groups).solve()
    if sizes is None:
        return None
    before = build(rule["source"], rule, sizes, 0, None)
    ends = [[int(str(d)) for d in o.shape or ()] for o in before.graph.outputs]
    after = build(rule["target"], rule, sizes, 1, ends)
    return prove_pair(before, after)


def describe(rule: dict[str, Any]) -> str:
    """Return a rule as text."""

    def side(nodes: list[dict[str, Any]]) -> list[str]:
        texts: list[str] = []
        for node in nodes:
            args = (f"x{-i}" if i < 0 else texts[i] for i, _ in node["inputs"])
            name = node["op"] + (str(node["axis"]) if "axis" in node else "")
            text = f"{name}({', '.join(args)})"
            texts.append(f"relu({text})" if node.get("activation") == "relu" else text)
        return texts

    source, target = side(rule["source"]), side(rule["target"])
    ends = (f"{source[a]} -> {target[b]}" for a, b, _, _ in rule["outputs"])
    return "; ".join(ends)


def run(rules: list[dict[str, Any]], groups: int, verbose: bool) -> list[dict[str, Any]]:
    """Prove every rule and print the tally."""
    records = []
    tally: collections.Counter[str] = collections.Counter()
    ieee = 0
    start = time.perf_counter()
    for number, rule in enumerate(rules):
        proof = prove(rule, groups)
        if proof is None:
            tally["no sizes fit"] += 1
            continue
        verdict = proof[Arithmetic.REAL]
        everywhere = verdict.coverage is not None and verdict.coverage.everywhere
        label = str(verdict.outcome)
        if verdict.outcome == Outcome.PROVED:
            label += " for all sizes" if everywhere else " for the sizes tried"
        if verdict.outcome == Outcome.REFUTED:
            label += " with a replay on ONNX Runtime"
        tally[label] += 1
        ieee += proof[Arithmetic.IEEE].outcome == Outcome.PROVED
        if verbose or not (verdict.outcome == Outcome.PROVED and everywhere):
            print(f"  rule {number}: {describe(rule)}\n    {verdict}")
        if verbose:
            print(f"    {proof[Arithmetic.IEEE]}  ({proof.seconds:.2f} s)")
        records.append(
            {
                "rule": number,
                "verdict": label,
                "method": verdict.method,
                "ieee": str(proof[Arithmetic.IEEE].outcome),
                "seconds": proof.seconds,
            }
        )
    print(
        f"{len(rules)} rules in {time.perf_counter() - start:.1f} s, median "
        f"{np.median([r['seconds'] for r in records]) * 1000:.0f} ms a rule"
    )
    for label, count in tally.most_common():
        print(f"{count:5}  {label}")
    print(f"{ieee:5}  of these also proved bit for bit in IEEE arithmetic")
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description="Prove the substitutions that TASO ships.")
    parser.add_argument("path", type=Path, help="taso_rules.json")
    parser.add_argument(
        "--grouped", action="store_true", help="also with grouped convolutions"
    )
    parser.add_argument("--json", type=Path, help="write one record per rule")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every verdict")
    arguments = parser.parse_args()
    if not arguments.path.exists():
        sys.exit(f"{arguments.path} does not exist: give the path of taso_rules.json")
    rules = json.loads(arguments.path.read_text())["rules"]
    records = run(rules, 1, arguments.verbose)
    if arguments.grouped:
        convolutions = [r for r in rules if any(n["op"] == "conv2d" for n in r["source"])]
        print("\nwith two groups in every convolution of the source graph:")
        run(convolutions, 2, arguments.verbose)
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
