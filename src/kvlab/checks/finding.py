"""What a check says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["pass", "fail", "inconclusive"]
Severity = Literal["critical", "major", "minor"]


@dataclass(frozen=True)
class Finding:
    """One verdict. `evidence` holds the facts that decided it; `remedy` is empty for a pass.

    `simulated` is true when a stand-in took part, false when none did, None when the facts do not say.
    """

    id: str
    severity: Severity
    status: Status
    title: str
    evidence: tuple[str, ...]
    remedy: str
    source: str
    simulated: bool | None

    def as_json(self) -> dict[str, Any]:
        """The finding as plain JSON values."""
        return asdict(self) | {"evidence": list(self.evidence)}

    def __str__(self) -> str:
        label = " [simulated]" if self.simulated else ""
        lines = [f"{self.id} {self.status}{label}: {self.title}", *(f"  - {e}" for e in self.evidence)]
        return "\n".join(lines + ([f"  remedy: {self.remedy}"] if self.remedy else []))
