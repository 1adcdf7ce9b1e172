# SPDX-License-Identifier: Apache-2.0
"""The output of perftest's bandwidth tests. Pure, standard library only."""

from __future__ import annotations

import re

_HEAD = re.compile(r"#bytes\s+#iterations\s+BW peak\[(?P<unit>[^\]]+)\]")
_ROW = re.compile(r"^\s*(?P<bytes>\d+)\s+\d+\s+-?[\d.]+\s+(?P<average>[\d.]+)\s+[\d.]+", re.MULTILINE)


def average_gbits(text):
    """The average bandwidth in Gbit/s of the largest message size; None when the output has no result.

    Only output in Gb/sec (--report_gbits) counts: MB/sec of perftest are 2^20 bytes, and a mixture hides a bad link.
    """
    head = _HEAD.search(text)
    rows = list(_ROW.finditer(text, head.end())) if head and head["unit"] == "Gb/sec" else []
    if not rows:
        return None
    return float(max(rows, key=lambda row: int(row["bytes"]))["average"])


def complaint(text):
    """The line that says why a test failed, else the last one; empty without any."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -\t*")]
    telling = [
        line for line in lines if re.search(r"fail|couldn't|unable|error|invalid", line, re.IGNORECASE)
    ]
    return (telling or lines or [""])[-1]
