"""Collectors: each emits one JSON document of facts and decides nothing (the checks do).

A probe is a function and a program: `python -m kvlab.probes.<name>` reads its job as JSON on stdin and prints
its facts as JSON on stdout. Every document carries `schema`, `probe` and `simulated` (true, false, or null
where the probe cannot know). Modules here import only the standard library at their top, since they also run
in the serving environment, which has neither boto3 nor httpx pinned for kvlab.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

from kvlab.errors import KvlabError

SCHEMA = 1

Facts = dict[str, Any]
Job = Mapping[str, Any]


def document(probe: str, simulated: bool | None, **facts: Any) -> Facts:
    """Wrap `facts` in the envelope every probe shares."""
    return {"schema": SCHEMA, "probe": probe, "simulated": simulated, **facts}


@contextmanager
def stdout_for_facts_only() -> Iterator[int]:
    """Send what libraries print on stdout to stderr; yield a descriptor of the real stdout.

    NIXL and LMCache log to stdout as well, from C++ too, so the swap is on the descriptor.
    """
    sys.stdout.flush()
    real = os.dup(1)
    os.dup2(2, 1)
    try:
        yield real
    finally:
        sys.stdout.flush()
        os.dup2(real, 1)
        os.close(real)


def main(run: Callable[[Job], Facts]) -> None:
    """Run a probe as a program: job on stdin, facts on stdout; a mistake is one line on stderr, exit 2."""
    import json

    with stdout_for_facts_only() as out:
        try:
            facts = run(json.loads(sys.stdin.read() or "{}"))
        except KvlabError as error:
            print(f"kvlab probe: {error}", file=sys.stderr)
            raise SystemExit(error.exit_code) from error
        with os.fdopen(os.dup(out), "w") as stream:
            json.dump(facts, stream)
            stream.write("\n")


def key_pair(secrets_file: str) -> tuple[str, str]:
    """Access key and secret key from the lab's 0600 file."""
    import json
    from pathlib import Path

    secrets = json.loads(Path(secrets_file).read_text())
    return str(secrets["access_key"]), str(secrets["secret_key"])


def use_key_pair(secrets_file: str) -> None:
    """Put the key pair where the AWS SDK looks for it; os.environ reaches C++ through putenv."""
    os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = key_pair(secrets_file)


def run_probe(
    name: str, job: Job, python: str, *, env: Mapping[str, str] | None = None, timeout_s: float = 120
) -> Facts:
    """Run probe `name` with another interpreter and return its facts.

    `env` replaces the environment apart from PATH, HOME and PYTHONPATH. A probe that dies raises KvlabError
    with the end of its stderr, where NIXL and LMCache give their reasons.
    """
    import json
    from pathlib import Path

    source = str(Path(__file__).resolve().parents[2])
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "LANG")}
    try:
        done = subprocess.run(
            [python, "-m", f"kvlab.probes.{name}"],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env={**kept, **(env or {}), "PYTHONPATH": source},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise KvlabError(f"The probe {name} did not finish within {timeout_s:.0f} s.") from error
    return facts_of(name, done.returncode, done.stdout, done.stderr)


def facts_of(what: str, status: int, stdout: str, stderr: str) -> Facts:
    """The facts of a probe that has ended, with the end of its stderr; KvlabError when it did not end well."""
    import json

    lines = stderr.strip().splitlines()
    if status != 0:
        raise KvlabError("\n".join([f"The probe {what} ended with status {status}:", *lines[-12:]]))
    try:
        facts: Facts = json.loads(stdout)
    except ValueError as error:
        raise KvlabError(f"The probe {what} printed no JSON: {stdout[:200]!r}.") from error
    return {**facts, "stderr_tail": lines[-20:]}
