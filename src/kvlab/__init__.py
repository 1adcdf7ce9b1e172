"""kvlab: the test lab for KV-cache offload to Dell ObjectScale."""

__version__ = "0.1.0"
