"""A probe on another machine: what to bring there, the shell command that runs it, and its facts out of the answer.

The probes that run are those of the caller, never those of a package that the host happens to have: one zip file of
a hundred kilobytes, which Python imports as it is. How a command gets to the host is the caller's matter.
"""

from __future__ import annotations

import base64
import io
import json
import shlex
import zipfile
from collections.abc import Mapping
from pathlib import Path

from kvlab.errors import KvlabError
from kvlab.probes import Facts, Job, facts_of

_PACKAGE = Path(__file__).resolve().parents[1]
_LOWER_FLOORS = ("__init__.py", "errors.py")
# Linux takes 128 KiB for one argument (MAX_ARG_STRLEN), and the command around the job is far below the rest.
_MAX_JOB_BYTES = 90_000


def archive(*packages: str) -> bytes:
    """A zip of the probes and the modules under them, the same bytes for the same sources; `packages` are added to it.

    Name a package of kvlab such as "objectscale" for a probe that needs more than the standard library anyway.
    """
    files = [_PACKAGE / name for name in _LOWER_FLOORS]
    for package in ("probes", *packages):
        files += sorted((_PACKAGE / package).glob("*.py"))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        for file in files:
            entry = zipfile.ZipInfo(str(Path("kvlab") / file.relative_to(_PACKAGE)), (2026, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            bundle.writestr(entry, file.read_bytes())
    return out.getvalue()


def command(
    name: str,
    job: Job,
    python: str,
    place: str,
    *,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120,
) -> str:
    """The POSIX shell command that runs probe `name` from the zip at `place`; its stdout is the facts.

    The job travels in the command, so it must hold no secret (probes take the path of a secrets file), and must fit
    into one argument: KvlabError above that.
    """
    text = json.dumps(job)
    if len(text) > _MAX_JOB_BYTES:
        raise KvlabError(
            f"The job for probe {name} has {len(text)} bytes, over {_MAX_JOB_BYTES}; give it in several jobs."
        )
    sent = base64.b64encode(text.encode()).decode()
    settings = [f"{key}={value}" for key, value in {**(env or {}), "PYTHONPATH": place}.items()]
    run = ["env", *settings, "PYTHONDONTWRITEBYTECODE=1"]
    run += ["timeout", "--kill-after=5", f"{timeout_s:.0f}", python, "-m", f"kvlab.probes.{name}"]
    return f"printf %s {sent} | base64 -d | {shlex.join(run)}"


def facts(name: str, status: int, stdout: str, stderr: str, *, host: str, timeout_s: float) -> Facts:
    """The facts out of what the command printed. Raises KvlabError that names the host, with the end of stderr."""
    if status == 124:
        raise KvlabError(f"The probe {name} on {host} did not finish within {timeout_s:.0f} s.")
    return facts_of(f"{name} on {host}", status, stdout, stderr)
