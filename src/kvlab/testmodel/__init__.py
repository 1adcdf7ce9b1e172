"""The test model, and the shape of any Hugging Face model directory."""

from kvlab.testmodel.facts import ModelFacts, inspect_model

__all__ = ["ModelFacts", "inspect_model"]
