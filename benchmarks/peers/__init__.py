"""The pass library beside other optimisers, on the same models in the same run."""
