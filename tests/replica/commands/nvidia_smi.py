#!/usr/bin/env python3
"""Stand-in for `nvidia-smi topo -m`: prints nvidia-smi/topo.txt; when it is empty, the host has no GPU."""

from __future__ import annotations

import sys

from standin import end, folder, log_call

if log_call() != ["topo", "-m"]:
    end(1, "this stand-in of nvidia-smi knows `topo -m` only")
matrix = folder() / "nvidia-smi/topo.txt"
if not matrix.exists():
    print(
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
        "NVIDIA driver is installed and running.\n"
    )
    sys.exit(9)
if not matrix.read_text():
    print("No devices were found")
    sys.exit(6)
print(matrix.read_text(), end="")
