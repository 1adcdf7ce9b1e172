"""kvlab gate: has TTFT regressed between two runs, and how far can that verdict be trusted."""

from __future__ import annotations

import json
from typing import Any

import click


@click.group()
def command() -> None:
    """Judge whether TTFT has regressed."""


@command.command()
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
@click.option("--runs", default=2000, show_default=True, help="Series to draw.")
@click.option("--seed", default=1, show_default=True)
@click.option("--starts", default=5, show_default=True, help="Starts a side.")
@click.option("--start-spread", default=0.03, show_default=True, help="Between starts; a share of the TTFT.")
@click.option("--pass-noise", default=0.03, show_default=True, help="Between passes of one start.")
def simulate(
    as_json: bool, runs: int, seed: int, starts: int, start_spread: float, pass_noise: float
) -> None:
    """False alarms and detection of the gate, and of other rules, on synthetic series (simulated)."""
    from kvlab.ttft import simulate as simulation

    world = simulation.World(starts=starts, start_spread=start_spread, pass_noise=pass_noise)
    found = simulation.simulate(world, runs=runs, seed=seed)
    click.echo(
        f"{runs} synthetic series, {starts} starts a side, {world.profiles} profiles x {world.contexts} contexts"
    )
    click.echo(
        f"{'rule':24}{'false alarms':>14}{'profile +10 %':>15}{'+20 %':>8}{'cell +10 %':>12}{'+20 %':>8}"
    )
    for name, rates in {"gate": found, **found["rivals"]}.items():
        click.echo(_row(name, rates))
    if as_json:
        click.echo(json.dumps(found))


def _row(name: str, rates: dict[str, Any]) -> str:
    profile, cell = rates["detection_rate"], rates["cell_detection_rate"]
    return (
        f"{name:24}{rates['false_alarm_rate']:14.2%}{profile['10%']:15.2%}{profile['20%']:8.1%}"
        f"{cell['10%']:12.2%}{cell['20%']:8.1%}"
    )
