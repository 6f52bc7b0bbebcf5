"""What holds for every test."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def reproducers_go_to_a_folder_of_their_own(tmp_path_factory):
    """Keep failures that tests provoke out of the checkout."""
    from onnx_passes.config.schema import PipelineConfig

    field = PipelineConfig.model_fields["reproducers"]
    field.default = str(tmp_path_factory.mktemp("reproducers"))
    PipelineConfig.model_rebuild(force=True)
