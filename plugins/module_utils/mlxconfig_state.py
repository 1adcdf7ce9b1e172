# SPDX-License-Identifier: Apache-2.0
"""The output of `mlxconfig -d DEVICE -e query`, and the comparison of its values. Pure, standard library only."""

from __future__ import annotations

import difflib
import re

_HEADER = re.compile(r"Configurations:\s+(.*?)\s*$")
_ALIAS = re.compile(r"(.*)\((\d+)\)$")


class ConfigError(Exception):
    """An output that is not understood, or a parameter that cannot be set; the message says why."""


def parse(text):
    """Parameters by name, each as {"default", "current", "next"} in mlxconfig's own words, such as ETH(2).

    Old devices show no default and current value; those are None then. Raises ConfigError when there is no table.
    """
    columns, found = None, {}
    for line in text.splitlines():
        header = _HEADER.match(line.strip())
        if header:
            columns = header[1].lower().replace("next boot", "next").split()
            if "next" not in columns:
                raise ConfigError(f"its table has the columns {header[1]}, and not Next Boot")
            continue
        words = line.split()
        if columns is None or not line.startswith((" ", "\t", "*", "RO")):
            continue
        words = words[1:] if words[:1] in (["*"], ["RO"]) else words
        if len(words) == len(columns) + 1:
            values = dict(zip(columns, words[1:]))
            found[words[0]] = {name: values.get(name) for name in ("default", "current", "next")}
    if not found:
        raise ConfigError("it has no table of configurations")
    return found


def same(shown, wanted):
    """Whether a value that mlxconfig shows is the wanted one, which may be its word, its number, both, or a boolean."""
    wish = str(wanted).strip()
    if shown.casefold() == wish.casefold():
        return True
    alias = _ALIAS.match(shown)
    if alias and alias[1].casefold() == wish.casefold():
        return True
    number = _number(wish)
    return number is not None and number == _number(alias[2] if alias else shown)


def _number(text):
    try:
        return int(text, 0)
    except ValueError:
        return None


def split(have, wanted):
    """The wanted settings that the device has, and the names of those of a second port that it has not.

    Raises ConfigError for others that it has not, and for arrays.
    """
    missing = [name for name in wanted if name not in have]
    skipped = [name for name in missing if name.endswith("_P2") and f"{name[:-1]}1" in have]
    unknown = [name for name in missing if name not in skipped]
    if unknown:
        near = difflib.get_close_matches(unknown[0], have, 1)
        raise ConfigError(
            f"the device has no parameter {', '.join(unknown)}"
            + (
                f"; is it {near[0]}?"
                if near
                else "; a newer firmware, or ADVANCED_PCI_SETTINGS, may bring it"
            )
        )
    arrays = [name for name in wanted if name in have and have[name]["next"].startswith("Array[")]
    if arrays:
        raise ConfigError(f"{arrays[0]} is an array, which this module does not set; set it by hand")
    return {name: value for name, value in wanted.items() if name in have}, skipped


def differing(have, wanted, column):
    """The settings that a column, current or next, has otherwise; what it does not show does not count."""
    shown = {name: have[name][column] for name in wanted}
    return {n: v for n, v in wanted.items() if shown[n] is not None and not same(shown[n], v)}
