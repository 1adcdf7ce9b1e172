"""TTFT as a repeatable measurement: results, statistics and a gate (docs/ttft.md)."""
