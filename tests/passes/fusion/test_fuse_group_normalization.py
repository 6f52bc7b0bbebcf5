from tests.tables import inferred, pass_cases

NUMBERS = {
    "g": "int64[3] g = {0, 2, -1}",
    "s": "float[2] s = {1, 1}",
    "b": "float[2] b = {0, 0}",
    "w": "float[4,1,1] w = {1, 2, 3, 4}",
    "c": "float[1,4,1,1] c = {4, 3, 2, 1}",
    "w0": "float[4] w0 = {1, 2, 3, 4}",
    "c0": "float[4] c0 = {4, 3, 2, 1}",
    "i": "float[4] i = {1, 1, 1, 1}",
    "o": "float[4] o = {0, 0, 0, 0}",
}
PLAIN = """r = Reshape(x, g) n = InstanceNormalization<epsilon = 0.001>(r, s, b)
  k = Shape(x) t = Reshape(n, k) """


def model(body, *, x="N,4,H,3", opset=21, shape=None, **numbers):
    words = {*body.replace("(", " ").replace(")", " ").replace(",", " ").split()}
    kept = ", ".join(v for k, v in (NUMBERS | numbers).items() if k in words)
    return inferred(f"""<ir_version: 10, opset_import: ["" : {opset}]> m
      (float[{x}] x) => (float[{shape or x}] y) <{kept}> {{ {body} }}""")


def group(*parameters):
    return f"GroupNormalization<epsilon = 0.001, num_groups = 2>({', '.join(parameters)})"


test_cases = pass_cases("""
both: =model(PLAIN + 'm = Mul(t, w) y = Add(m, c)') | =model(f"y = {group('x', 'w0', 'c0')}")
swap: =model(PLAIN + 'm = Mul(w, t) y = Add(c, m)') | =model(f"y = {group('x', 'w0', 'c0')}")
scale: =model(PLAIN + 'y = Mul(t, w)') | =model(f"y = {group('x', 'w0', 'o')}")
bias: =model(PLAIN + 'y = Add(t, c)') | =model(f"y = {group('x', 'i', 'c0')}")
neither: =model(PLAIN + 'y = Exp(t)') | =model(f"t = {group('x', 'i', 'o')} y = Exp(t)")
before-opset-21: =model(PLAIN + 'y = Exp(t)', opset=20)
scale-by-group: =model(PLAIN + 'y = Exp(t)', s='float[2] s = {1, 2}')
bias-by-group: =model(PLAIN + 'y = Exp(t)', b='float[2] b = {0, 2}')
groups-that-part-a-channel: =model(PLAIN + 'y = Exp(t)', x='2,3,2,3')
groups-across-samples: =model(PLAIN + 'y = Exp(t)', x='2,4,2,3', g='int64[3] g = {4, 2, 6}')
another-shape: =model(PLAIN.replace('k = Shape(x)', 'j = Shape(x)
  k = Gather(j, p)') + 'y = Exp(t)', x='2,4,6,4', shape='2,4,4,6', p='int64[4] p = {0, 1, 3,
  2}')
second-reader: =model(PLAIN + 'e = ReduceSum(n) y = Add(t, e)')
scale-by-column: =model(f"n = {group('x', 'i', 'o')} y = Mul(n, w)", w='float[3] w = {1, 2,
  3}')
scale-of-bias: =model(f"n = {group('x', 'i', 'c0')} y = Mul(n, w)")
scale-twice: =model(f"n = {group('x', 'w0', 'o')} y = Mul(n, w)")
""")
