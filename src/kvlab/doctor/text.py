"""A diagnosis for a reader: the gravest first, equal findings once, then what to do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kvlab.doctor.diagnosis import Diagnosis, Group, names

_HOSTS_SHOWN = 3


def render(found: Diagnosis, *, passes: bool = False) -> str:
    """The report; with `passes` each passed check has its line too."""
    label = " (simulated)" if found.simulated else ""
    lines = [f"lab {found.lab}{label}"]
    lines += [f"could not look at {problem}" for problem in found.problems]
    for group in found.groups:
        if group.status != "pass":
            lines += ["", *_group(group)]
        elif passes:
            lines.append(f"pass {group.check.id}: {group.check.title} ({names(group.hosts)})")
    lines += ["", _summary(found)]
    if found.not_asked:
        topics = Counter(check.topic for check in found.not_asked)
        about = ", ".join(f"{topic} ({count})" for topic, count in sorted(topics.items()))
        lines.append(f"not asked, for this lab has no such facts: {about}")
    actions = found.actions()
    if actions:
        lines += ["", "Next:", *(f"  {number}. {action}" for number, action in enumerate(actions, 1))]
    return "\n".join(lines)


def _group(group: Group) -> Iterator[str]:
    label = " [simulated]" if group.simulated else ""
    check = group.check
    yield f"{group.status} {check.id} {check.severity}{label}: {check.title}"
    same: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host, lines in group.evidence.items():
        same[lines].append(host)
    for number, (lines, hosts) in enumerate(same.items()):
        if number == _HOSTS_SHOWN:
            left = sum(len(others) for others in list(same.values())[number:])
            yield f"  and {left} more hosts with evidence of their own (--json shows it)"
            break
        yield f"  {names(hosts)}"
        yield from (f"    - {line}" for line in lines)
    yield from (f"  {waiver}" for waiver in group.waivers)
    yield f"  remedy: {check.remedy}"


def _summary(found: Diagnosis) -> str:
    counts = Counter(group.status for group in found.groups)
    checks = len({group.check.id for group in found.groups})
    hosts = len({host for group in found.groups for host in group.hosts})
    words = ", ".join(f"{counts[status]} {status}" for status in ("fail", "inconclusive", "waived", "pass"))
    return f"{checks} checks on {hosts} host(s): {words}"
