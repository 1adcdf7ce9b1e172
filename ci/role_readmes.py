"""Writes the table of variables in each role's README.md from its argument_specs: ci/role_readmes.py [--check]

A README says in its own words what the role does; between the two marks stand its variables, one table for each entry
point that has variables of its own. With --check nothing is written. Exit 1 if a README was not as it should be.
Runs in the linters' environment, where the parser of Ansible's markup is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from antsibull_docs_parser import dom
from antsibull_docs_parser.parser import Context, parse

ROLES = Path(__file__).parents[1] / "roles"
BEGIN, END = "<!-- variables -->\n", "<!-- end -->\n"
DEFAULTS_FROM_ROLE = "see defaults"
"""Longer defaults are expressions; the table stays readable, and the file is one click away."""
LONGEST_DEFAULT = 40


def words(text: str | list[str]) -> str:
    """A description as one cell of Markdown, which stays readable as text."""
    paragraphs = parse([text] if isinstance(text, str) else text, Context(), errors="exception")
    sentences = " ".join("".join(map(_part, paragraph)) for paragraph in paragraphs)
    return " ".join(sentences.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _part(part: dom.AnyPart) -> str:
    """Names, values and code in backticks, anything else as it is."""
    if isinstance(part, dom.OptionNamePart):
        return f"`{part.name}`" if part.value is None else f"`{part.name}={part.value}`"
    if isinstance(part, dom.OptionValuePart | dom.EnvVariablePart):
        return f"`{part.value if isinstance(part, dom.OptionValuePart) else part.name}`"
    if isinstance(part, dom.CodePart | dom.ItalicPart):
        return f"`{part.text}`"
    if isinstance(part, dom.ModulePart):
        return f"`{part.fqcn}`"
    if isinstance(part, dom.LinkPart):
        return f"[{part.text}]({part.url})"
    if isinstance(part, dom.URLPart):
        return part.url
    if isinstance(part, dom.TextPart | dom.BoldPart):
        return part.text
    raise ValueError(f"{part} has a form that ci/role_readmes.py does not know")


def default(name: str, option: dict[str, Any], defaults: dict[str, Any]) -> str:
    """What a variable is when nobody sets it."""
    if option.get("required"):
        return "required"
    value = defaults.get(name, option.get("default"))
    if value is None:
        return ""
    # A lookup of the environment or of another variable is text with braces.
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) > LONGEST_DEFAULT or "{{" in text:
        return f"[{DEFAULTS_FROM_ROLE}](defaults/main.yml)"
    return f"`{text}`" if text else '`""`'


def kind(option: dict[str, Any]) -> str:
    """The type, with that of its elements and the choices."""
    text = str(option.get("type", "str"))
    if option.get("elements"):
        text += f" of {option['elements']}"
    if option.get("choices"):
        text += ": " + ", ".join(map(str, option["choices"]))
    return text


def rows(options: dict[str, Any], defaults: dict[str, Any], above: str = "") -> Iterator[str]:
    """One line for each variable, and below it one for each key of a dictionary."""
    for name, option in options.items():
        shown = default(name, option, {} if above else defaults)
        yield f"| `{above}{name}` | {kind(option)} | {shown} | {words(option['description'])} |"
        deeper = f"{above}{name}[]." if option.get("type") == "list" else f"{above}{name}."
        yield from rows(option.get("options", {}), defaults, deeper)


def tables(role: Path) -> str:
    """The part between the marks."""
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text("utf-8"))["argument_specs"]
    defaults_file = role / "defaults/main.yml"
    defaults = yaml.safe_load(defaults_file.read_text("utf-8")) if defaults_file.exists() else {}
    seen: list[object] = []
    parts = []
    for entry, spec in specs.items():
        parts.append(f"\n### Entry point `{entry}`\n\n{words(spec['short_description'])}.\n")
        options = spec.get("options", {})
        if options in seen:
            parts.append("\nThe variables are those above.\n")
        elif options:
            seen.append(options)
            head = "\n| variable | type | default | what it is |\n|---|---|---|---|\n"
            parts.append(head + "\n".join(rows(options, defaults or {})) + "\n")
    return "".join(parts) + "\n"


def page(role: Path) -> str:
    """The README as it should be.

    Raises:
        ValueError: there is no README, or it lacks the marks.
    """
    readme = role / "README.md"
    text = readme.read_text("utf-8") if readme.exists() else ""
    if BEGIN not in text or END not in text.split(BEGIN)[1]:
        raise ValueError(f"roles/{role.name}/README.md needs the lines {BEGIN.strip()} and {END.strip()}.")
    before, rest = text.split(BEGIN)
    return before + BEGIN + tables(role) + END + rest.split(END)[1]


def main(check: bool) -> int:
    """Write or compare each README; 1 if one was not as it should be."""
    bad = 0
    for role in sorted(path.parent.parent for path in ROLES.glob("*/meta/argument_specs.yml")):
        readme = role / "README.md"
        try:
            wanted = page(role)
        except ValueError as error:
            print(error)
            bad += 1
            continue
        if readme.read_text("utf-8") != wanted:
            print(
                f"roles/{role.name}/README.md is not as its argument_specs say"
                + ("" if check else "; written")
            )
            bad += 1
            if not check:
                readme.write_text(wanted, "utf-8")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
