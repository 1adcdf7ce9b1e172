"""kvlab rollback: a host serves again with what served before."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("rollback")
@click.argument("host")
@click.option(
    "-i",
    "--inventory",
    type=click.Path(path_type=Path),
    default=Path("inventories/local"),
    show_default=True,
    help="Inventory of the lab.",
)
@click.option("--check", is_flag=True, help="Say what would be done, and do nothing.")
def command(host: str, inventory: Path, check: bool) -> None:
    """Let HOST serve again with the environment and the profiles that served before.

    Requests end first, both links switch back, vLLM starts, and a prompt is sent twice. The inventory is not changed.
    """
    import subprocess
    import sys

    from kvlab.doctor import hosts
    from kvlab.errors import KvlabError

    if not inventory.exists():
        raise KvlabError(f"there is no inventory {inventory}; name one with -i (inventories/ holds some).")
    known = [one.name for one in hosts.of_inventory(inventory)]
    if host not in known:
        raise KvlabError(f"{inventory} has no GPU host {host}; it has: {hosts_said(known)}.")
    playbook = Path("playbooks/rollback.yml")
    if not playbook.exists():
        raise KvlabError(f"{playbook} is not here; run this in the checkout of kvlab.")
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    words = [program, str(playbook), "-i", str(inventory), "--limit", host, *(["--check"] if check else [])]
    done = subprocess.run(words, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise KvlabError(f"{host} was not brought back; the play above says why.")


def hosts_said(names: list[str], most: int = 8) -> str:
    """Host names for a sentence; of many the first."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
