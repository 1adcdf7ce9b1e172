"""Each inventory gives every role of site.yml what it requires: a lab must not stop at a variable that nobody named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PHASES = ("preflight", "storage", "gpu_hosts", "serving")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def roles() -> dict[tuple[str, str], str]:
    """Roles of site.yml's phases and their entry points, with the condition that they run under; empty for none."""
    found: dict[tuple[str, str], str] = {}
    for phase in PHASES:
        for play in read(ROOT / f"playbooks/{phase}.yml"):
            steps = [{"name": one["role"], "when": ""} for one in play.get("roles", [])]
            for task in play.get("tasks", []):
                if role := task.get("ansible.builtin.import_role"):
                    steps.append({**role, "when": str(task.get("when", ""))})
            for step in steps:
                found[step["name"].removeprefix("kvlab.lab."), step.get("tasks_from", "main")] = step["when"]
    return found


def variables(inventory: str) -> dict[str, Any]:
    """Every variable of an inventory, of whatever group or host."""
    found: dict[str, Any] = {}
    for path in sorted((ROOT / "inventories" / inventory).rglob("*_vars/**/*.yml")):
        found |= read(path) or {}
    return found


def runs(when: str, given: dict[str, Any]) -> bool:
    """Whether a role's condition, switches of the inventory, is met."""
    met = True
    for one in when.split(" and "):
        if switch := re.fullmatch(r"(\w+) \| bool", one):
            met = met and bool(given[switch[1]])
        elif mode := re.fullmatch(r"(\w+) == '(\w+)'", one):
            met = met and given[mode[1]] == mode[2]
    return met


@pytest.mark.parametrize("inventory", ["local", "example-xe9680", "replica"])
def test_every_required_variable_of_every_role_that_runs_is_given(inventory: str) -> None:
    given = variables(inventory)
    asked = 0
    missing = []
    for (role, entry), when in roles().items():
        options = read(ROOT / f"roles/{role}/meta/argument_specs.yml")["argument_specs"][entry]["options"]
        required = [name for name, option in options.items() if option.get("required")]
        asked += len(required)
        missing += [name for name in required if runs(when, given) and name not in given]
    assert asked > 20
    assert not missing


def test_a_lab_that_is_served_elsewhere_builds_and_starts_nothing_and_is_described() -> None:
    given = variables("local") | {"kvlab_serving_mode": "external"}
    left = {one for one, when in roles().items() if runs(when, given)}
    assert ("serving", "external") in left
    assert not left & {
        (role, "main") for role in ("inference_stack", "model_store", "kv_profiles", "serving")
    }
    managed = {one for one, when in roles().items() if runs(when, variables("local"))}
    assert managed >= {
        (role, "main") for role in ("inference_stack", "model_store", "kv_profiles", "serving")
    }
    assert ("serving", "external") not in managed


@pytest.mark.parametrize("inventory", ["local", "example-xe9680", "replica"])
def test_no_variable_of_a_role_is_misspelt(inventory: str) -> None:
    """A variable with a role's prefix that the role does not know would be passed over without a word."""
    known: dict[str, set[str]] = {}
    for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        specs = read(path)["argument_specs"].values()
        known[path.parent.parent.name] = {name for spec in specs for name in spec.get("options", {})}
    strange = []
    for name in variables(inventory):
        owners = [role for role in known if name.startswith(f"{role}_")]
        if owners and not any(name in known[role] for role in owners):
            strange.append(name)
    assert not strange
