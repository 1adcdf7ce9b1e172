"""NIXL's OBJ plugin in this environment: where it is, and why the loader refuses it."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


def find() -> Path | None:
    """The plugin's file, or None when the environment's wheels hold none.

    The wheel holds two copies; NIXL loads the one beside the libraries of its own build.
    """
    for folder in map(Path, sys.path):
        for candidate in sorted(folder.glob(".nixl_cu*.mesonpy.libs/plugins/libplugin_OBJ.so")):
            return candidate
    return None


def load_error(plugin: Path) -> str | None:
    """The loader's own words for why `plugin` cannot be loaded; None when it can."""
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        return str(error)
    return None
