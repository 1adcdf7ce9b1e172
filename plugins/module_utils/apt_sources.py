# SPDX-License-Identifier: Apache-2.0
"""apt's source files, and what apt complains about a repository. Pure, standard library only."""

from __future__ import annotations

import re

# What apt says in English, and what it means for who set the repository; the first that matches is taken.
_COMPLAINTS = (
    (
        r"Conflicting values set for option Signed-By",
        "another source file names the same repository with another key",
    ),
    (
        r"NO_PUBKEY|not signed by|BADSIG|EXPKEYSIG|invalid signature|couldn't be verified",
        "its signature is not of the key given",
    ),
    (r"File not found|404|does not have a Release file|Not Found", "there is no repository at that address"),
    (r"resolve|connect|timed out|unreachable|Network is", "it cannot be reached from this host"),
    (
        r"Hash Sum mismatch|unexpected size",
        "its index and its packages are not of one state, as in the middle of a mirror's update",
    ),
)


def render(uri, suite, components, keyring, key_url):
    """A deb822 source file; the key's origin stands in it so that another one is noticed."""
    lines = [f"# Kept by Ansible (kvlab.lab.apt_source); its key is from {key_url}", "Types: deb"]
    lines += [f"URIs: {uri}", f"Suites: {suite}"]
    lines += [f"Components: {' '.join(components)}"] if components else []
    return "\n".join([*lines, f"Signed-By: {keyring}"]) + "\n"


def uris(name, text):
    """The addresses in a source file, without a slash at the end; `name` tells the two formats apart."""
    if name.endswith(".sources"):
        stanzas = re.split(r"\n\s*\n", text)
        enabled = [s for s in stanzas if not re.search(r"^Enabled:\s*no\b", s, re.MULTILINE | re.IGNORECASE)]
        values = " ".join(re.findall(r"^URIs:\s*(.+)$", "\n".join(enabled), re.MULTILINE)).split()
    else:
        lines = re.findall(r"^deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)", text, re.MULTILINE)
        values = lines
    return {value.rstrip("/") for value in values}


def meaning(complaint):
    """What a failed `apt-get update` means, in words, and apt's own first line of trouble."""
    said = next(
        (line for line in complaint.splitlines() if line.startswith(("E:", "W:", "Err:"))), complaint.strip()
    )
    for pattern, words in _COMPLAINTS:
        if re.search(pattern, complaint):
            return f"{words} (apt: {said})"
    return f"apt does not take it (apt: {said})"
