# SPDX-License-Identifier: Apache-2.0
"""The output of `dkms status`, of DKMS 2 and 3. Pure, standard library only."""

from __future__ import annotations

import re

# DKMS 3 writes "nvidia/590.48.01, 6.8.0-58-generic, x86_64: installed", DKMS 2 a comma for the slash.
_LINE = re.compile(
    r"(?P<module>[^,/\s]+)[,/]\s*(?P<version>[^,:\s]+)"
    r"(?:,\s*(?P<kernel>[^,:\s]+),\s*(?P<arch>[^,:\s]+))?:\s*(?P<state>added|built|installed)(?P<note>.*)"
)


class DkmsError(Exception):
    """Lines that are none of dkms; the message quotes one."""


def parse(text):
    """A list of {"module", "version", "kernel", "arch", "state", "note"}; kernel and arch are None when only added.

    `note` is what DKMS adds, such as "(WARNING! Diff between built and installed module!)". Raises DkmsError for a line
    of another form, since an entry that is not understood would look like a module that is not there.
    """
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        match = _LINE.fullmatch(line)
        if match:
            found.append({**match.groupdict(), "note": match["note"].strip()})
        elif not line.startswith(("Deprecated feature:", "Warning:")):
            raise DkmsError(f"dkms status says {line!r}, which this module does not know")
    return found
