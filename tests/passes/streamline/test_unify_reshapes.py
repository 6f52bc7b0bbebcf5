import pytest

from tests.tables import each_of, inferred


@each_of("call", "Flatten(x)", "Squeeze(x)", "Squeeze(x, one)", "Unsqueeze(x, one)")
@each_of("dims", "2,1,3", "N,1,3")
def test_fires(call, dims, applied):
    if call == "Squeeze(x)" and "N" in dims:
        pytest.skip("which axes go depends on N")
    made = "A,B,C,D" if "Unsqueeze" in call else "A,B"
    model = inferred(f"""(float[{dims}] x) => (float[{made}] y) <int64[1] one = {{1}}>
        {{ t = {call} y = Exp(t) }}""")
    assert applied(model)
    assert [n.op_type for n in model.graph if n.op_type != "Constant"] == ["Reshape", "Exp"]


def test_leaves_two_dynamic_dimensions_alone(leaves_alone):
    leaves_alone(inferred("(float[N,M,3] x) => (float[A,B] y) { y = Flatten<axis = 2>(x) }"))
