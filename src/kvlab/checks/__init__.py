"""Judges: pure functions from facts to findings, by stable id."""
