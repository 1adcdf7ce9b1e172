# SPDX-License-Identifier: Apache-2.0
"""Where the ssh connection that a module runs over comes in. Standard library only."""

from __future__ import annotations

import os
import re
from pathlib import Path


def own_address():
    """The host's own address of the connection, None when there is none.

    sudo clears the environment, so it is looked for in that of the processes above as well.
    """
    connection = os.environ.get("SSH_CONNECTION")
    pid = os.getppid()
    while not connection and pid > 1:
        try:
            pairs = Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
            parent = re.search(r"^PPid:\s*(\d+)", Path("/proc", str(pid), "status").read_text(), re.MULTILINE)
        except OSError:
            break
        for pair in pairs:
            if pair.startswith(b"SSH_CONNECTION="):
                connection = pair.partition(b"=")[2].decode()
        pid = int(parent[1]) if parent else 0
    words = (connection or "").split()
    return words[2] if len(words) == 4 else None
