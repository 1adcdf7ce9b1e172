#!/usr/bin/env python3
"""Stand-in for Debian's `update-grub`: a shell reads GRUB's defaults and drop-ins, and a grub.cfg comes of it.

State: update-grub/defaults, a folder laid out as /etc/default (which is read when it is missing); the result is
update-grub/grub.cfg. The file update-grub/fails makes it fail with the text in it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from standin import end, folder, log_call

log_call()
home = folder() / "update-grub"
home.mkdir(exist_ok=True)
if (home / "fails").exists():
    end(1, (home / "fails").read_text())
defaults = home / "defaults" if (home / "defaults").is_dir() else Path("/etc/default")
sources = [
    path for path in [defaults / "grub", *sorted((defaults / "grub.d").glob("*.cfg"))] if path.exists()
]
script = (
    "".join(f". '{path}'\n" for path in sources) + 'echo "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"'
)
done = subprocess.run(["/bin/sh", "-ec", script], capture_output=True, text=True, check=False)
if done.returncode:
    end(done.returncode, done.stderr)
(home / "grub.cfg").write_text(f"linux /boot/vmlinuz root=UUID=0 ro {done.stdout}")
