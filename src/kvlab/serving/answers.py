"""Wait until a unit's program answers: `python -m kvlab.serving.answers URL SECONDS`, for ExecStartPost.

With it a unit is active when it serves, not when its process exists; what is ordered after it can rely on that.
Ends early, with status 1, when the program ($MAINPID, as systemd gives it) has ended.
"""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path


def answers(url: str, timeout_s: float = 3.0) -> bool:
    """Whether an HTTP server answers at `url` with a status below 500 (the object store says 403 to a stranger)."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as reply:
            return bool(reply.status < 500)
    except urllib.error.HTTPError as error:
        return error.code < 500
    except (OSError, ValueError):
        return False


def wait(url: str, timeout_s: float, pid: str, poll_s: float = 0.5) -> str | None:
    """Wait for an answer; None when it came, else the sentence that says why not. An empty `pid` is not watched."""
    deadline = time.monotonic() + timeout_s
    while not answers(url):
        if pid and not Path("/proc", pid).exists():
            return f"the program ended before {url} answered"
        if time.monotonic() > deadline:
            return f"{url} does not answer after {timeout_s:.0f} s"
        time.sleep(poll_s)
    return None


if __name__ == "__main__":
    problem = wait(sys.argv[1], float(sys.argv[2]), os.environ.get("MAINPID", ""))
    sys.exit(f"kvlab: {problem}" if problem else 0)
