"""Whatever listens does so on loopback unless an inventory or an option says otherwise."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from kvlab.cli import kvlab

ROOT = Path(__file__).parents[2]


def addresses(pattern: str) -> Iterator[tuple[str, ipaddress.IPv4Address | ipaddress.IPv6Address]]:
    """Each variable of an address with it; a template names none of its own."""
    for file in sorted(ROOT.glob(pattern)):
        for name, value in (yaml.safe_load(file.read_text("utf-8")) or {}).items():
            for text in value if isinstance(value, list) else [value]:
                if name.endswith(("_address", "_addresses")) and "{{" not in str(text):
                    yield name, ipaddress.ip_address(text)


def test_every_role_listens_on_loopback_by_default() -> None:
    found = list(addresses("roles/*/defaults/main.yml"))
    assert {"serving_address", "kv_profiles_address", "sim_objectscale_address"} <= {
        name for name, _ in found
    }
    assert [(name, address) for name, address in found if not address.is_loopback] == []


@pytest.mark.parametrize("inventory", ["local", "example-xe9680"])
def test_an_inventory_serves_on_loopback(inventory: str) -> None:
    (address,) = [
        address
        for name, address in addresses(f"inventories/{inventory}/group_vars/all/*.yml")
        if name == "kvlab_address"
    ]
    assert address.is_loopback


def test_every_command_that_listens_does_so_on_loopback_by_default() -> None:
    context = click.Context(kvlab)
    commands = {word: kvlab.get_command(context, word) for word in kvlab.list_commands(context)}
    defaults = {
        word: option.default
        for word, command in commands.items()
        for option in (command.params if command else ())
        if isinstance(option, click.Option) and "--address" in option.opts and not option.multiple
    }
    assert {"emulator", "exporter"} <= defaults.keys()
    assert set(defaults.values()) == {"127.0.0.1"}
