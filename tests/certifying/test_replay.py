import numpy as np
import pytest

from onnx_passes.certifying.replay import ENGINE_FAULTS, PairRunner, Replayer, difference

pytest.importorskip("z3")


def test_rounding_is_no_difference_over_the_reals():
    left, right = np.array([1.0], np.float32), np.array([1.0000001], np.float32)
    assert difference(left, right, real=False)
    assert difference(left, right, real=True) is None


def test_a_crash_of_the_engine_loses_only_its_own_sample(graph):
    model = graph("int32[1] x, int32[1] y", "int32[1] o", "o = Div(x, y)")
    pairs = [(6, 3), (-(2**31), -1), (8, 2), (1, 0)]
    feeds = [{"x": np.array([a], np.int32), "y": np.array([b], np.int32)} for a, b in pairs]
    runner = PairRunner((model, model))
    results = [runner.run(each)[0] for each in feeds]
    assert results[0][0].tolist() == [2]
    assert results[1].crashed
    assert "SIGFPE" in results[1].message
    assert results[2][0].tolist() == [4]
    assert not results[3].crashed
    assert not results[3].missing


def test_a_convolution_of_no_channel_is_not_run_and_refutes_nothing(graph):
    # ONNX Runtime 1.31.1 does not return from it.
    before = graph("float[2,0,3] x", "float[2,3,3] o", "o = Constant<value = float {1}>()")
    after = graph("float[2,0,3] x, float[3,0,1] w", "float[2,3,3] o", "o = Conv(x, w)")
    feeds = {"x": np.zeros((2, 0, 3), np.float32), "w": np.zeros((3, 0, 1), np.float32)}
    _, result = PairRunner((before, after)).run(feeds)
    assert result.missing
    assert "never ends" in result.message


def test_an_operator_that_the_engine_lacks_refutes_nothing(graph):
    before = graph("int32[2,2] x", "int32[2,2] o", "o = MatMul(x, x)")
    after = graph("int32[2,2] x", "int32[2,2] o", "o = Gemm(x, x)")
    assert Replayer(before, after).search(4, real=False) is None


@pytest.mark.parametrize("kind", ["int32", "int64", "uint64"])
def test_integers_that_the_engine_rounds_refute_nothing(graph, kind):
    # ONNX Runtime 1.31 adds integers in double precision, and cuts what is too large.
    ends = f"{kind}[2,3,4] x", f"{kind}[2,1,1] o"
    axes = "a = Constant<value_ints = [{}]>()"
    inner = f"{axes.format(1)} b = Constant<value_ints = [2]>()"
    twice = f"{inner} r = ReduceSum(x, a) o = ReduceSum(r, b)"
    once = f"{axes.format('1, 2')} o = ReduceSum(x, a)"
    replayer = Replayer(graph(*ends, twice), graph(*ends, once))
    assert replayer.search(40, real=False) is None
    end = np.iinfo(kind).max
    x = np.full((2, 3, 4), end, kind)
    x[:, :, 0] = 1
    assert replayer.compare({"x": x}, real=False) is None


@pytest.mark.parametrize("shape", ["", "[1]"])
def test_integers_stay_arrays_that_the_engine_computes_exactly(graph, shape):
    # Its Max of 64-bit integers knows 32 bits: 2147483648 was one too many.
    before = graph(f"int64{shape} x", f"int64{shape} o", "o = Max(x, x)")
    after = graph(f"int64{shape} x", f"int64{shape} o", "o = Identity(x)")
    replayer = Replayer(before, after)
    assert replayer.search(40, real=False) is None
    found = Replayer(before, graph(f"int64{shape} x", f"int64{shape} o", "o = Neg(x)"))
    assert isinstance(found.search(40, real=False).feeds["x"], np.ndarray)


def test_a_fault_of_the_engine_is_counted_and_no_difference(graph):
    # ONNX Runtime 1.31.1 takes 2147483649 for negative in Relu of 64-bit integers.
    known = "c = Constant<value_int = 2147483648>() s = Add(x, c)"
    before = graph("int64[8] x", "int64[8] o", f"{known} o = Relu(s)")
    feeds = {"x": np.ones(8, np.int64)}
    right = Replayer(before, graph("int64[8] x", "int64[8] o", f"{known} o = Identity(s)"))
    assert right.compare(feeds, real=False) is None
    assert right.excused == {ENGINE_FAULTS: 1}
    wrong = Replayer(before, graph("int64[8] x", "int64[8] o", f"{known} o = Neg(s)"))
    assert wrong.compare(feeds, real=False) is not None
    assert not wrong.excused


def test_an_empty_operand_that_a_kernel_refuses_is_no_difference_where_onnx_finds_none(graph):
    # Attention of ONNX Runtime 1.31.1 wants new keys beside those of the past.
    ends = "float[1,1,0,2] k, float[1,1,3,2] past", "float[1,1,1,2] o"
    query = "q = Constant<value = float[1,1,1,2] {1, 2}>()"
    joined = f"{query} j = Concat<axis = 2>(past, k) o = Attention(q, j, j)"
    apart = f"{query} o, a, b = Attention(q, k, k, , past, past)"
    before = graph(*ends, joined, opset=23)
    replayer = Replayer(before, graph(*ends, apart, opset=23))
    assert replayer.search(2, real=False) is None
    assert replayer.excused[ENGINE_FAULTS] == 2
    wrong = apart.replace("q, k, k", "q, k, past")
    assert Replayer(before, graph(*ends, wrong, opset=23)).search(2, real=False)


def test_a_kernel_that_loses_nan_refutes_nothing(graph):
    """ONNX Runtime gives 0 for a row of NaN to a GRU with a bias, and NaN to one without."""
    ends = "float[1,1,1] x, float[1,3,1] w, float[1,3,1] r", "float[1,1,1,1] o"
    zero = "b = Constant<value = float[1,6] {0, 0, 0, 0, 0, 0}>()"
    given = graph(*ends, f"{zero} o = GRU<hidden_size = 1>(x, w, r, b)")
    left_out = Replayer(given, graph(*ends, "o = GRU<hidden_size = 1>(x, w, r)"))
    halved = Replayer(given, graph(*ends, "h = Add(x, x) o = GRU<hidden_size = 1>(h, w, r)"))
    feeds = {"w": np.ones((1, 3, 1), np.float32), "r": np.ones((1, 3, 1), np.float32)}
    odd, even = (np.full((1, 1, 1), x, np.float32) for x in (np.nan, 1))
    assert left_out.compare({"x": odd, **feeds}, real=True) is None
    assert left_out.excused == {ENGINE_FAULTS: 1}
    assert halved.compare({"x": even, **feeds}, real=True) is not None


def test_an_axis_of_nothing_from_the_end_refutes_nothing(graph):
    """ONNX Runtime does not reduce it."""
    ends = "int64[0,2] x", "int64[0,1] o"
    axes = "a = Constant<value_ints = [-1]>()"
    top = f"{axes} k = Constant<value_ints = [1]>() v, i = TopK(x, k) o = ReduceMax(v, a)"
    replayer = Replayer(graph(*ends, top), graph(*ends, f"{axes} o = ReduceMax(x, a)"))
    assert replayer.compare({"x": np.zeros((0, 2), np.int64)}, real=False) is None
    assert replayer.excused == {ENGINE_FAULTS: 1}
