"""How long a run of site.yml takes that finds nothing to do: ci/bench_replica.py [HOSTS ...] (default 1 4)

For each number of GPU hosts: makes a replica, converges it (without vLLM), runs site.yml twice more and removes it. The
goal is 180 s for four hosts on 2 cores. Needs root; a converge of four hosts takes some minutes. Simulated.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGED = re.compile(r"^\S+\s+: .*changed=(\d+).*failed=(\d+)", re.MULTILINE)


def play(*words: str) -> tuple[float, str]:
    """Seconds that a playbook took, and its output."""
    command = [str(Path(sys.executable).with_name("ansible-playbook")), *words]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        print(done.stdout[-3000:], done.stderr[-1000:], sep="\n")
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}")
    return time.monotonic() - began, done.stdout


def main() -> int:
    """Print one line a number of hosts; 1 when a run that should find nothing to do changed something."""
    changed = 0
    site = ("site.yml", "-i", "inventories/replica", "-e", "kvlab_serve=false")
    for hosts in [int(word) for word in sys.argv[1:]] or [1, 4]:
        play("playbooks/replica.yml", "-e", "replica_state=absent")
        try:
            made, _ = play("playbooks/replica.yml", "-e", f"replica_nodes={hosts}")
            first, _ = play(*site)
            again = [play(*site) for _ in range(2)]
        finally:
            play("playbooks/replica.yml", "-e", "replica_state=absent")
        changed += sum(int(count) for _, output in again for count, _ in CHANGED.findall(output))
        no_op = ", ".join(f"{seconds:.0f}" for seconds, _ in again)
        print(
            f"simulated: {hosts} hosts: made {made:.0f} s, converged {first:.0f} s, again {no_op} s",
            flush=True,
        )
    if changed:
        print(f"runs that should find nothing to do changed {changed} things")
    return int(changed > 0)


if __name__ == "__main__":
    sys.exit(main())
