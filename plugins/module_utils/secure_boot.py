# SPDX-License-Identifier: Apache-2.0
"""What mokutil says about secure boot and keys, and which key DKMS signs with. Pure, standard library only."""

from __future__ import annotations

import re

DKMS_KEY = "/var/lib/dkms/mok.pub"
_CERTIFICATE = re.compile(r"^\s*mok_certificate\s*=\s*\"?([^\s\"]+)", re.MULTILINE)


def is_on(answer):
    """`mokutil --sb-state` (both streams) as True or False; None for an answer that is neither.

    With the shim's validation disabled the kernel enforces no signature, though the firmware's secure boot is on.
    """
    answer = answer.lower()
    if "not supported" in answer or "doesn't support" in answer or "validation is disabled" in answer:
        return False
    if "secureboot enabled" in answer:
        return True
    return False if "secureboot disabled" in answer else None


def is_enrolled(answer):
    """`mokutil --test-key FILE` as True or False; None for an answer that is neither.

    The text decides and not the exit status, which is 1 for a key that is enrolled. A key that waits for its
    confirmation at the console is not enrolled yet.
    """
    if "is already enrolled" in answer:
        return True
    return False if "is not enrolled" in answer or "enrollment request" in answer else None


def dkms_key(configuration):
    """The certificate that DKMS's framework.conf names, else DKMS's own default."""
    named = _CERTIFICATE.search(configuration)
    return named[1] if named else DKMS_KEY
