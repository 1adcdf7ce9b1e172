# SPDX-License-Identifier: Apache-2.0
"""The lists of installed packages of dpkg and rpm. Pure, standard library only."""

from __future__ import annotations

DPKG_FORMAT = "${db:Status-Status} ${Package} ${Version}\n"
RPM_FORMAT = "%{NAME} %{VERSION}-%{RELEASE}\n"


def parse_dpkg(text):
    """`dpkg-query -W -f DPKG_FORMAT` as {package: version}, without what was removed and left its configuration."""
    rows = (line.split() for line in text.splitlines())
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0] == "installed"}


def parse_rpm(text):
    """`rpm -qa --qf RPM_FORMAT` as {package: version-release}; of several installed versions (kernels) the last."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: row[1] for row in rows if len(row) == 2}


def candidate(text):
    """Whether `apt-cache policy PACKAGE` has a version to install."""
    for line in text.splitlines():
        word, colon, version = line.strip().partition(":")
        if colon and word == "Candidate":
            return version.strip() != "(none)"
    return False
