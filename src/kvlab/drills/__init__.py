"""Drills: break one thing on purpose, and see whether the right check names it; see kvlab.drills.drill."""
