# SPDX-License-Identifier: Apache-2.0
"""Kernel modules: what is loaded, by sysfs, and what is on disk, by modinfo and modprobe. Standard library only."""

from __future__ import annotations

from pathlib import Path

FIELDS = ("filename", "version", "srcversion", "license", "depends", "vermagic")


def plain(name):
    """A module's name as the kernel writes it: nvidia_peermem for nvidia-peermem."""
    return name.replace("-", "_")


def loaded(sysfs_root, name):
    """{"version", "srcversion", "holders"} of a loaded module, None when it is not loaded.

    A module without MODULE_VERSION shows neither version nor, on many kernels, srcversion: both are None then.
    """
    home = Path(sysfs_root, "module", plain(name))
    if not home.is_dir():
        return None
    holders = home / "holders"
    return {
        "version": _text(home / "version"),
        "srcversion": _text(home / "srcversion"),
        "holders": sorted(path.name for path in holders.iterdir()) if holders.is_dir() else [],
    }


def parse_modinfo(text):
    """`modinfo NAME` as {field: value} of FIELDS; what it does not print is None, `depends` is a list."""
    found = dict.fromkeys(FIELDS)
    for line in text.splitlines():
        field, colon, value = line.partition(":")
        if colon and field in FIELDS and found[field] is None:
            found[field] = value.strip() or None
    found["depends"] = (found["depends"] or "").split(",") if found["depends"] else []
    return found


def parse_modversions(text):
    """`modprobe --dump-modversions FILE` as {symbol: CRC}."""
    return {words[1]: words[0] for words in map(str.split, text.splitlines()) if len(words) == 2}


def parse_symvers(text):
    """A Module.symvers as {symbol: CRC}; its columns are CRC, symbol, module, kind and namespace."""
    rows = (line.split("\t") for line in text.splitlines())
    return {row[1]: row[0] for row in rows if len(row) >= 3}


def is_stale(running, on_disk):
    """Whether the loaded module is another one than the file that would be loaded now.

    srcversion is a hash over the sources and decides where both have one or only one has; else the version decides.
    """
    if running is None or on_disk is None:
        return False
    if running["srcversion"] or on_disk["srcversion"]:
        return running["srcversion"] != on_disk["srcversion"]
    return running["version"] != on_disk["version"]


def _text(path):
    return path.read_text().strip() or None if path.is_file() else None
