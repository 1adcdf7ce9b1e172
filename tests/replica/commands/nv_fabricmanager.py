#!/usr/bin/env python3
"""Stand-in for nv-fabricmanager: it ends at once where the driver is of another version, else it stays."""

from __future__ import annotations

import signal
import sys

import kernel_modules
from standin import carried_by, end, log_call

words = log_call()
version = carried_by("nvidia-fabricmanager")
if words[:1] == ["--version"]:
    print(f"Fabric Manager version is : {version}")
    sys.exit(0)
driver = kernel_modules.loaded().get("nvidia", {}).get("version")
if driver is None:
    end(
        1,
        "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do",
    )
if driver != version:
    end(
        1,
        f"fabric manager NVIDIA GPU driver interface version {version} don't match with driver version {driver}. "
        "Please update with matching NVIDIA driver package.",
    )
signal.pause()
