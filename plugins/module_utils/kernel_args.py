# SPDX-License-Identifier: Apache-2.0
"""Kernel command lines, GRUB drop-ins and the output of `grubby --info=ALL`. Pure, standard library only."""

from __future__ import annotations

import re

# The drop-in is sourced by a shell, so an argument must mean to it what it says.
_SAFE = re.compile(r"[A-Za-z0-9_.,:;/=@%+\-\[\]]+$")
_TOKEN = re.compile(r'(?:[^\s"]|"[^"]*")+')
_DROPIN = re.compile(r'GRUB_CMDLINE_LINUX="\$GRUB_CMDLINE_LINUX (.*)"$')
_GRUBBY = re.compile(r'(index|kernel|args)="?(.*?)"?$')


class KernelArgumentError(Exception):
    """An argument or an output that cannot be used; the message says why."""


def split(line):
    """A kernel command line's arguments; quotes keep spaces together, and what follows `--` is init's."""
    arguments = _TOKEN.findall(line)
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def key(argument):
    """An argument's name as the kernel compares it, which takes a dash for an underscore."""
    return argument.partition("=")[0].replace("-", "_")


def same(argument):
    """An argument in the form in which two that mean the same are equal."""
    _, equals, value = argument.partition("=")
    return key(argument) + equals + value


def missing(wanted, have):
    """The wanted arguments that are not among `have`, or that a later one of `have` sets to another value."""
    found = [same(argument) for argument in have]
    last = {key(argument): same(argument) for argument in have}
    wants = {same(argument) for argument in wanted}
    return [a for a in wanted if same(a) not in found or last[key(a)] not in wants]


def check(arguments):
    """Raises KernelArgumentError for an argument that a boot loader's configuration cannot carry as it is."""
    for argument in arguments:
        if not _SAFE.match(argument) or not key(argument):
            raise KernelArgumentError(
                f"{argument!r} is no kernel argument: write each by itself, without spaces, quotes, $ or backslashes"
            )


def dropin(name, arguments):
    """The file below /etc/default/grub.d that adds the arguments for the owner `name`."""
    return (
        f"# Arguments of {name}, kept by Ansible (kvlab.lab.kernel_cmdline); what others set is not touched.\n"
        f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(arguments)}"\n'
    )


def dropin_arguments(text):
    """The arguments that such a file adds."""
    return [
        argument for line in text.splitlines() for found in _DROPIN.findall(line) for argument in split(found)
    ]


def grubby_entries(text):
    """Boot entries of `grubby --info=ALL`, kernel by kernel: {kernel's path: its arguments}.

    An entry without a kernel, such as one of another system, is left out. Raises KernelArgumentError when there
    is none.
    """
    entries, kernel = {}, None
    for line in text.splitlines():
        found = _GRUBBY.match(line.strip())
        if not found:
            continue
        word, value = found.groups()
        if word == "index":
            kernel = None
        elif word == "kernel":
            kernel = value
            entries[kernel] = []
        elif kernel is not None:
            entries[kernel] = split(value)
    if not entries:
        raise KernelArgumentError("grubby lists no kernel; repair the boot loader's configuration first")
    return entries
