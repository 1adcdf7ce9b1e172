#!/usr/bin/env python3
"""Stand-in for `update-initramfs -u`: takes the blacklist of /etc/modprobe.d as it is now to the next boot.

State: initramfs/blacklist, one module a line.
"""

from __future__ import annotations

import kernel_modules
from standin import folder, log_call

log_call()
home = folder() / "initramfs"
home.mkdir(parents=True, exist_ok=True)
lines = [
    line.split()
    for path in sorted((kernel_modules.root() / "etc/modprobe.d").glob("*.conf"))
    for line in path.read_text().splitlines()
]
names = sorted({words[1] for words in lines if len(words) == 2 and words[0] == "blacklist"})
(home / "blacklist").write_text("".join(f"{name}\n" for name in names))
