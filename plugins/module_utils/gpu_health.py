# SPDX-License-Identifier: Apache-2.0
"""What nvidia-smi, the kernel's log and DCGM say about the health of GPUs. Pure, standard library only."""

from __future__ import annotations

import json
import re

ECC_FIELDS = ("pci.bus_id", "ecc.errors.uncorrected.volatile.total")
ROW_FIELDS = ("gpu_bus_id", "remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure")

# "NVRM: Xid (PCI:0000:19:00): 79, pid=..." names the GPU without its function.
_XID = re.compile(r"NVRM: Xid \(PCI:(?P<address>[0-9a-fA-F:.]+)\): (?P<code>\d+)")


class HealthError(Exception):
    """An answer that is none of the tool's; the message quotes it."""


def parse_csv(text, fields):
    """`--format=csv,noheader,nounits` as a list of {field: text}; raises HealthError for a row of another length."""
    rows = []
    for line in filter(None, map(str.strip, text.splitlines())):
        words = [word.strip() for word in line.split(",")]
        if len(words) != len(fields):
            raise HealthError(f"nvidia-smi says {line!r} where {', '.join(fields)} were asked for")
        rows.append(dict(zip(fields, words)))
    return rows


def number(text):
    """A counter; None for [N/A] and other words of a GPU that does not count it."""
    return int(text) if re.fullmatch(r"\d+", text) else None


def yes(text):
    """A flag, which releases write as Yes or as 1; None when it is neither."""
    return {"yes": True, "1": True, "no": False, "0": False}.get(text.lower())


def xids(log):
    """[{"address", "code"}] of the Xid messages in a kernel log, in its order, each pair once."""
    found = []
    for match in _XID.finditer(log):
        entry = {"address": match["address"].lower(), "code": int(match["code"])}
        if entry not in found:
            found.append(entry)
    return found


def parse_dcgm(text):
    """`dcgmi diag -j` as [{"test", "status", "detail"}]; status is Pass, Fail, Warn or Skip, per test the worst.

    DCGM 3 has its tests below "DCGM GPU Diagnostic", DCGM 4 below "DCGM Diagnostic". Raises HealthError else.
    """
    start = text.find("{")
    try:
        document = json.loads(text[start:]) if start >= 0 else {}
        body = document.get("DCGM Diagnostic") or document.get("DCGM GPU Diagnostic")
        return [_test(one) for category in body["test_categories"] for one in category["tests"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise HealthError(f"dcgmi diag says {text.strip()[:120]!r}, which is no result") from None


def _test(one):
    results = one.get("results") or []
    if "test_summary" in one:
        results = [*results, one["test_summary"]]
    worst = max(results, key=lambda result: _RANK.get(result["status"], 3))
    detail = worst.get("warnings") or worst.get("info") or ""
    return {
        "test": one["name"],
        "status": worst["status"],
        "detail": detail if isinstance(detail, str) else str(detail),
    }


_RANK = {"Skip": 0, "Pass": 1, "Warn": 2, "Fail": 4}
