"""Writes the tables of docs/formats.md from the types and docstrings of the files: ci/formats_page.py [--check]

Exit status 1 when the page was not as it should be; with --check nothing is written.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import msgspec

import kvlab.checks
from kvlab import junit, stacks
from kvlab.checks import REGISTRY
from kvlab.doctor import labfacts, waivers
from kvlab.doctor.diagnosis import Diagnosis, Group
from kvlab.drills import record
from kvlab.emulator import log
from kvlab.mirror import manifest
from kvlab.ttft import plan, result, verdict

PAGE = Path(__file__).parents[1] / "docs" / "formats.md"
BEGIN, END = "<!-- from the source by ci/formats_page.py: {} -->\n", "<!-- end -->\n"
TOPIC = re.compile(r"^Topic `(\w+)`(.*?)(?=^Topic `|^\n|\Z)", re.DOTALL | re.MULTILINE)


def fields(struct: type[msgspec.Struct]) -> str:
    """A table of a struct's fields: name, type as the source writes it, default, and the comment beside it."""
    source = inspect.getsource(struct)
    rows = [f"**{struct.__name__}**: {' '.join((struct.__doc__ or '').split())}", ""]
    rows += ["| key | type | default | |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        line = re.search(rf"^    {field.name}: (.*)$", source, re.MULTILINE)
        code, _, comment = line[1].partition("  # ") if line else (str(field.type), "", "")
        kind = code.partition(" = ")[0]
        if field.required:
            default = "required"
        elif field.default is msgspec.NODEFAULT:
            default = f"`{msgspec.to_builtins(field.default_factory())!r}`"
        else:
            default = f"`{msgspec.to_builtins(field.default)!r}`"
        if kind.endswith("["):
            kind = "mapping"
        cells = (f"`{field.encode_name}`", kind, default, comment)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def told(module: ModuleType) -> str:
    """A module's docstring."""
    text, _, rest = inspect.getdoc(module).partition("\n")  # type: ignore[union-attr]
    return f"{text}\n{textwrap.dedent(rest)}\n"


def keys(kind: type) -> str:
    """The keys that a class's `as_json` writes, in their order."""
    source = inspect.getsource(kind.as_json)  # type: ignore[attr-defined]
    listed = ", ".join(f"`{key}`" for key in re.findall(r'^ +"(\w+)":', source, re.MULTILINE))
    return f"**{kind.__name__}**: {' '.join((kind.__doc__ or '').split())} Keys: {listed}.\n"


def stack_keys() -> str:
    """Keys of a stack file and what they hold."""
    rows = [f"| `{key}` | {word} | required |" for key, (_, word) in stacks._KINDS.items()]
    rows.append("| `additional` | a list | none |")
    parts = ", ".join(f"`{one}`" for one in stacks.FIRMWARE)
    rows.append(f"| `firmware` | a mapping of {parts} to lists of accepted versions by model | none |")
    proofs = ", ".join(f"`{one}`" for one in stacks.PROOFS)
    return "\n".join(["| key | kind | |", "|---|---|---|", *rows, "", f"`proven` is one of {proofs}.", ""])


def topics() -> str:
    """Every topic of facts with its shape, as the module of its checks tells it."""
    shapes: dict[str, str] = {}
    for name in dir(kvlab.checks):
        module = getattr(kvlab.checks, name)
        if inspect.ismodule(module) and module.__doc__:
            shapes |= {topic: " ".join(text.split()) for topic, text in TOPIC.findall(module.__doc__)}
    rows = ["```text"]
    for topic in sorted({check.topic for check in REGISTRY.values()}):
        rows.append(f"{topic} {shapes.get(topic, ': see the check')}".replace(" :", ":").replace(" ,", ","))
    return "\n".join([*rows, "```", ""])


def parts() -> dict[str, str]:
    """What stands between each pair of marks."""
    return {
        "plan": fields(plan.Plan) + "\n" + fields(plan.Limits),
        "result": "\n".join(map(fields, (result.Result, result.Start, result.Pass, result.Stages))),
        "gate": "\n".join(
            map(fields, (verdict.Verdict, verdict.ProfileVerdict, verdict.StageVerdict, verdict.CellVerdict))
        ),
        "stack": stack_keys(),
        "facts": told(labfacts),
        "topics": topics(),
        "doctor": keys(Diagnosis) + "\n" + keys(Group),
        "waivers": told(waivers),
        "drills": told(record),
        "access-log": told(log),
        "mirror": told(manifest),
        "junit": told(junit),
    }


def page(text: str) -> str:
    """The page with its parts made anew.

    Raises:
        ValueError: a mark is missing.
    """
    for name, content in parts().items():
        begin = BEGIN.format(name)
        if text.count(begin) != 1:
            raise ValueError(f"docs/formats.md needs the line {begin.strip()} once")
        before, rest = text.split(begin)
        text = before + begin + content + END + rest.partition(END)[2]
    return text


def main(check: bool) -> int:
    """Write or compare the page; 1 if it was not as it should be."""
    old = PAGE.read_text("utf-8")
    new = page(old)
    if old == new:
        return 0
    if check:
        print("docs/formats.md is not what the code says; run .venv/bin/python ci/formats_page.py")
    else:
        PAGE.write_text(new, "utf-8")
    return 1


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
