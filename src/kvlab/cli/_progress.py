"""A run's progress on stderr: a bar with the time left, or plain lines where stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from kvlab.ttft import forecast

BAR = "{percentage:3.0f} % |{bar:30}| {n_fmt} of {total_fmt} passes{postfix}"


class Progress:
    """`tell` writes a line, above the bar where there is one; `show` moves the bar."""

    def __init__(self, *, terminal: bool) -> None:
        self._bar = tqdm(
            total=0, bar_format=BAR, file=sys.stderr, disable=not terminal, leave=False, dynamic_ncols=True
        )

    def tell(self, line: str) -> None:
        """One line that stays."""
        self._bar.write(line, file=sys.stderr)

    def show(self, done: int, total: int, left_s: float | None) -> None:
        """So many passes are done, and so many seconds left."""
        self._bar.total = total
        self._bar.n = done
        self._bar.set_postfix_str(f"{forecast.in_words(left_s)} left" if done < total else "done")

    def close(self) -> None:
        """Take the bar away."""
        self._bar.close()


@contextmanager
def shown() -> Iterator[Progress]:
    """Progress that ends with the block."""
    progress = Progress(terminal=sys.stderr.isatty())
    try:
        yield progress
    finally:
        progress.close()
