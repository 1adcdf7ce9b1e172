"""After the replica is removed nothing of it is left on this machine, but what was downloaded or built. Runs last."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.replica, pytest.mark.from_bare, pytest.mark.last]


def links(replica: Any) -> list[str]:
    """This machine's links that belong to the replica: bridges, and the outer ends of the nodes' links."""
    prefix = "kv" + hashlib.sha1(str(replica.state).encode(), usedforsecurity=False).hexdigest()[:6]
    return [
        link
        for link in sorted(path.name for path in Path("/sys/class/net").iterdir())
        if link.startswith(prefix)
    ]


def test_a_removed_replica_leaves_no_process_link_mount_or_secret(replica: Any) -> None:
    assert replica.processes()
    assert len(links(replica)) == 2 + 3 * len(replica.nodes) + 2
    play = replica.play("-e", "replica_state=absent", playbook="playbooks/replica.yml", inventory=None)
    assert play.rc == 0, play.stdout
    assert replica.processes() == []
    assert links(replica) == []
    assert str(replica.state) not in Path("/proc/self/mounts").read_text()
    kept = {path.name.partition("-")[0] for path in replica.state.iterdir()}
    assert kept <= {"base", "repositories", "wheels"}
