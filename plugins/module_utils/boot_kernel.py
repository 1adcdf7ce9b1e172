# SPDX-License-Identifier: Apache-2.0
"""Installed kernels and loaded modules of a host. Standard library only."""

from __future__ import annotations

import re
from pathlib import Path


def version_key(release):
    """Sorts kernel releases as people read them, 6.8.0-9 before 6.8.0-45; each number by its value."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[A-Za-z]+", release)
    ]


def newest_kernel(folder):
    """Release of the newest kernel image in /boot, or None. Rescue images of RHEL are no kernels to boot."""
    releases = [
        path.name.partition("-")[2] for path in Path(folder).glob("vmlinuz-*") if "rescue" not in path.name
    ]
    return max(releases, key=version_key) if releases else None


def loaded_modules(proc_root):
    """Names in /proc/modules, sorted; none where the kernel has no modules."""
    try:
        lines = Path(proc_root, "modules").read_text("utf-8").splitlines()
    except OSError:
        return []
    return sorted(line.split()[0] for line in lines if line.strip())
