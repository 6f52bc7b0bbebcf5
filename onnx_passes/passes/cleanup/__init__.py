"""Passes that leave what is computed alone and put the model in order."""
