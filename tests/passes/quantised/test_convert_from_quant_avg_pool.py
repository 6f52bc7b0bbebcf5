from onnx_passes.passes.quantised.convert_from_quant_avg_pool import ConvertFromQuantAvgPool
from tests.passes.quantised.test_convert_to_quant_avg_pool import converted
from tests.tables import each_of

POOL = "r = Q.QuantAvgPool2d<kernel = 2, stride = 2, ibits = 4, obits = 3, signed = 0LAST>(x)"


def test_fires():
    model = converted(POOL.replace("LAST", ""), pass_=ConvertFromQuantAvgPool())
    kinds = [node.op_type for node in model.graph if node.op_type != "Constant"]
    assert kinds == ["AveragePool", "Mul", "Trunc", "Relu"]


@each_of("layout, version", (', data_layout = "NHWC"', 1), ("", 2), ids=["last", "version 2"])
def test_leaves_alone(layout, version):
    body = POOL.replace("LAST", layout)
    assert converted(body, version, ConvertFromQuantAvgPool()) is None
