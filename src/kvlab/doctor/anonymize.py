"""Facts without secrets, addresses and names: each is replaced by another of its kind, the same everywhere.

What checks judge by is kept: versions, PCI addresses, loopback, whether two addresses share a network, whether a GID is
link-local, IPv4 or routable.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kvlab.doctor.labfacts import LAB, LabFacts, Problem

KEPT_NAMES = frozenset({LAB, "localhost"})
SECRET_KEYS = re.compile(r"secret(?!s$|_names$)|password|access_key|token$|credential", re.IGNORECASE)
VERSION_KEYS = frozenset(
    {
        *(
            "version",
            "versions",
            "packages",
            "locked",
            "firmware",
            "vbios",
            "release",
            "loaded",
            "installed",
            "userland",
        ),
        *("driver", "kernel", "lmcache", "nixl", "vllm", "nic_firmware"),
    }
)
"""Under these keys four numbers with dots are a version."""

_IPV4 = re.compile(r"(?<![\w.-])(\d{1,3}(?:\.\d{1,3}){3})(?![\w-]|\.\d)")
_COLONS = re.compile(r"(?<![\w:.])([0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7})(?![\w:]|\.\d)")
_MAC = re.compile(r"(?<![\w:])((?:[0-9a-f]{2}:){5}[0-9a-f]{2})(?![\w:])", re.IGNORECASE)
_GUID = re.compile(r"(?<![\w:])((?:[0-9a-f]{4}:){3}[0-9a-f]{4})(?![\w:])", re.IGNORECASE)
_URL_HOST = re.compile(r"(?<=://)(?:[^\s/@\"']+@)?([A-Za-z][A-Za-z0-9.-]*)")
_HOME = re.compile(r"(?<=/home/)([^/\s\"']+)")


def anonymize(facts: LabFacts, secrets: Iterable[str] = ()) -> LabFacts:
    """The same facts under other names. `secrets` are texts that are known to be secret, wherever they stand."""
    names = Names(facts, secrets)
    return LabFacts(
        names.text(facts.lab),
        facts.simulated,
        facts.taken,
        {names.host(host): names.value(topics) for host, topics in facts.hosts.items()},
        {names.host(host): topics for host, topics in facts.applies.items()},
        tuple(Problem(names.host(p.host), p.topic, names.text(p.reason)) for p in facts.problems),
    )


class Names:
    """The replacements of one document, made as they are met."""

    def __init__(self, facts: LabFacts, secrets: Iterable[str] = ()) -> None:
        self._made: dict[tuple[str, str], int] = {}
        self._secrets = sorted({secret for secret in secrets if len(secret) > 3}, key=len, reverse=True)
        hosts = {*facts.hosts, *facts.applies, *(problem.host for problem in facts.problems)} - KEPT_NAMES
        short = {name.partition(".")[0] for name in hosts if not _is_address(name)}
        self._hosts = sorted((hosts | short) - KEPT_NAMES, key=len, reverse=True)
        for name in sorted(short):
            self._number("host", name)
        self._host_pattern = re.compile(
            r"(?<![\w-])(" + "|".join(map(re.escape, self._hosts)) + r")(?![\w-])" if self._hosts else r"(?!)"
        )

    def host(self, name: str) -> str:
        """A host's other name; its long and its short name become one."""
        if name in KEPT_NAMES:
            return name
        return (
            self.text(name) if _is_address(name) else f"host-{self._number('host', name.partition('.')[0])}"
        )

    def value(self, value: Any, key: str = "", *, versions: bool = False) -> Any:
        """Any JSON value; keys that are names or addresses are replaced as well."""
        if isinstance(value, Mapping):
            # A topic may be called as a version is; a table of versions holds texts alone.
            versions = key in VERSION_KEYS and all(isinstance(one, str) for one in value.values())
            return {
                self.text(name, addresses=not versions): self.value(one, name, versions=versions)
                for name, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(one, key, versions=versions) for one in value]
        if not isinstance(value, str):
            return value
        if value and SECRET_KEYS.search(key):
            return f"secret-{self._number('secret', value)}"
        if key == "owner" and value != "root":
            return f"user-{self._number('user', value)}"
        return self.text(value, addresses=not (versions or key in VERSION_KEYS))

    def text(self, text: str, *, addresses: bool = True) -> str:
        """A text with everything in it replaced."""
        for secret in self._secrets:
            text = text.replace(secret, f"secret-{self._number('secret', secret)}")
        text = _HOME.sub(lambda m: f"user-{self._number('user', m[1])}", text)
        text = _URL_HOST.sub(lambda m: m[1] if m[1] in KEPT_NAMES else self.host(m[1]), text)
        text = self._host_pattern.sub(lambda m: self.host(m[1]), text)
        if addresses:
            text = _MAC.sub(lambda m: f"02:00:00:00:{self._hex('mac', m[1])}", text)
            text = _GUID.sub(lambda m: f"0200:0000:0000:{self._number('guid', m[1]):04x}", text)
            text = _COLONS.sub(lambda m: self._ipv6(m[1]), text)
            text = _IPV4.sub(lambda m: self._ipv4(m[1]), text)
        return text

    def _ipv4(self, written: str) -> str:
        """10.A.B.C: A for the first two numbers, B for the third within them, C as it was, so that networks stay."""
        try:
            address = ipaddress.IPv4Address(written)
        except ValueError:
            return written
        if address.is_loopback or address.is_unspecified:
            return written
        one, two, three, four = written.split(".")
        upper = self._number("16", f"{one}.{two}")
        third = self._number(f"24 {one}.{two}", three)
        return f"10.{upper % 256}.{third % 256}.{four}"

    def _ipv6(self, written: str) -> str:
        try:
            address = ipaddress.IPv6Address(written)
        except ValueError:
            return written
        if address.is_loopback or address.is_unspecified:
            return written
        if address.ipv4_mapped:
            other = ipaddress.IPv6Address(f"::ffff:{self._ipv4(str(address.ipv4_mapped))}")
        else:
            net = "fe80::" if address.is_link_local else "2001:db8::"
            other = ipaddress.IPv6Address(f"{net}{self._number('ipv6', address.exploded):x}")
        return other.exploded if len(written) == len(address.exploded) else str(other)

    def _hex(self, kind: str, name: str) -> str:
        number = self._number(kind, name.lower())
        return f"{number >> 8:02x}:{number & 255:02x}"

    def _number(self, kind: str, name: str) -> int:
        """Counts from 1 within a kind; the same name has the same number."""
        key = (kind, name)
        if key not in self._made:
            self._made[key] = 1 + sum(other == kind for other, _ in self._made)
        return self._made[key]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
