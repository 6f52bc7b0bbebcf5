# For type checkers: the module itself imports these when they are first used.
from onnx_passes.api.model_jobs import TuneResult as TuneResult
from onnx_passes.api.model_jobs import certify as certify
from onnx_passes.api.model_jobs import compare as compare
from onnx_passes.api.model_jobs import inspect as inspect
from onnx_passes.api.model_jobs import reduce as reduce
from onnx_passes.api.model_jobs import tune as tune
from onnx_passes.api.pipeline_runs import RunResult as RunResult
from onnx_passes.api.pipeline_runs import run as run
from onnx_passes.errors import OnnxPassesError as OnnxPassesError

__version__: str
