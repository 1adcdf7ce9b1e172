"""Who may read the files that hold secrets; topic `files`. Job: {"secrets": [path or pattern, ...]}."""

from __future__ import annotations

import glob
import pwd
import stat
from pathlib import Path
from typing import Any


def collect(job: Any) -> dict[str, Any]:
    """Mode and owner of each file; the content is not read."""
    found = []
    for pattern in job.get("secrets") or ():
        for name in sorted(glob.glob(pattern)):  # noqa: PTH207  absolute patterns
            status = Path(name).stat()
            try:
                owner = pwd.getpwuid(status.st_uid).pw_name
            except KeyError:
                owner = str(status.st_uid)
            found.append({"path": name, "mode": f"{stat.S_IMODE(status.st_mode):04o}", "owner": owner})
    return {"secrets": found}
