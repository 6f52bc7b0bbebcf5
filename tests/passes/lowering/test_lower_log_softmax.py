from tests.passes.lowering.forms import elementwise
from tests.tables import each_of, pass_cases

test_lowers = elementwise("LogSoftmax(x)", 13, "ReduceMax Sub Exp ReduceSum Log Sub", old=6)


@each_of("opset", 7, 11, 13, 18)
@each_of("axis", 0, 1)
def test_old_opsets_flatten(opset, axis, lowers):
    lowers(f"""<ir_version: 8, opset_import: ["" : {opset}]> g
        (float[2,3,4] x) => (float[2,3,4] y) {{ y = LogSoftmax<axis = {axis}>(x) }}""")


test_cases = pass_cases("""
leaves doubles alone: (double[2] x) => (double[2] y) { y = LogSoftmax(x) }
""")
