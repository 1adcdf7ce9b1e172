"""Writes the table of rules in docs/kv-lint.md from the linter's source: ci/kv_lint_table.py

A rule is a call in src/kvlab/kvcache/lint that makes a finding: id, severity, key, reason, remedy. What depends on
the file at hand is shown as an ellipsis.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
RULES = ROOT / "src" / "kvlab" / "kvcache" / "lint"
PAGE = ROOT / "docs" / "kv-lint.md"
BEGIN = "<!-- from the source by ci/kv_lint_table.py -->\n"
END = "<!-- end -->\n"
ID = re.compile(r"(?:LMC|NIX|CUF|MPS|VLM|ENV|STK)\d{3}")
SEVERITIES = ("error", "warning", "note")
STRICT = "warning; error where a profile is named"


@dataclass
class Rule:
    """One id: every severity it can have, and what each of its findings says."""

    severities: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)


def rules() -> dict[str, Rule]:
    """The rules by id.

    Raises:
        ValueError: a finding is made in a way that this program cannot read.
    """
    found: dict[str, Rule] = {}
    for file in sorted(RULES.glob("*.py")):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(call, ast.Call) or len(call.args) < 5:
                continue
            code = call.args[0]
            if not (isinstance(code, ast.Constant) and ID.fullmatch(str(code.value))):
                continue
            rule = found.setdefault(code.value, Rule())
            severity, reason, remedy = call.args[1], call.args[-2], call.args[-1]
            for values, text in (
                (rule.severities, _severity(severity, f"{file.name}:{call.lineno}")),
                # After the sentence often stands a guess at what was meant, or nothing.
                (rule.reasons, _text(reason).replace(".…", ".")),
                (rule.remedies, _text(remedy)),
            ):
                if text not in values:
                    values.append(text)
    return dict(sorted(found.items()))


def table() -> str:
    """The rows of the table."""
    lines = ["| id | severity | what it sees | remedy |", "|---|---|---|---|"]
    for code, rule in rules().items():
        cells = (" · ".join(values) for values in (rule.severities, rule.reasons, rule.remedies))
        lines.append(f"| {code} | " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with its table made anew."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


def _severity(node: ast.expr, place: str) -> str:
    if isinstance(node, ast.Constant) and node.value in SEVERITIES:
        return str(node.value)
    if isinstance(node, ast.IfExp):
        return f"{_severity(node.body, place)} or {_severity(node.orelse, place)}"
    if isinstance(node, ast.Call) and ast.unparse(node) == "context.strict()":
        return STRICT
    raise ValueError(f"{place}: the severity is no constant, no choice of two and not context.strict()")


def _text(node: ast.expr) -> str:
    """A text as it reads where nothing is known of the file; of a choice its first branch."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.IfExp):
        return _text(node.body)
    return "…"


def main() -> int:
    """Write the page; 1 if it was not as it should be."""
    old = PAGE.read_text("utf-8")
    new = page(old)
    PAGE.write_text(new, "utf-8")
    return int(new != old)


if __name__ == "__main__":
    sys.exit(main())
