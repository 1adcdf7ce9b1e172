"""Switching the one running profile of a small lab."""

from __future__ import annotations

from kvlab.errors import KvlabError
from kvlab.serving import health, manager
from kvlab.serving.lab import Lab
from kvlab.serving.manager import RUNNING, STARTING


def programs_of(lab: Lab, name: str) -> list[tuple[str, str, float]]:
    """(program, health URL, longest start in seconds) of a profile, in the order in which they start."""
    if name not in lab.profiles:
        raise KvlabError(
            f"there is no profile {name!r} in this lab; choose one of: {', '.join(lab.profiles)}"
        )
    return [(p["name"], p["url"], float(p["timeout"])) for p in lab.profiles[name]["programs"]]


def running(lab: Lab) -> str | None:
    """The profile whose vLLM runs now, or None; so in a lab that is down."""
    programs = manager.of(lab)
    for program in programs.programs() if programs.alive() else ():
        if program.name.startswith("vllm-") and program.state in (RUNNING, STARTING):
            return program.name.removeprefix("vllm-")
    return None


def user_of(lab: Lab, bucket: str) -> str | None:
    """The profile that runs now and uses the bucket, or None."""
    name = running(lab)
    return name if name and lab.profiles[name].get("bucket") == bucket else None


def stop_all(lab: Lab, keep: frozenset[str] = frozenset()) -> None:
    """Stop every vLLM and LMCache server of the lab but those named in `keep`."""
    programs = manager.of(lab)
    for program in sorted(programs.programs(), key=lambda p: p.name, reverse=True):
        if program.name.startswith(("vllm-", "lmcache-")) and program.name not in keep:
            programs.stop_program(program.name)


def use(lab: Lab, name: str, restart: bool = True, progress: health.Progress | None = None) -> None:
    """Make `name` the one running profile and wait until it serves.

    With `restart` its programs start afresh (the LMCache server then begins with an empty bucket); without it a
    profile that runs is left alone. Raises KvlabError with the log's last lines when a program does not come up.
    """
    programs = manager.of(lab)
    if not programs.alive():
        raise KvlabError("the lab is down; run ./lab up")
    wanted = programs_of(lab, name)
    keep = frozenset() if restart else frozenset(program for program, _, _ in wanted)
    stop_all(lab, keep)
    for program, url, limit in wanted:
        programs.start_program(program)
        took = health.wait(programs, program, url, limit, progress)
        if progress:
            progress(f"{program}: serves after {took:.0f} s")
