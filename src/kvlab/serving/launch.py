"""Start one program of a profile: read the profile's environment and secrets, then become the program.

    python -m kvlab.serving.launch PROFILE_DIR vllm|lmcache SERVING_PYTHON

Secrets pass from their 0600 file, or from systemd's credential of it, into the environment here, so they never stand
in a configuration of the process manager nor in anybody's arguments.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.objectscale import s3 as object_store
from kvlab.serving import kv_folder
from kvlab.serving.manager import RUNNING, STARTING
from kvlab.serving.supervisor import Supervisor


def read_env(file: Path) -> dict[str, str]:
    """KEY=VALUE lines of an environment file; blank lines and # comments are passed over."""
    lines = (line.strip() for line in file.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def _fresh_tier(profile: dict[str, Any], env: dict[str, str]) -> None:
    """Empty what an earlier server stored: its slots are nameless, and their index died with it."""
    if profile.get("file_path"):
        folder = Path(profile["file_path"])
        count = kv_folder.fresh(folder, direct_io=profile["direct_io"], mounted=not profile["simulated"])
        print(f"folder {folder} is empty ({count} files of an earlier server removed)", flush=True)
        return
    endpoint, bucket = str(profile["endpoint"]), str(profile["bucket"])
    client = object_store.client(endpoint, env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"])
    try:
        removed = object_store.empty(client, bucket)
    except Exception as error:
        raise object_store.explain(error, endpoint) from error
    print(f"bucket {bucket} is empty ({removed} objects of an earlier server removed)", flush=True)


def restart_vllm_of(profile: str) -> None:
    """Restart a vLLM that runs while its LMCache server starts: the server died and supervisor starts it again.

    vLLM registers with the server once and may not notice a quick restart; it would then serve without a cache,
    and nobody would see it. Under systemd BindsTo= does this.
    """
    if "SUPERVISOR_ENABLED" not in os.environ:
        return
    supervisor = Supervisor(Path.cwd())
    name = f"vllm-{profile}"
    if any(p.name == name and p.state in (RUNNING, STARTING) for p in supervisor.programs()):
        print(f"{name} runs from before this start and is restarted with it", flush=True)
        supervisor.stop_program(name)
        supervisor.start_program(name)


def _secret(folder: Path) -> Path:
    """The secrets: as systemd's credential, where the service's user may not read the file itself, else the file."""
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    passed = Path(credentials, "secret.env") if credentials else None
    return passed if passed and passed.exists() else folder / "secret.env"


def _holds_files(profile: dict[str, Any], program: str) -> bool:
    """Whether vLLM itself, with LMCache inside, keeps the index of a pool of files."""
    return program == "vllm" and profile.get("mode") == "in-process" and bool(profile.get("file_path"))


def _own(python: str) -> str:
    """The interpreter by the folder of its environment, not by a link to it.

    A process imports modules for as long as it lives; after a switch of the link they would be another version's.
    """
    path = Path(python)
    return str(path.parent.resolve() / path.name)


def main(argv: list[str]) -> None:
    """Replace this process by the program. Raises KvlabError when the profile cannot be read or used."""
    folder, program, python = Path(argv[0]), argv[1], _own(argv[2])
    profile = json.loads((folder / "profile.json").read_text())
    env = {**os.environ, **read_env(folder / "env")}
    secret = _secret(folder)
    if secret.exists():
        env |= read_env(secret)
    if program == "lmcache" or _holds_files(profile, program):
        _fresh_tier(profile, env)
    if program == "lmcache":
        restart_vllm_of(folder.name)
        # A killed server leaves its shared memory behind; a new one of the same name would refuse to start.
        Path("/dev/shm", profile["shm_name"]).unlink(missing_ok=True)
    arguments = json.loads((folder / f"{program}.args").read_text())
    os.execve(python, [python, *arguments], env)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KvlabError as problem:
        sys.exit(f"kvlab: {problem}")
