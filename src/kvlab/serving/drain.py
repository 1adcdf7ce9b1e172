"""Wait until vLLM has no request: `python -m kvlab.serving.drain URL SECONDS`, before it is stopped for another.

It keeps nobody from sending more: that is done where requests come from. Says on stdout what it saw.
"""

from __future__ import annotations

import sys
import time

from kvlab.probes import lmcache_mp
from kvlab.probes.host import vllm


def requests(url: str) -> int | None:
    """Requests that run or wait, or None where no vLLM answers."""
    try:
        now = vllm.counts(lmcache_mp.parse(vllm.get(f"{url}/metrics")))
    except OSError:
        return None
    return int(now["running"] + now["waiting"])


def wait(url: str, timeout_s: float, poll_s: float = 0.5) -> str:
    """Wait for two readings in a row without a request, at most `timeout_s`; the sentence says how it ended."""
    begin = time.monotonic()
    quiet = 0
    while True:
        left = requests(url)
        if left is None:
            return f"no vLLM answers at {url}, so there is nothing to wait for"
        quiet = 0 if left else quiet + 1
        waited = time.monotonic() - begin
        if quiet == 2:
            return f"no request is on its way after {waited:.0f} s"
        if waited > timeout_s:
            return f"{left} request(s) are still on their way after {waited:.0f} s, and are cut off"
        time.sleep(poll_s)


if __name__ == "__main__":
    print(wait(sys.argv[1], float(sys.argv[2])))
