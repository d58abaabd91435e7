"""Writes the tables of the parser beside its grammar: `python -m tests.support.cel.grammar_tables`."""

from importlib import resources
from pathlib import Path

from renderer import cel
from renderer.cel import grammar


def main() -> None:
    Path(str(resources.files(cel).joinpath(grammar.TABLES_FILE))).write_bytes(grammar.serialize_tables())


if __name__ == "__main__":
    main()
