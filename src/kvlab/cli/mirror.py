"""kvlab mirror: a folder from which a lab without internet is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kvlab.errors import KvlabError

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command("mirror")
@click.argument("stack", required=False)
@click.option("-o", "--output", type=FOLDER, metavar="DIR", help="Folder to make or to complete.")
@click.option(
    "--verify", type=FOLDER, metavar="DIR", help="Compare a mirror with its manifest, and do nothing else."
)
@click.option(
    "--python",
    multiple=True,
    metavar="X.Y",
    help="Only for this Python; again for more. Default: the stack's.",
)
@click.option("-i", "--inventory", type=click.Path(path_type=Path, exists=True),
              help="Lab whose variables decide which repositories, versions and packages are listed.")  # fmt: skip
@click.option(
    "--find-links",
    multiple=True,
    metavar="PLACE",
    help="Folder or page with wheels to use besides the index.",
)
@click.option(
    "--index/--no-index", default=True, show_default=True, help="Whether the package index is asked."
)
@click.option(
    "--torch-index",
    metavar="URL",
    help="Index of torch's CPU builds. Default: that of the role inference_stack.",
)
@click.option("--stacks", type=click.Path(path_type=Path), default=Path("stacks"), show_default=True,
              help="Folder of the stack files.")  # fmt: skip
@click.option("--project", type=FOLDER, default=Path(), show_default=True, help="Checkout of kvlab.")
def command(
    stack: str | None,
    output: Path | None,
    verify: Path | None,
    python: tuple[str, ...],
    inventory: Path | None,
    find_links: tuple[str, ...],
    index: bool,
    torch_index: str | None,
    stacks: Path,
    project: Path,
) -> None:
    """Make a folder with the wheels of STACK and the list of packages and keys to mirror.

    Hosts without internet are installed from it. A run that was interrupted goes on where it ended. With --verify: exit
    status 0 when all is as the manifest says, 1 when not, 2 when there is no manifest.
    """
    if verify is not None:
        if stack or output:
            raise KvlabError("--verify stands alone: kvlab mirror --verify DIR.")
        _verify(verify)
        return
    if not stack or output is None:
        raise KvlabError(
            "name the stack and the folder: kvlab mirror STACK -o DIR; kvlab stack list names the stacks."
        )
    import yaml

    from kvlab import stacks as stack_files
    from kvlab.mirror import build

    chosen = stack_files.load(stacks, stack)
    unknown = sorted(set(python) - set(chosen.python))
    if unknown:
        raise KvlabError(
            f"stack {stack} has no lock for Python {unknown[0]}; choose from {', '.join(chosen.python)}."
        )
    if torch_index is None:
        defaults = project / "roles/inference_stack/defaults/main.yml"
        torch_index = (
            yaml.safe_load(defaults.read_text())["inference_stack_torch_index"] if defaults.exists() else ""
        )
    order = build.Order(
        stack=chosen,
        project=project.resolve(),
        python=tuple(python) or chosen.python,
        sources=(
            *(word for place in find_links for word in ("--find-links", place)),
            *(() if index else ("--no-index",)),
        ),
        torch_index=str(torch_index) if index else "",
        inventory=inventory,
    )
    made = build.make(order, output, lambda line: click.echo(line, err=True))
    total = sum(one["bytes"] for one in made["files"].values())
    click.echo(
        f"{output}: {len(made['files'])} files, {total / 1e9:.2f} GB; what else to mirror: {output / 'packages.txt'}"
    )


def _verify(folder: Path) -> None:
    """Print what differs and end with the exit status of a comparison."""
    from kvlab.mirror import manifest

    differing = manifest.differences(folder)
    files = manifest.read(folder)["files"]
    click.echo("\n".join(differing) or f"{folder}: {len(files)} files as the manifest says")
    sys.exit(1 if differing else 0)
