"""Collectors: they emit JSON and decide nothing. Standard library only at import."""
