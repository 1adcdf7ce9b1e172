"""What is installed, in which a lab drifts; topic `packages`. No check judges it; `kvlab drift` compares."""

from __future__ import annotations

from typing import Any

from kvlab.probes.host.tools import dpkg, said

PATTERNS = ("nvidia-*", "libnvidia-*", "cuda-*", "libcu*", "gds-tools*", "doca-*", "mlnx-*", "mft*", "rdma-core",
            "ibverbs-*", "perftest", "linux-image-*", "linux-headers-*")  # fmt: skip


def collect(_job: Any) -> dict[str, Any]:
    """Packages of the platform and their versions, by dpkg or else rpm."""
    found = dpkg(*PATTERNS)
    if not found:
        listed = said("rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n") or ""
        words = tuple(pattern.rstrip("*-") for pattern in PATTERNS)
        found = dict(line.split(" ", 1) for line in listed.splitlines() if line.startswith(words))
    return {"packages": found}
