"""Quotas: a hard limit and one that only notifies, in GB and in objects; -1 is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvlab.emulator import access
from kvlab.emulator.management.ask import number
from kvlab.emulator.management.errors import ApiError

NAMES = access.LIMITS


def given(body: Mapping[str, Any], *, complete: bool) -> dict[str, int]:
    """The limits in a request. `complete`: both sizes must be sent, and one of them set, as in PUT …/quota."""
    found = {name: number(body, name, -1) for name in NAMES}
    if complete and not {"blockSize", "notificationSize"} <= body.keys():
        raise ApiError(1005, "blockSize and notificationSize must both be given")
    for name, value in found.items():
        if value != -1 and value < 1:
            raise ApiError(1008, f"{name} must be at least 1, or -1")
    if complete and set(found.values()) == {-1}:
        raise ApiError(1008, "A quota without any limit is removed with DELETE")
    for hard, soft in (NAMES[:2], NAMES[2:]):
        if found[hard] != -1 and found[soft] > found[hard]:
            raise ApiError(1008, f"{soft} must not be over {hard}")
    return found


def check_use(limits: dict[str, int], objects: int, size: int) -> None:
    """ApiError 1008 when a hard limit is under what is stored already (`size` in bytes)."""
    if over := access.exceeded(limits, objects, size):
        raise ApiError(1008, f"{over} is under the {objects} objects of {size} bytes that are stored")
