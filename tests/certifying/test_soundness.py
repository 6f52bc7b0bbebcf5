"""What is called proved is run: random pairs of graphs that are nearly the same."""

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_passes.certifying import Arithmetic, Effort, Outcome, prove_pair
from onnx_passes.certifying.equivalence import ModelPair, block_argument
from onnx_passes.certifying.replay import Replayer
from onnx_passes.ops.semantics import Unsupported

pytest.importorskip("z3")

BINARY = ["Add", "Sub", "Mul", "MatMul", "Max", "Join"]
UNARY = ["Transpose", "Relu", "Neg", "Sum", "Mean", "Gemm", "Scale", "Shift"]
STEP = st.tuples(
    st.sampled_from(BINARY + UNARY), st.integers(0, 7), st.integers(0, 7), st.integers(0, 1)
)
RARELY = settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@st.composite
def near_misses(draw):
    """Draw a program and the same with one step changed."""
    program = draw(st.lists(STEP, min_size=2, max_size=4))
    index = draw(st.integers(0, len(program) - 1))
    op, i, j, flag = program[index]
    changed = draw(
        st.sampled_from([(op, j, i, flag), (op, i, j, 1 - flag)])
        | st.sampled_from(BINARY if op in BINARY else UNARY).map(lambda o: (o, i, j, flag))
    )
    return program, [*program[:index], changed, *program[index + 1 :]]


def build(program, size):
    inputs = [ir.val(n, dtype=ir.DataType.FLOAT, shape=[size, size]) for n in "abc"]
    values, nodes = list(inputs), []

    def emit(op_type, *operands, outputs=1, **attributes):
        node = ir.node(op_type, operands, attributes=attributes, num_outputs=outputs)
        nodes.append(node)
        for k, output in enumerate(node.outputs):
            output.name = f"v{len(nodes)}_{k}"
        return node.outputs

    def number(value):
        return emit("Constant", value=ir.tensor(np.array(value)))[0]

    for op_type, i, j, flag in program:
        x, y = values[i % len(values)], values[j % len(values)]
        match op_type:
            case "Join":
                both = emit("Relu", *emit("Concat", x, y, axis=flag))[0]
                sizes = number(np.array([size, size], np.int64))
                result = emit("Sub", *emit("Split", both, sizes, outputs=2, axis=flag))[0]
            case "Transpose":
                result = emit("Transpose", x, perm=[1, 0])[0]
            case "Sum" | "Mean":
                axes = number(np.array([flag], np.int64))
                result = emit("Mul", emit(f"Reduce{op_type}", x, axes, keepdims=1)[0], y)[0]
            case "Gemm":
                result = emit("Gemm", x, y, transA=flag, alpha=2.0)[0]
            case "Scale" | "Shift":
                plain = "Mul" if op_type == "Scale" else "Add"
                result = emit(plain, x, number(np.float32(2)))[0]
            case _:
                operands = (x,) if op_type in UNARY else (x, y)
                result = emit(op_type, *operands)[0]
        values.append(result)
    result = values[-1]
    result.dtype, result.shape = ir.DataType.FLOAT, ir.Shape([size, size])
    return ir.Model(
        ir.Graph(inputs, [result], nodes=nodes, opset_imports={"": 18}, name="g"),
        ir_version=10,
    )


@RARELY
@given(near_misses())
def test_what_blocks_show_for_all_sizes_holds_for_some(programs):
    pair = ModelPair.of(*(build(p, 3) for p in programs))
    try:
        block_argument(pair, ring=True)
    except Unsupported:
        return
    for size in (2, 3, 5):
        other = ModelPair.of(*(build(p, size) for p in programs))
        found = Replayer(other.before, other.after).search(4, real=True)
        overflows = found is not None and not all(
            np.isfinite(v).all() for v in found.expected.values()
        )
        assert found is None or overflows, found.reason


@RARELY
@given(near_misses())
def test_what_is_proved_without_the_engine_the_engine_confirms(programs):
    programs = [[s for s in p if s[0] not in ("MatMul", "Gemm", "Join")] for p in programs]
    before, after = (build(p or [("Neg", 0, 0, 0)], 3) for p in programs)
    proof = prove_pair(before, after, effort=Effort(samples=0, milliseconds=200))
    replayer = Replayer(before, after)
    if proof[Arithmetic.REAL].outcome == Outcome.PROVED:
        assert replayer.search(20, real=True) is None
    if proof[Arithmetic.IEEE].outcome == Outcome.PROVED:
        found = replayer.search(20, real=False)
        assert found is None or proof[Arithmetic.IEEE].reason
