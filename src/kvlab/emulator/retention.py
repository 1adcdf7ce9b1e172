"""Retention, ObjectScale's own: an object that is under it can be neither replaced nor deleted.

A period is a number of seconds from the object's last change, -1 without end. An object brings its own in
`x-emc-retention-period`; a bucket has one in its attribute of that name. The longer of the two counts.
"""

from __future__ import annotations

import math
import re

from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Bucket, Entry

PERIOD = "x-emc-retention-period"


def checked(period: str) -> str:
    """The period as a request gives it; InvalidArgument when it is none."""
    if not re.fullmatch(r"-1|[0-9]{1,12}", period):
        raise S3Error("InvalidArgument", f"{PERIOD} must be a number of seconds, or -1.", ArgumentName=PERIOD)
    return period


def retained_until(bucket: Bucket, entry: Entry) -> float:
    """Unix time until which the object is under retention; infinity where that has no end."""
    periods = [int(str(p or 0)) for p in (bucket.attributes.get(PERIOD), entry.meta.headers.get(PERIOD))]
    return math.inf if -1 in periods else entry.modified + max(periods)


def refuse_retained(bucket: Bucket, entry: Entry | None, now: float) -> None:
    """ObjectUnderRetention when the object may not be changed yet."""
    if entry is not None and now < retained_until(bucket, entry):
        raise S3Error(
            "ObjectUnderRetention", "The object is under retention and can't be deleted or modified."
        )
