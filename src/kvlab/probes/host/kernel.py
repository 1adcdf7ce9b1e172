"""The running kernel, its modules and what may change them; topic `kernel` (see checks.kernel)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kvlab.probes.host.tools import names, natural, root, said, text

WORTH_KEEPING = re.compile(
    r"nvidia|NVRM|Xid|mlx5|peermem|ib_core|rejected|disagrees|Unknown symbol", re.IGNORECASE
)
LINES = 200

_DKMS = re.compile(
    r"^(?P<module>[^/,:]+)[/,]\s*(?P<version>[^,:]+)(?:,\s*(?P<kernel>[^,:]+),\s*[^,:]+)?:\s*(?P<state>\w+)"
)
_BLOCKED = re.compile(r'^Unattended-Upgrade::Package-Blacklist::\S* "(.+)";$', re.MULTILINE)
_PERIODIC = re.compile(r'^APT::Periodic::Unattended-Upgrade "(\d+)";$', re.MULTILINE)
_MOK = re.compile(r"^\s*mok_certificate\s*=\s*(\S+)", re.MULTILINE)


def collect(job: Any) -> dict[str, Any]:
    """Facts about kernel and modules."""
    proc, sysfs = root(job, "proc"), root(job, "sysfs")
    release = text(proc / "sys/kernel/osrelease") or text(Path("/proc/sys/kernel/osrelease")) or ""
    apt = said("apt-config", "dump") or ""
    periodic = _PERIODIC.search(apt)
    secure = secure_boot(sysfs)
    return {
        "release": release,
        "newest_installed": newest(names(Path("/boot")) or []),
        "headers": Path("/lib/modules", release, "build").exists(),
        "cmdline": (text(proc / "cmdline") or "").split(),
        "modules": modules(text(proc / "modules") or "", sysfs),
        "secure_boot": secure,
        "module_key_enrolled": key_enrolled() if secure else None,
        "dkms": dkms(said("dkms", "status") or ""),
        "ofa_kernel": _target(Path("/usr/src/ofa_kernel/default")),
        "log": kernel_log(),
        "unattended_upgrades": bool(periodic and periodic[1] != "0"),
        "upgrade_blocklist": _BLOCKED.findall(apt),
        "held": (said("apt-mark", "showhold") or "").split(),
    }


def newest(boot: list[str]) -> str | None:
    """The newest release among /boot's kernels; None when there is none (a container)."""
    releases = [name.partition("-")[2] for name in boot if name.startswith("vmlinuz-")]
    return max(releases, key=natural, default=None)


def modules(listing: str, sysfs: Path) -> dict[str, Any]:
    """/proc/modules with each module's version and holders."""
    found = {}
    for line in listing.splitlines():
        words = line.split()
        if len(words) >= 4:
            holders = [name for name in words[3].split(",") if name and name != "-"]
            found[words[0]] = {"version": text(sysfs / "module" / words[0] / "version"), "holders": holders}
    return found


def secure_boot(sysfs: Path) -> bool | None:
    """Whether secure boot is on; off without EFI, None when it cannot be seen."""
    said_so = said("mokutil", "--sb-state")
    if said_so is not None:
        return "enabled" in said_so.lower()
    variables = sysfs / "firmware/efi/efivars"
    if not variables.is_dir():
        return False
    try:
        data = next(variables.glob("SecureBoot-*")).read_bytes()
    except (StopIteration, OSError):
        return None
    return data[-1:] == b"\x01"


def key_enrolled() -> bool | None:
    """Whether the key that DKMS signs with is enrolled; mokutil fails where it is, so both streams count."""
    config = text(Path("/etc/dkms/framework.conf")) or ""
    named = _MOK.search(config)
    key = named[1] if named else "/var/lib/dkms/mok.pub"
    if not Path(key).exists():
        return None
    enrolled = said("mokutil", "--list-enrolled")
    answer = said("mokutil", "--test-key", key)
    if answer is not None:
        return "is already enrolled" in answer
    # --test-key ends with status 1 for a key that is enrolled.
    return None if enrolled is None else True


def dkms(listing: str) -> list[dict[str, str]]:
    """`dkms status`, of old releases (commas) and new ones (a slash)."""
    found = []
    for line in listing.splitlines():
        match = _DKMS.match(line.strip())
        if match:
            found.append(
                {name: (match[name] or "").strip() for name in ("module", "version", "kernel", "state")}
            )
    return found


def kernel_log() -> list[str] | None:
    """Lines about drivers in the kernel's log, the newest; None when it is not for us."""
    log = said("dmesg")
    if log is None:
        return None
    return [line for line in log.splitlines() if WORTH_KEEPING.search(line)][-LINES:]


def _target(link: Path) -> str | None:
    return str(link.resolve()) if link.exists() else None
