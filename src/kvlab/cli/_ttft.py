"""What kvlab ttft does with a lab and prints of a result."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kvlab.errors import KvlabError
from kvlab.serving import lab as labs
from kvlab.ttft import measure, site
from kvlab.ttft import plan as plans
from kvlab.ttft import result as results
from kvlab.ttft.plan import Plan
from kvlab.ttft.result import Result


def run(
    plan_file: Path,
    output: Path | None,
    *,
    resume: bool,
    starts: int | None,
    only: Sequence[str],
    tell: Callable[[str], None],
    progress: Callable[[int, int, float | None], None] = lambda _done, _all, _left: None,
) -> tuple[Result, Path]:
    """Measure by a plan in the lab that is up; the result, and its file. KvlabError as the parts raise it."""
    plan = _narrowed(plans.read(plan_file), starts, only)
    begun = None
    if resume:
        if output is None:
            raise KvlabError("which run goes on? Name its file with --output.")
        begun = results.read(output)
        if starts is None:  # a run that was begun with more --starts than its plan says is not cut down
            plan = _narrowed(plan, max(plan.starts, int(begun.plan.get("starts", 1))), ())
    lab = labs.load()
    site.check_fits(lab, plan)
    profiles = measure.profiles_of(plan, lab.profiles)
    environment = site.environment(lab, plan)
    path = output or lab.state_dir / "ttft" / f"{plan.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    if begun is not None:
        result = resumed(begun, plan, profiles, environment, path)
    elif path.exists():
        raise KvlabError(f"{path} is there already; go on with it by --resume, or name another file.")
    else:
        result = Result(
            id=f"{plan.name}-{uuid.uuid4().hex[:12]}",
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            simulated=lab.simulated,
            simulated_parts=["object store", "cuObject"] if lab.simulated else [],
            commit=_commit(),
            stack=str(lab.data["stack"]),
            environment=environment,
            plan=plan.as_mapping(),
        )
    results.write(result, path)  # a folder that cannot be written is found before anything is measured
    place = site.LabSite(lab, plan, _store(lab), tell)
    measure.Run(plan, profiles, place, result, lambda r: results.write(r, path), tell, progress).go()
    return result, path


FREE = {"starts", "limits", "silence_s", "store_s"}
"""Of a plan, what may differ when a run goes on: it changes no pass that was measured."""
GROWS = {"contexts", "concurrency"}
"""What may become more."""


def resumed(
    result: Result, plan: Plan, profiles: Sequence[str], environment: dict[str, results.Scalar], path: Path
) -> Result:
    """The result to go on with, its plan replaced. KvlabError: another plan or environment, or nothing is left."""
    ours, theirs = plan.as_mapping(), result.plan
    # An older run may lack a key that is empty now.
    other = {
        k for k in ours.keys() | theirs.keys() if (ours.get(k) or None) != (theirs.get(k) or None)
    } - FREE
    other -= {key for key in GROWS if set(theirs.get(key, [])) <= set(ours[key])}
    if other:
        raise KvlabError(
            f"{path} was measured by another plan ({', '.join(sorted(other))} changed); go on with that one, or name "
            "another file."
        )
    if result.fingerprint != results.fingerprint(environment):
        here, there = results.comparable(environment), results.comparable(result.environment)
        changed = sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
        raise KvlabError(
            f"{path} was measured in another environment ({', '.join(changed[:5])} changed); name another file."
        )
    if not measure.remaining(plan, profiles, result):
        raise KvlabError(f"{path} is complete; ask for more --starts, or name another file.")
    result.plan = ours
    return result


def table(result: Result) -> str:
    """Median TTFT of proven passes by context and profile: hot, and cold over all profiles.

    Requests at once have rows of their own (`256 x4`): median / 95th percentile.
    """
    profiles = list(dict.fromkeys(start.profile for start in result.starts))
    head = "context".rjust(12) + "".join(f"{name + ' (hot)':>22}" for name in profiles) + f"{'cold':>22}"
    return "\n".join([head, *_rows(result, profiles)])


def _rows(result: Result, profiles: Sequence[str]) -> Iterator[str]:
    timed = [p for p in result.passes if p.proven and p.ttft_first_token_s is not None]
    for concurrency, context in sorted({(p.concurrency, p.context) for p in timed}):
        times: dict[str, list[float]] = {name: [] for name in (*profiles, "cold")}
        for one in timed:
            if (one.concurrency, one.context) == (concurrency, context):
                times["cold" if one.series == "cold" else one.profile].append(one.ttft_first_token_s or 0.0)
        name = f"{context} x{concurrency}" if concurrency > 1 else str(context)
        yield f"{name:>12}" + "".join(f"{_times(found, concurrency):>22}" for found in times.values())


def _times(found: Sequence[float], concurrency: int) -> str:
    if not found:
        return "-"
    median = f"{statistics.median(found) * 1000:.1f}"
    if concurrency == 1 or len(found) < 2:
        return f"{median} ms"
    return f"{median} / {statistics.quantiles(found, n=20, method='inclusive')[-1] * 1000:.1f} ms"


def claims(files: Sequence[Path], plan_file: Path | None, *, as_json: bool) -> tuple[str, int]:
    """The claims of runs as text, and the exit status."""
    from kvlab.ttft import claims as judged

    found = [results.read(file) for file in files]
    plan = plans.read(plan_file) if plan_file else plans.from_mapping(found[-1].plan, str(files[-1]))
    made = judged.claims(found, plan.limits)
    verdicts = {claim.verdict for claim in made}
    code = 1 if "fail" in verdicts else 3 if "inconclusive" in verdicts else 0
    if as_json:
        return json.dumps([msgspec.to_builtins(claim) for claim in made], indent=1), code
    return "\n".join(_claim(claim) for claim in made), code


def _claim(claim: object) -> str:
    from kvlab.ttft.claims import Claim

    assert isinstance(claim, Claim)
    at = "" if claim.context is None else f" at {claim.context} tokens"
    value = "unknown" if claim.value is None else f"{claim.value:.3g}"
    between = "" if claim.low is None or claim.high is None else f" ({claim.low:.3g} to {claim.high:.3g})"
    limit = f"; {claim.verdict}, limit {claim.limit:g}" if claim.verdict and claim.limit is not None else ""
    limit = limit or (f"; {claim.verdict}" if claim.verdict else "")
    label = " (simulated)" if claim.simulated else ""
    detail = f"  {claim.detail}" if claim.detail else ""
    return f"{claim.kind} of {claim.profile}{at}: {value}{between}{limit}{label}{detail}"


def _narrowed(plan: Plan, starts: int | None, only: Sequence[str]) -> Plan:
    """The plan with fewer starts or profiles; limits that need a profile which is left out are not judged."""
    values = plan.as_mapping()
    if starts is not None:
        values["starts"] = starts
    if only:
        known = [*plan.profiles, *plan.where_configured]
        for name in only:
            if name not in known:
                raise KvlabError(f"the plan {plan.name} has no profile {name}; it has {', '.join(known)}.")
        values |= {"profiles": [n for n in known if n in only], "where_configured": [], "limits": {}}
    return plans.from_mapping(values, plan.name)


def _store(lab: labs.Lab) -> object:
    from kvlab.objectscale import s3

    keys = json.loads(Path(lab.data["secrets_file"]).read_text())
    return s3.client(str(lab.data["endpoint"]), keys["access_key"], keys["secret_key"])


def _commit() -> str:
    """The checkout's commit (KVLAB_COMMIT where a host has the package alone); empty outside of one."""
    if given := os.environ.get("KVLAB_COMMIT"):
        return given
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parent,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
