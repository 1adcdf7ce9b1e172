"""Geometry, keys, rendering and linting of a KV cache."""
