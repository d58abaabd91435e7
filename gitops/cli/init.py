"""Command `levelgate init`: write a starter repository."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from gitops.cli import describe_exit_codes
from gitops.errors import GitopsError


class InitError(GitopsError):
    """Error of a directory in which the command cannot write files.

    The text names the file, and contains advice for the person.
    """


@click.command(epilog=describe_exit_codes("0 written", "1 a file exists or cannot be written"))
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def command(directory: Path) -> int:
    """Write a small platform to DIR: a definition, two instances, a window, a policy, editor schemas, and a CI job.

    Use this command to start your own repository. The CI job checks pull requests. The command never overwrites files.

    \b
    levelgate init platform && cd platform && levelgate render .
    """
    from gitops.cli.generate import editor_schemas, schema_files
    from renderer.catalog.catalog import load

    starter = dict(_read_files(files("gitops") / "starter", Path()))
    definitions = load({str(name): content for name, content in starter.items() if name.suffix == ".yaml"}).definitions
    schemas = schema_files(editor_schemas(definitions.values()))
    starter |= {Path(".schemas") / name: content for name, content in schemas}
    if existing_paths := sorted(str(directory / name) for name in starter if (directory / name).exists()):
        raise InitError(f"the command would overwrite {', '.join(existing_paths)}; name another directory")
    for name, content in starter.items():
        target = directory / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except OSError as error:
            raise InitError(f"{target} cannot be written: {error.strerror}; check the directory") from None
        click.echo(f"wrote {target}")
    click.echo(f"\nNext: cd {directory} && levelgate lint . && levelgate render .")
    return 0


def _read_files(folder: Traversable, path: Path) -> Iterator[tuple[Path, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.is_dir():
            yield from _read_files(entry, path / entry.name)
        else:
            yield path / entry.name, entry.read_bytes()
