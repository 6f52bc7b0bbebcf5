from tests.tables import each_of


@each_of("opset", 7, 13, 18, 20)
@each_of("shape", "2,3,4", "N,3,4,5", "N,3,H,W")
def test_fires(shape, opset, lowers):
    lowers(f"""<ir_version: 8, opset_import: ["" : {opset}]> g
        (float[{shape}] x, float[3] s, float[3] b) => (float[{shape}] y) {{
        y = InstanceNormalization<epsilon = 0.01>(x, s, b) }}""")


def test_leaves_alone_what_has_no_spatial_axes(leaves_alone):
    text = """(float[2,3] x, float[3] s, float[3] b) => (float[2,3] y) {
    y = InstanceNormalization(x, s, b) }"""
    leaves_alone(text)
