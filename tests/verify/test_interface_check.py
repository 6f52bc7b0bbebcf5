import onnx_ir as ir

from onnx_passes.verify.snapshot import compare_interfaces, interface_of
from tests.tables import each_row

BODY = "{ y = Add(a, b)  z = Relu(a) }"


def model(signature, body=BODY):
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : 20]> main {signature} {body}'
    )


BEFORE = "(float[N,4] a, float[4] b) => (float[N,4] y, float[N,4] z)"


def changes(after, *allowed, before=BEFORE):
    return compare_interfaces(
        interface_of(model(before)), interface_of(model(after)), frozenset(allowed)
    )


def test_reads_names_types_and_dims():
    a, b = interface_of(model(BEFORE)).inputs
    assert (a.name, a.type, a.dims, a.default) == ("a", "tensor(float)", ("N", 4), False)
    assert str(b) == "tensor(float)[4] b"


def test_reads_sequences_and_optionals():
    signature = "(seq(int64[?]) s, optional(seq(float[])) o, float x) => (float[] y)"
    read = interface_of(model(signature, "{ y = Identity(x) }")).inputs
    assert [p.type for p in read] == [
        "seq(tensor(int64))",
        "optional(seq(tensor(float)))",
        "tensor(float)",
    ]
    assert read[0].dims == (None,)


@each_row("""after | sentence | part
1: (float[N,4] x, float[4] b) => (float[N,4] y, float[N,4] z) | input 'a' is now named 'x' |
  inputs
2: (float[N,4] a) => (float[N,4] y, float[N,4] z) | input 'b' is gone | inputs
3: (float[N,4] a, float[4] b, int64 k) => (float[N,4] y, float[N,4] z) | input 'k' is new |
  inputs
4: (float[4] b, float[N,4] a) => (float[N,4] y, float[N,4] z) | the inputs are b, a, were a, b
  | inputs
5: (float[N,4] a, float[4] b) => (float[N,4] y) | output 'z' is gone | outputs
6: (float[N,4] a, float[4] b) => (float[N,4] z, float[N,4] y) | the outputs are z, y, were y, z
  | outputs
7: (float[2,4] a, float[4] b) => (float[N,4] y, float[N,4] z) | dimension 0 of input 'a' is 2,
  was dynamic 'N' | dims
8: (float[M,4] a, float[4] b) => (float[N,4] y, float[N,4] z) | dimension 0 of input 'a' is
  dynamic 'M', was dynamic 'N' | dims
9: (float[N,4] a, float[4] b) => (float[?,4] y, float[N,4] z) | dimension 0 of output 'y' is
  dynamic without a name, was dynamic 'N' | dims
10: (float[4] b, float[N,4] a, int64 k) => (float[N,4] y, float[N,4] z) | =["input 'k' is new",
  'the inputs are b, a, k, were a, b'] | inputs
11: (float[N,4] a, float[4] b) => (float[N,4] y, float[N,K] z) | dimension 1 of output 'z' is
  dynamic 'K', was 4 | dims
12: (float[N,4] a, float[4] b) => (float[N,4,1] y, float[N,4] z) | output 'y' has shape
  [N,4,1], had shape [N,4] | dims
13: (float[N,4] a, float[4] b) => (float[N,4] y, float z) | output 'z' has shape [], had shape
  [N,4] | dims
14: (float[N,4] a, float[4] b) => (float16[N,4] y, float[N,4] z) | output 'y' is
  tensor(float16), was tensor(float) | types
""")
def test_says_what_changed_unless_declared(after, sentence, part):
    sentences = sentence if isinstance(sentence, list) else [sentence]
    assert changes(after) == sentences
    assert changes(after, part) == []
    assert changes(after, *({"inputs", "outputs", "dims", "types"} - {part})) == sentences


def test_an_output_may_gain_what_was_not_annotated():
    before = "(float[?] a, float[?] b) => (float[?] y, float[] z)"
    after = "(float[?] a, float[?] b) => (float[4] y, float[N,4] z)"
    assert changes(after, before=before) == []
    old, new = model(before), model(after)
    old.graph.outputs[1].type = None
    assert compare_interfaces(interface_of(old), interface_of(new)) == []


def test_what_an_output_tells_may_not_get_lost():
    old, new = model(BEFORE), model(BEFORE)
    new.graph.outputs[0].shape = None
    assert compare_interfaces(interface_of(old), interface_of(new)) == [
        "output 'y' has no known rank, had shape [N,4]"
    ]


def test_an_input_stays_dynamic():
    before = "(float[?,?] a, float[?] b) => (float[?] y, float[?] z)"
    fixed = "(float[?,8] a, float[?] b) => (float[?] y, float[?] z)"
    named = "(float[N,M] a, float[K] b) => (float[?] y, float[?] z)"
    tied = "(float[N,M] a, float[M] b) => (float[?] y, float[?] z)"
    assert changes(fixed, before=before) == [
        "dimension 1 of input 'a' is 8, was dynamic without a name"
    ]
    assert changes(named, before=before) == []
    assert changes(tied, before=before) == [
        "dimension 1 of input 'a' is dynamic 'M', was dynamic without a name",
        "dimension 0 of input 'b' is dynamic 'M', was dynamic without a name",
    ]


def test_an_input_may_not_gain_a_rank():
    old, new = model(BEFORE), model(BEFORE)
    old.graph.inputs[0].shape = None
    assert compare_interfaces(interface_of(old), interface_of(new)) == [
        "input 'a' has shape [N,4], had no known rank"
    ]


def test_a_default_belongs_to_the_input():
    given = "(float[1] a, float[1] b) => (float[1] y) <float[1] b = {1.0}>"
    plain = "(float[1] a, float[1] b) => (float[1] y)"
    with_default = interface_of(model(given, "{ y = Add(a, b) }"))
    without = interface_of(model(plain, "{ y = Add(a, b) }"))
    assert compare_interfaces(with_default, without) == ["input 'b' lost its default value"]
    assert compare_interfaces(without, with_default) == [
        "input 'b' has been given a default value"
    ]
    assert compare_interfaces(with_default, without, frozenset({"inputs"})) == []
