#!/usr/bin/env python3
"""Stand-in for `lsmod`."""

from __future__ import annotations

import kernel_modules
from standin import log_call

log_call()
print("Module                  Size  Used by")
for name in reversed(kernel_modules.loaded()):
    print(f"{name:<24}65536  0")
