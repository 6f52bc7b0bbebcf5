from tests.tables import each_of, pass_cases

# Variances are not negative.
CONSTANTS = "float[3] s = {1, 2, -3}, float[3] b = {1, 0, 2}, "
CONSTANTS += "float[3] m = {5, -1, 0}, float[3] v = {0, 0.5, 4}"


def model(shape, opset=20, attributes=""):
    return f"""<ir_version: 8, opset_import: ["" : {opset}]> g
      (float[{shape}] x) => (float[{shape}] y) <{CONSTANTS}> {{
      y = BatchNormalization{attributes}(x, s, b, m, v) }}"""


@each_of("opset", 9, 13, 14, 15, 20)
@each_of("shape", "2,3", "N,3,4", "N,3,H,W")
def test_fires(shape, opset, lowers):
    assert lowers(model(shape, opset, "<epsilon = 0.01>"))[-2:] == ["Mul", "Add"]


def test_types_of_parameters_may_differ(lowers):
    lowers("""(float16[2,3,4] x) => (float16[2,3,4] y)
        <float16[3] s = {15360, 15360, 16384}, float16[3] b = {15360, 0, 0},
         float[3] m = {5, -1, 0}, float[3] v = {0, 0.5, 4}> {
        y = BatchNormalization(x, s, b, m, v) }""")


test_cases = pass_cases("""
opset-8: =model('2,3', 8)
training: =f'(float[2,3] x) => (float[2,3] y) <{CONSTANTS}> {{ y, a, c =
  BatchNormalization<training_mode = 1>(x, s, b, m, v) }}'
""")
