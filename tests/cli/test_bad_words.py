"""What commands refuse, as one table: a sentence says what is wrong, nothing is written."""

import re
import shlex
import sys

import numpy as np
import onnx
import pytest

from tests.cli.conftest import ROOT
from tests.tables import each_of

DIGITS = ROOT / "examples" / "digits"
SANITIZED = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[N, 4] x) => (float[N, 4] y) <float two = {2}, float unused = {1}> {
        four = Mul(two, two) a = Mul(x, four) dead = Exp(x) b = Neg(a) y = Identity(b) }"""
TUNE = """
reference:
  inputs: {image: images.npy}
  outputs: {scores: labels.npy}
verify:
  metrics: {kl_divergence: [0, 0.001], accuracy: [0.98, 1]}
tune:
  formats: [float16, int8-dynamic, int8-weights]
  objective: size
  flips: {most: 5 %}
"""
REFUSED = f"""
$ build model.onnx -o a.engine
--profile a => --profile 'a' cannot be read
--profile a=1x2:2x2 => cannot be read
--profile a=1xtwo => cannot be read
--profile image=1x2 => --profile: there is no input 'image'
--profile a=1x2 --profile y=1x2 => --profile: there is no input 'y'
--compute-capabilities ada => cannot be 'ada'
-e 'tensorrt-rtx{{optimization_level=9}}' => optimization_level
-e 'tensorrt-rtx{{network_hook=nowhere}}' => network_hook cannot be 'nowhere'
-e onnxruntime => --engine onnxruntime does not compile
--profile a=1x2 --profile a=4x2 --profile b=1 --profile b=2 --profile b=2 => --profile is given
  2 times for 'a', and 3 times for another input
-e 'tensorrt-rtx{{workspace=much}}' => workspace cannot be 'much'
$ certify
eliminate-identiti => eliminate-identity
eliminate-identity --time soon => is not a time
eliminate-identity --time 0 => is not a time
eliminate-identity --time -1s => is not a time
$
inspct relu.onnx => did you mean 'inspect'?
dif a b => did you mean 'diff'?
data mrge a => did you mean 'merge'?
data mereg a => did you mean 'merge'?
inspect modle a => did you mean 'model'?
-c optimize -c cleanup model.onnx => is given twice
-c cleanup -o a.onnx --output b.onnx model.onnx => is given twice
-c cleanup --json a --json b model.onnx => is given twice
model.onnx --inputs a.npz b.npz c.npz => --inputs takes one file, or a folder of them
model.onnx a.onnx b.onnx => is a second output
model.onnx a.onnx -o b.onnx => is a second output
model.onnx folder/ => the result is a file: -o FILE
model.onnx Fuse-Gleu => did you mean 'fuse-gelu'?
optimize model.onnx => did you mean '-c optimize MODEL -o OUT'?
optimise model.onnx => did you mean '-c optimize MODEL -o OUT'?
cmopare model.onnx => did you mean 'compare'?
fuse-gelu model.onnx => onnx-passes MODEL 'fuse-gelu' -o OUT
tune.yaml model.onnx => onnx-passes -c tune.yaml MODEL -o OUT
eliminate model.onnx => onnx-passes MODEL 'eliminate' -o OUT
list nope => onnx-passes list prints all
new-pass DropRelu => did you mean 'drop-relu'?
new-pass 9 => such as merge-relus
new-pass numpy => add a word: my-numpy
new-pass import => add a word: my-import
inspect model model.onnx --json=folder => --json folder is a folder
compare --load-outputs no.zip => 'no.zip' holds no results
$ run model.onnx -o out.onnx
--dims N => is not NAME=SIZE
--dims N=x => is not NAME=SIZE
--dims N=0 => a size is at least 1
--dims M=2 => known: N, a, b
--dims a=1 => name a dynamic dimension of it: N
--dims a[0]=1 => it is called 'N'
--dims a[1]=1 => it is fixed at 2
--dims a=1x2 => x[0]=1
--dims N=1,N=2 => gives 'N' two sizes
--no-passes --precision int8 => give one
--metric cosine=1:0.9 => write NAME=LOW:HIGH
--precision int8 --metric cosine => NAME=LOW:HIGH
--precision int8 --metric cosine=1 => NAME=LOW:HIGH
--precision int8 --metric =0:1 => NAME=LOW:HIGH
--precision int8 --metric cosine=a:b => NAME=LOW:HIGH
--why-not fuse-attenton@y => did you mean 'fuse-attention'?
--skip fuse-gleu => did you mean 'fuse-gelu'
--skip convert-float16 => has no such pass
--keep ii => no such node or value
-s limits.reproducer_seconds=-1 cleanup => reproducer_seconds
-e openvyno eliminate-identity => did you mean 'openvino'
-e onnxruntime{{threads=-1}} eliminate-identity => at least 0
-e openvino{{device=AUTO}} eliminate-identity => chooses devices unseen
-e onnxruntime:Cuba eliminate-identity => no execution provider 'Cuba'
-e openvyno eliminate-identity => --engine openvyno
--no-verify --objective time -s engines=[] cleanup => an objective needs an engine
-s verify.inputs=adverserial => adversarial
$ run digits.onnx -o out.onnx
-c optimize quantize-static --json r.json => quantize-static needs data, and there is none
-c optimize quantize-weights-gptq => quantize-weights-gptq needs data, and there is none
-c optimize smooth-activations => smooth-activations needs data, and there is none
-c optimize tune => tune needs data, and there is none
quantize-static => --calib FOLDER
quantize-weights{{weights=int5}} => int5
$ compare digits.onnx
--engine onnxrutnime => did you mean 'onnxruntime'
--engine onnxruntime{{optimisation=all}} => no option 'optimisation'
--engine onnxruntime{{ => --engine
--outputs score => did you mean 'scores'
--outputs /conv1/Conv => is a node, which computes /conv1/Conv_output_0
--outputs /conv1/Conv_output_0,scores => write spaces between names
--generate shape=image:1xtwo => write shape=NAME:SIZES
--generate shape=imag:1x1x8x8 => did you mean 'image'
--generate shape=image:1x3x8x8 => does not fit input 'image'
--generate sead=1 => did you mean 'seed'
--generate range=image:1 => write range=NAME:LOW:HIGH
--outputs all scores => --outputs all leaves no others
--save-inputs /proc/i.json => cannot be written
--inputs none.npz => there are no inputs 'none.npz'
--load-outputs none.zip => there are no saved results 'none.zip'
--tolerance tight => is not a number
--tolerance exact --rtol 1 => leaves no room
--compare cosin => did you mean 'cosine'
--compare cosine=2 => goes from -1 to 1
--compare quantile => needs a share
--compare nomodule:f => cannot be imported
--data-loader nomodule.py:f => a module is named without .py: nomodule:f
--postprocess top5 => write top-k=5
--postprocess score:top-k=5 => did you mean 'scores'
--memory-limit much => --memory-limit
--save-outputs x.csv => not saved as .csv
--save-outputs x.npz -e onnxruntime -e onnxruntime{{optimization=all}} => holds one run
--inputs x --generate seed=1 => two sources of inputs
--data x.npz --time => --time does not go
--iterations 2 => --iterations needs --time
--labels y => --labels needs a data set
$ compare digits.onnx -e onnxruntime -e reference --data image=images.npy label=labels.npy
--inputs x.npz => --inputs and --data do not go together
--html x.html => --html and --data do not go together
--accuracy drop=x => is not a share
--accuracy drops=1% => cannot be read
--metric accuracy => is not a range of a metric
--jobs 2 --scheduler tcp://x:1 => two kinds of workers
--engine onnxruntime{{threads=0}} => number of threads
--labels digit => no column 'digit'
--metric nonesuch=0:1 => there is no metric
$ compare digits.onnx -e onnxruntime -e reference --data
nowhere => there is no data 'nowhere'
wide.npy => is given float64, and the model needs float32
$ rename digits.onnx -o out.onnx
imag=x => the model has no value 'imag'
--node nothing=x => the model has no node 'nothing'
x => 'x' is not in the form OLD=NEW
=> nothing to rename
$ view model.onnx
-o model.onnx => model.onnx
--report none.json => cannot read the report: No such file or directory
--report model.onnx => not a report of onnx-passes
$ data concat x.npy -o
d.npz --names X => no value 'X'
d.txt => no known extension
no/d.npz => No such file
x.npy => write over what is read
$ inspect data
z.npy => did you mean 'x.npy'
$ extract model.onnx -o part.onnx
--inputs t => the model has no value 't'
--inputs s:2x:float32 => '2x' is not a shape
--inputs s:2x2:flaot32 => did you mean 'float32'?
--outputs s --inputs y => depend on 'a', 'b' as well
--inputs s:-1x2:float32 => [dim0,2]
--outputs s,y => write spaces between names: s y
--inputs t:2x2:float32 => the model has no value 't'
--outputs y:int64 => cannot have these types and shapes
--inputs s --outputs s => no node lies between these values
--inputs s a => leaves it unconnected
$ extract digits.onnx -o part.onnx --outputs
/conv1/Conv => is a node, which computes /conv1/Conv_output_0
$ extract model.onnx --outputs s -o
'' => is a folder
model.onnx => model
$ reduce digits.onnx -o small.onnx -q
--check 'no-such-command {{model}}' => there is no command 'no-such-command'
--check 'true {{model}}' => does not fail on the whole model
--check "{sys.executable} -c 'raise SystemExit(1)' {{model}}" => fails on every model
--check "{sys.executable} -c 'import os; os.write(1, bytes([255])); exit(1)' {{model}}"
  => fails on every model
--check "{sys.executable} -c 'import time; time.sleep(30)' {{model}}" --timeout 1 => ran
  longer than 1 s
--check 'true {{model}}' --fail-regex ( => is not a regular expression
=> nothing says what fails
--engine onnxruntime --interactive => are 2 checks
--engine onxruntime => did you mean 'onnxruntime'?
--engine onnxruntime --against golden => needs --load-inputs
--engine onnxruntime --load-inputs x.npz => 'x.npz' does not exist
--engine onnxruntime --load-inputs other.npz => no value of this model
--engine onnxruntime --load-inputs odd.npz => input 'image' is given shape
--engine onnxruntime --model-input-shapes imag:1 => did you mean 'image'?
--engine onnxruntime --model-input-shapes image:1y => '1y' is not a shape
--check-function nowhere:f => cannot be imported
--timeout 0 --check true => --timeout 0: it has to be a number, more
--timeout nan --check true => --timeout nan: it has to be a number
--engine onnxruntime --rtol -1 => --rtol -1: it has to be a number
--engine onnxruntime --fail-code 1 => --fail-code needs --check, not
--atol 1 --check true => --atol needs --engine, not --check
--check true => write {{model}} there
--fail-code 3 --ignore-fail-code 3 --check true => contradict each other
--check '' => --check is empty
--check './other.npz {{model}}' => './other.npz' may not be executed
$ sanitize sanitized.onnx -o out.onnx
=> nothing to do
--override-input-shapes z:1x4 => the model has no input 'z'
--override-input-shapes x:1x4x1 => has 2 dimensions, not 3
--override-input-shapes x:axb => 'axb' is not a shape
--override-input-shapes x:4xN => as [4,N]
--fold-constants --json --cleanup => --json takes a file
--outputs yy => no value 'yy'
--set-upper-bound a:many => 'many' is not a number
--set-upper-bound nothing:1 => no node computes 'nothing'
$ tune digits.onnx -c tune.yaml -o out.onnx
--set 'verify.accuracy=1%' => not to verify.accuracy
$ tune digits.onnx -c tune.yaml -o out.onnx --set
tune.formats=[float15] => there is no format 'float15'
'tune.formats=[{{mine: {{quantize-weight: {{}}}}}}]' => quantize-weight
'tune.groups={{a: {{nodes: [absent]}}}}' => the group 'a': 'nodes' names 'absent'
'tune.groups={{a: {{after: [absent]}}}}' => the group 'a': 'after' names 'absent'
'tune.groups={{a: {{operators: [Cnov]}}}}' => the group 'a': 'operators' names 'Cnov'
"tune.groups={{a: {{}}, b: {{nodes: ['*']}}}}" => the group 'b' has no nodes
"tune.groups={{a: {{nodse: ['*']}}}}" => nodse
"tune.groups={{a: {{nodes: ['*'], formats: [int3]}}}}" => unknown format 'int3'
'tune.formats=[{{a: {{quantize-static: {{nodes: [x]}}}}}}]' => the format 'a' names nodes
'tune.formats=[{{a: {{quantize-static: [1]}}}}]' => the options of 'quantize-static' are a list
'tune.formats=[{{a: [eliminate-identity, quantize-static]}}]' => changes whole models
'tune.formats=[{{float32: {{quantize-static: {{}}}}}}]' => what stays as it is
tune.objective=speed => objective
'tune.flips={{most: 0.01 %}}' => cannot show that at most
'verify.metrics={{accuracy: [0.999, 1]}}' => the original itself has accuracy
passes=[fuse-all] => tune runs no passes
tune.sample=3 => unknown key 'sample'
'reference.inputs={{image: empty.npy}}' => the data holds no samples
"""


def rows():
    """Yield the words of each case, and what is said."""
    for group in re.split(r"(?m)^\$ ?", REFUSED)[1:]:
        first, *lines = re.split(r"\n(?! )", group.rstrip("\n"))
        for line in lines:
            words, _, said = " ".join(line.split()).rpartition("=> ")
            yield pytest.param(shlex.split(f"{first} {words}"), said, id=f"{first} {words}")


@pytest.fixture
def folder(model, tmp_path):
    """The files that the words name."""
    for name, file in {
        "digits.onnx": "model.onnx",
        "images.npy": "images.npy",
        "labels.npy": "labels.npy",
    }.items():
        (tmp_path / name).symlink_to(DIGITS / file)
    onnx.save(onnx.parser.parse_model(SANITIZED), tmp_path / "sanitized.onnx")
    images = np.load(DIGITS / "images.npy")
    np.save(tmp_path / "wide.npy", images.astype(np.float64))
    np.save(tmp_path / "empty.npy", images[:0])
    np.save(tmp_path / "x.npy", np.ones((20, 4), np.float32))
    np.savez(tmp_path / "other.npz", nothing=np.ones(2))
    np.savez(tmp_path / "odd.npz", image=np.ones((1, 3, 5, 5), np.float32))
    (tmp_path / "tune.yaml").write_text(TUNE)
    (tmp_path / "no.zip").write_text("no zip")
    (tmp_path / "folder").mkdir()
    return tmp_path


def state(folder):
    return {path.name: path.is_dir() or path.read_bytes() for path in folder.iterdir()}


@each_of("words, said", *rows())
def test_what_is_wrong_is_said_and_nothing_is_written(cli, folder, words, said):
    before = state(folder)
    cli(*words).tells(2, said)
    assert state(folder) == before
