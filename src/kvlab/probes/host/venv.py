"""The serving environment; topic `venv`. Job: {"venv": {"python", "lib_dir", and the job of probes.serving_env}}."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from kvlab.probes import shipping


def collect(job: Any) -> dict[str, Any]:
    """Facts that the environment's own interpreter finds about it."""
    asked = job["venv"]
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    if asked.get("lib_dir"):
        environment["LD_LIBRARY_PATH"] = asked["lib_dir"]
    try:
        done = subprocess.run(
            [asked["python"], "-c", shipping.BOOT], input=shipping.package("kvlab.probes.serving_env", asked),
            capture_output=True, text=True, timeout=30, check=False, env=environment,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": f"{asked['python']} could not be asked: {error}"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return {"error": f"{asked['python']} failed: {lines[-1] if lines else done.returncode}"}
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts
