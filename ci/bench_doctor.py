"""How long kvlab doctor takes on recorded facts of many hosts: ci/bench_doctor.py [HOSTS]

The facts are the good ones of tests/fixtures/facts, every tenth host with a fault. The goal is under 5 s for 64 hosts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/unit/doctor"))


def main() -> int:
    """Print the seconds of three runs; 1 when doctor does not end with 1, which the faults demand."""
    from doctor_lab import document

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    content = document(count)
    for number in range(1, count + 1, 10):
        content["hosts"][f"node{number}"]["rdma"]["lldpad"] = True
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "facts.json")
        file.write_text(json.dumps(content))
        for _ in range(3):
            began = time.monotonic()
            command = [Path(sys.executable).with_name("kvlab"), "doctor", "--facts", file]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
            print(f"{count} hosts, {file.stat().st_size / 1e6:.1f} MB: {time.monotonic() - began:.2f} s")
            if done.returncode != 1:
                print(done.stdout[-2000:], done.stderr[-2000:])
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
