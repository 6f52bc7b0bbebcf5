"""Check the model against the ONNX standard."""

import onnx
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.errors import ModelError
from onnx_passes.passes.common.large_tensors import weightless_proto


@passes.register("checker")
@passes.register("analysis")
class ModelChecker(passes.Analysis):
    """Check the model against the ONNX standard.

    Finds: whether onnx's checker accepts the model; if not, an error says where. Big weights
    are not serialised for it, their contents are not looked at.

    Attributes:
        full_check: Infer shapes as well, and compare them with those declared.
        skip_opset_compatibility_check: Accept functions that import another opset version.
        check_custom_domain: Also demand that operators of custom domains are registered.
    """

    full_check: bool = False
    skip_opset_compatibility_check: bool = False
    check_custom_domain: bool = False

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the checker."""
        try:
            onnx.checker.check_model(
                weightless_proto(model),
                full_check=self.full_check,
                skip_opset_compatibility_check=self.skip_opset_compatibility_check,
                check_custom_domain=self.check_custom_domain,
            )
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise ModelError(
                f"the model is not valid ONNX: {lines[0] if lines else 'no reason given'}",
                where="\n".join(f"  {line}" for line in lines[1:]) or None,
                help="correct the model where it was made",
            ) from error
        return ir.passes.PassResult(model, modified=False)
