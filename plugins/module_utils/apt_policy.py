# SPDX-License-Identifier: Apache-2.0
"""apt's preferences files and the output of `apt-cache policy`. Pure, standard library only."""

from __future__ import annotations

import fnmatch
import re

# apt's own words for the three ways to pin, in apt_preferences(5).
WAYS = ("version", "origin", "release")

_VERSION = re.compile(r"(?: \*\*\*|    )\s(\S+)\s+(-?\d+)$")
_SOURCE = re.compile(r"\s{8,}(-?\d+)\s+(.+?)\s*$")


class PinError(Exception):
    """A pin that apt would not understand, or an output that is none of apt's; the message says why."""


def render(name, pins):
    """The preferences file of the owner `name`.

    A pin is {"packages", "version" or "origin" or "release", "priority", "explanation"}. Raises PinError for one that
    apt would misread, because apt skips a record it does not understand and says nothing when it installs.
    """
    records = [f"# Pins of {name}, kept by Ansible (kvlab.lab.apt_pin)."]
    for pin in pins:
        packages, ways = pin["packages"], [way for way in WAYS if pin.get(way)]
        about = f"the pin of {' '.join(packages) or 'no package'}"
        if not packages or any(not re.fullmatch(r"\S+", package) for package in packages):
            raise PinError(f"{about} needs package names without spaces, one an item")
        if len(ways) != 1:
            raise PinError(
                f"{about} has {' and '.join(ways) or 'none'} of version, origin and release; give one"
            )
        if not pin["priority"] or abs(pin["priority"]) > 32767:
            raise PinError(f"{about} has priority {pin['priority']}; apt takes -32768 to 32767 without 0")
        texts = [pin[ways[0]], pin.get("explanation") or ""]
        if any("\n" in text for text in texts):
            raise PinError(f"{about} has a line break in {ways[0]} or explanation; write it on one line")
        text = f'"{pin["origin"]}"' if ways == ["origin"] else pin[ways[0]]
        lines = [f"Explanation: {pin['explanation']}"] if pin.get("explanation") else []
        lines += [
            f"Package: {' '.join(packages)}",
            f"Pin: {ways[0]} {text}",
            f"Pin-Priority: {pin['priority']}",
        ]
        records.append("\n".join(lines))
    return "\n\n".join(records) + "\n"


def parse_policy(text):
    """`apt-cache policy PACKAGE...` as {package: {"installed", "candidate", "versions"}}.

    Both versions are None where apt says (none). A version is {"version", "priority", "sources"}, newest first as apt
    lists them, a source is {"priority", "source"}. A package that apt does not know is not in the answer.
    """
    found, current = {}, None
    for line in text.splitlines():
        if line and not line.startswith(" ") and line.endswith(":"):
            current = found[line[:-1]] = {"installed": None, "candidate": None, "versions": []}
            continue
        if current is None:
            continue
        word, _, value = line.strip().partition(": ")
        version, source = _VERSION.match(line), _SOURCE.match(line)
        if word in ("Installed", "Candidate"):
            current[word.lower()] = None if value == "(none)" else value
        elif source and current["versions"]:
            current["versions"][-1]["sources"].append({"priority": int(source[1]), "source": source[2]})
        elif version:
            current["versions"].append({"version": version[1], "priority": int(version[2]), "sources": []})
    return found


def unmet(pin, policy):
    """A sentence for each package, named in full, that apt would not take in the version of a version pin."""
    if not pin.get("version") or pin["priority"] < 0:
        return
    for package in pin["packages"]:
        wish, known = f"{package} is pinned to {pin['version']}, but", policy.get(package)
        if known is None:
            if not any(sign in package for sign in "*?[/"):
                yield f"{wish} no repository has it; add the repository, or update apt"
        elif not fnmatch.fnmatchcase(known["candidate"] or "", pin["version"]):
            have = ", ".join(version["version"] for version in known["versions"]) or "none"
            yield f"{wish} apt would take {known['candidate'] or 'none'}; it knows {have}"
