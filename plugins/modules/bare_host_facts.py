#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: what preflight judges about a bare GPU host. It collects and decides nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: bare_host_facts
short_description: Collect what preflight judges about a bare GPU host
version_added: "0.1.0"
description:
  - Read-only, standard library only; it needs no driver and no package of kvlab on the host.
  - The judgement is made by C(kvlab.checks.bare_host) on the controller, so that a recorded host can be judged again.
options:
  urls:
    description: Repositories and files that the roles will download from; C(file:) is looked for on the host.
    type: list
    elements: str
    default: []
  url_timeout:
    description: Seconds to wait for each answer.
    type: int
    default: 10
  disk:
    description: Folders whose file system's free space is reported.
    type: list
    elements: path
    default: [/]
  module_key:
    description: Public key, DER, that signs kernel modules; empty takes the one that DKMS is set up with.
    type: path
    default: ""
  os_release:
    description: File that names the operating system.
    type: path
    default: /etc/os-release
  boot_dir:
    description: Folder with the installed kernels.
    type: path
    default: /boot
  modules_dir:
    description: Folder with the modules and headers of each kernel.
    type: path
    default: /lib/modules
  sysfs_root:
    description: Where sysfs is.
    type: path
    default: /sys
  proc_root:
    description: Where proc is.
    type: path
    default: /proc
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Look at a bare host
  kvlab.lab.bare_host_facts:
    urls: [https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64/]
    disk: [/, /opt]
  register: __preflight_bare
"""

RETURN = r"""
facts:
  description: The facts; the judge's input, see C(kvlab.checks.bare_host).
  type: dict
  returned: always
"""

import json
import platform
import re
import shlex
import shutil
from pathlib import Path
from urllib.error import HTTPError

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.kvlab.lab.plugins.module_utils import (
    boot_kernel,
    package_list,
    pci_sysfs,
    secure_boot,
    ssh_connection,
)

# An apt repository has the first or second, one of dnf the third.
INDEXES = ("InRelease", "Release", "repodata/repomd.xml")

# The packages that a judge may want to see; a list of all of them would be thousands of lines.
OF_INTEREST = re.compile(
    r"nvidia|nv-peer|nv_peer|mlnx|ofed|doca|cuda-drivers|linux-headers|kernel-devel|lldpad"
)


def said(module, *command):
    """Status and both streams of a command; None and nothing when the host does not have it."""
    path = module.get_bin_path(command[0])
    if path is None:
        return None, ""
    status, out, complaint = module.run_command([path, *command[1:]], environ_update={"LC_ALL": "C"})
    return status, out + complaint


def operating_system(path):
    """{"id", "version", "name", "machine"} from os-release."""
    text = pci_sysfs.text(Path(path)) or ""
    fields = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            fields[name.strip()] = " ".join(shlex.split(value))
    return {
        "id": fields.get("ID", ""),
        "version": fields.get("VERSION_ID", ""),
        "name": fields.get("PRETTY_NAME", fields.get("ID", "an unnamed operating system")),
        "machine": platform.machine(),
    }


def installed(module):
    """Packages that are of interest, by dpkg or by rpm; None without either."""
    status, out = said(module, "dpkg-query", "-W", "-f", package_list.DPKG_FORMAT)
    if status == 0:
        packages = package_list.parse_dpkg(out)
    else:
        status, out = said(module, "rpm", "-qa", "--qf", package_list.RPM_FORMAT)
        if status != 0:
            return None
        packages = package_list.parse_rpm(out)
    return {name: version for name, version in packages.items() if OF_INTEREST.search(name)}


def kernel(module):
    """The running kernel, the newest installed one, and whether its headers are there or can be installed."""
    given = module.params
    release = platform.release()
    by_apt = module.get_bin_path("apt-cache") is not None
    package = ("linux-headers-" if by_apt else "kernel-devel-") + release
    there = Path(given["modules_dir"], release, "build").exists()
    available = there
    if not there and by_apt:
        available = package_list.candidate(said(module, "apt-cache", "policy", package)[1])
    elif not there:
        status = said(module, "dnf", "--quiet", "list", "--available", package)[0]
        available = None if status is None else status == 0
    return {
        "release": release,
        "newest_installed": boot_kernel.newest_kernel(given["boot_dir"]),
        "headers": there,
        "headers_available": available,
        "headers_package": package,
        "cmdline": (pci_sysfs.text(Path(given["proc_root"], "cmdline")) or "").split(),
    }


def boot_security(module):
    """Whether secure boot is on, and whether the modules' key is enrolled."""
    given = module.params
    key = given["module_key"] or secure_boot.dkms_key(pci_sysfs.text(Path("/etc/dkms/framework.conf")) or "")
    status, answer = said(module, "mokutil", "--sb-state")
    if status is None:
        # Without EFI there is no secure boot; with it, only mokutil says what the shim makes of it.
        state = None if Path(given["sysfs_root"], "firmware/efi").is_dir() else False
    else:
        state = secure_boot.is_on(answer)
    enrolled = None
    if state and Path(key).is_file():
        enrolled = secure_boot.is_enrolled(said(module, "mokutil", "--test-key", key)[1])
    return {
        "on": state,
        "key": key,
        "key_exists": Path(key).is_file(),
        "enrolled": enrolled,
        "mokutil": status is not None,
    }


def network(module):
    """Addresses by interface, and the interface that this connection comes over."""
    status, out = said(module, "ip", "-json", "address", "show")
    if status != 0:
        return {"addresses": None, "management": None}
    addresses = {
        one["ifname"]: [
            "{}/{}".format(info["local"], info["prefixlen"])
            for info in one.get("addr_info", [])
            if "local" in info
        ]
        for one in json.loads(out)
        if "ifname" in one
    }
    return {"addresses": addresses, "management": management(module, addresses)}


def management(module, addresses):
    """{"interface", "why", "carried_by"}: of the ssh connection, else of the default route; None without either."""
    mine = ssh_connection.own_address()
    for interface, here in addresses.items():
        if mine and mine in [address.partition("/")[0] for address in here]:
            return _management(module, interface, "the ssh connection")
    status, out = said(module, "ip", "-json", "route", "show", "default")
    routes = json.loads(out) if status == 0 and out.strip() else []
    if routes and routes[0].get("dev"):
        return _management(module, routes[0]["dev"], "the default route")
    return None


def _management(module, interface, why):
    carried_by = pci_sysfs.below(module.params["sysfs_root"], interface)
    return {"interface": interface, "why": why, "carried_by": carried_by}


def problem_of(url, timeout):
    """Why nothing can be had from an address, None when it answers.

    An address that ends in a slash is a repository, and one of its indexes must be there.
    """
    if url.startswith("file:"):
        place = Path(re.sub("^file:/*", "/", url))
        wanted = place.is_dir() if url.endswith("/") else place.is_file()
        return (
            None
            if wanted
            else "there is no such {} on the host".format("folder" if url.endswith("/") else "file")
        )
    candidates = [url + name for name in INDEXES] if url.endswith("/") else [url]
    problem = ""
    for candidate in candidates:
        try:
            open_url(candidate, timeout=timeout, http_agent="kvlab").read(1)
            return None
        except HTTPError as error:
            problem = f"it answers {error.code} {error.reason}"
        except Exception as error:  # noqa: BLE001  ssl, socket and proxies each raise their own; each is the answer
            return "nothing answers ({})".format(getattr(error, "reason", None) or error)
    return problem + (" for each of " + ", ".join(INDEXES) if url.endswith("/") else "")


def free_space(folder):
    """Free bytes where a folder is or will be, and which file system that is."""
    path = Path(folder)
    while not path.exists():
        path = path.parent
    return {
        "path": str(folder),
        "free": shutil.disk_usage(str(path)).free,
        "file_system": path.stat().st_dev,
    }


def clock(module):
    """Whether the kernel holds the clock for synchronised; None where nothing says so."""
    status, out = said(module, "timedatectl", "show", "--property", "NTPSynchronized", "--value")
    answer = out.strip()
    return {"synchronised": answer == "yes" if status == 0 and answer in ("yes", "no") else None}


def active(module, *units):
    """Those of the units that run."""
    return [unit for unit in units if said(module, "systemctl", "is-active", unit)[1].strip() == "active"]


def main():
    module = AnsibleModule(
        argument_spec={
            "urls": {"type": "list", "elements": "str", "default": []},
            "url_timeout": {"type": "int", "default": 10},
            "disk": {"type": "list", "elements": "path", "default": ["/"]},
            "module_key": {"type": "path", "default": "", "no_log": False},
            "os_release": {"type": "path", "default": "/etc/os-release"},
            "boot_dir": {"type": "path", "default": "/boot"},
            "modules_dir": {"type": "path", "default": "/lib/modules"},
            "sysfs_root": {"type": "path", "default": "/sys"},
            "proc_root": {"type": "path", "default": "/proc"},
        },
        supports_check_mode=True,
    )
    given = module.params
    facts = {
        "os": operating_system(given["os_release"]),
        "kernel": kernel(module),
        "secure_boot": boot_security(module),
        "pci": pci_sysfs.devices(given["sysfs_root"]),
        "network": network(module),
        "urls": [{"url": url, "problem": problem_of(url, given["url_timeout"])} for url in given["urls"]],
        "disk": [free_space(folder) for folder in given["disk"]],
        "iommu_groups": pci_sysfs.iommu_groups(given["sysfs_root"]),
        "packages": installed(module),
        "modules": boot_kernel.loaded_modules(given["proc_root"]),
        "lldpad": active(module, "lldpad.service", "lldpad.socket"),
        "clock": clock(module),
    }
    module.exit_json(changed=False, facts=facts)


if __name__ == "__main__":
    main()
