from tests.tables import pass_cases

HEAD = "(float[N,1,3] x) => (float[N,1,3] y) <int64[1] one = {1}, int64[1] last = {-1}> "
PIXEL = "(float[N,2,1,1] x) => (float[N,2,1,1] y)"

# Of minus infinity, ONNX Runtime's GlobalMaxPool computes the least float.
test_cases = pass_cases("""
sum: =HEAD + '{ y = ReduceSum(x, one) }' | > Identity
mean: =HEAD + '{ y = ReduceMean(x, one) }' | > Identity
max: =HEAD + '{ y = ReduceMax(x, one) }' | > Identity
min: =HEAD + '{ y = ReduceMin(x, one) }' | > Identity
prod: =HEAD + '{ y = ReduceProd(x, one) }' | > Identity
the mean of one pixel: =PIXEL + '{ y = GlobalAveragePool(x) }' | > Identity
another axis: (float[N,1,3] x) => (float[N,1,1] y) <int64[1] a = {2}> { y = ReduceSum(x, a) }
L1: =HEAD + '{ y = ReduceL1(x, one) }'
the largest of one pixel: =PIXEL + '{ y = GlobalMaxPool(x) }'
""")
