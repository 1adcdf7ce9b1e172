"""The one exception a user sees."""

from __future__ import annotations


class KvlabError(Exception):
    """A mistake or a missing condition that the user can mend.

    The message is one sentence (or two) that says what happened and what to do. The command line prints it
    without a traceback and exits with `exit_code`.
    """

    exit_code = 2
