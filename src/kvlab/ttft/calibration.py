"""What a lab's TTFT does when nothing changes: its spread from start to start, from A/A runs, and what a gate can see.

One JSON file for each lab. Spreads and changes are fractions of the TTFT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kvlab.errors import KvlabError
from kvlab.ttft import model, samples
from kvlab.ttft.distributions import chi2_above_quantile
from kvlab.ttft.result import Result, Scalar, comparable
from kvlab.ttft.variance import Floats
from kvlab.whole_file import aside

KIND = "kvlab-ttft-calibration"
SCHEMA = 1
MIN_STARTS = 6
"""Of each profile: two halves that the gate can judge."""
HALVINGS = 400
POWER = 0.9
SIDES = (3, 5, 10)
"""Starts a side for which the detectable change is given: the least, the usual, the nightly base."""


class Spread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one profile: standard deviation between starts with its 95 % interval, smallest change by starts a side."""

    starts: int
    spread: float
    low: float
    high: float
    detectable: dict[str, float]


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`false_alarms` is the share of random halvings of the same starts that the gate called a regression."""

    kind: str = KIND
    schema: int = SCHEMA
    fingerprint: str
    environment: dict[str, Scalar]
    created: str  # of the newest run
    simulated: bool
    runs: list[str]
    profiles: dict[str, Spread]
    halvings: int
    false_alarms: float


def calibrate(
    results: Sequence[Result], rule: model.Rule = model.PULL_REQUEST, *, seed: int = 1
) -> Calibration:
    """The calibration from A/A runs. Raises KvlabError: several environments, or too few starts."""
    if len({(result.fingerprint, result.simulated) for result in results}) != 1:
        raise KvlabError("the runs are of different environments; calibrate with runs of one.")
    found = samples.of(results, (samples.TTFT,))
    profiles = sorted({sample.profile for sample in found})
    cells = samples.cells_of(found)
    values = np.log(samples.array(found, profiles, cells))
    starts = np.isfinite(values).any(-1).sum(-1)
    for profile, count in zip(profiles, starts, strict=True):
        if count < MIN_STARTS:
            raise KvlabError(
                f"{profile} has {count} starts with proven passes, and calibration needs {MIN_STARTS}; "
                f"add runs with {MIN_STARTS - count} more."
            )
    if not profiles:
        raise KvlabError("the runs hold no start; calibrate with runs that were measured.")
    return Calibration(
        fingerprint=results[0].fingerprint,
        environment=comparable(results[0].environment),
        created=max(result.created for result in results),
        simulated=results[0].simulated,
        runs=[result.id for result in results],
        profiles={profile: _spread(values[p], len(profiles), rule) for p, profile in enumerate(profiles)},
        halvings=HALVINGS,
        false_alarms=_false_alarms(values, rule, np.random.default_rng(seed)),
    )


def applies(calibration: Calibration, environment: Mapping[str, Scalar]) -> bool:
    """Whether a calibration speaks of an environment: equal but for profiles that only one of the two measured."""
    ours, theirs = dict(calibration.environment), comparable(dict(environment))
    both = _profiles(ours) & _profiles(theirs)
    ours, theirs = (
        {key: value for key, value in one.items() if (_profiles({key: value}) or both) <= both}
        for one in (ours, theirs)
    )
    return ours == theirs


def _profiles(environment: Mapping[str, Scalar]) -> set[str]:
    """The profiles of which an environment says something, by keys such as `profile.s3-rdma.tp`."""
    return {key.split(".")[1] for key in environment if key.startswith("profile.")}


def _spread(values: Floats, profiles: int, rule: model.Rule) -> Spread:
    """Of log seconds (starts, C) of one profile."""
    means = model.mean(values - model.mean(values, -2), -1)
    means = means[np.isfinite(means)]
    df = len(means) - 1
    spread = float(means.std(ddof=1))
    low, high = spread * np.sqrt(df / chi2_above_quantile([0.025, 0.975], df))
    detectable = {}
    for side in SIDES:
        # The gate pools what its profiles say about the spread.
        freedom = np.asarray(float(profiles * (2 * side - 2)))
        shifts = model.Shifts(np.asarray(0.0), np.asarray(spread * np.sqrt(2 / side)), freedom)
        level = rule.profiles_level / profiles
        detectable[str(side)] = round(float(shifts.detectable(level, POWER, rule.size)), 5)
    return Spread(
        starts=len(means),
        spread=round(spread, 6),
        low=round(float(low), 6),
        high=round(float(high), 6),
        detectable=detectable,
    )


def _false_alarms(values: Floats, rule: model.Rule, rng: np.random.Generator) -> float:
    """Share of random halvings of the starts, profile by profile, that the gate calls a regression."""
    _, starts, _ = values.shape
    order = rng.random((HALVINGS, *values.shape[:2]))
    order[:, ~np.isfinite(values).any(-1)] = 2.0  # starts that a profile lacks go last
    shuffled = np.take_along_axis(values[None], np.argsort(order, -1)[..., None], -2)
    judged = model.judge(shuffled[:, :, 0:starts:2], shuffled[:, :, 1:starts:2], rule)
    return round(float((judged.overall == model.REGRESS).mean()), 5)


def write(calibration: Calibration, path: Path) -> None:
    """Write the file at once or not at all; KvlabError when the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KvlabError(f"{path} cannot be written ({error.strerror}); correct the path.") from None
    with aside(path, msgspec.json.format(msgspec.json.encode(calibration)) + b"\n", 0o644) as written:
        written.replace(path)


def read(path: Path) -> Calibration:
    """The calibration in a file. Raises KvlabError when there is none that this kvlab reads."""
    try:
        header: Any = msgspec.json.decode(content := path.read_bytes())
        if isinstance(header, dict) and isinstance(header.get("schema"), int) and header["schema"] > SCHEMA:
            raise KvlabError(
                f"{path} has schema {header['schema']}, and this kvlab reads up to {SCHEMA}; update kvlab."
            )
        found = msgspec.json.decode(content, type=Calibration)
    except OSError as error:
        raise KvlabError(
            f"{path} cannot be read ({error.strerror}); write it with kvlab gate calibrate."
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise KvlabError(f"{path} is no calibration ({error}); write it with kvlab gate calibrate.") from None
    if found.kind != KIND:
        raise KvlabError(f"{path} is no calibration; write it with kvlab gate calibrate.")
    return found
