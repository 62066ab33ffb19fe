"""The reference in docs/command_line.md is generated: `python tests/cli/test_reference.py`."""

import inspect
import re
import textwrap
import tomllib
from pathlib import Path

import click

from farthing.cli import app
from farthing.cli.config import SETTINGS, read_config
from farthing.cli.entry import COMMANDS
from farthing.cli.options import GroupedCommand, grouped_options
from farthing.cli.parameters import parameter_of

REPO = Path(__file__).resolve().parents[2]
PAGE = REPO / "docs" / "command_line.md"
MARK = "<!-- Generated from here on by tests/cli/test_reference.py -->"


def reference() -> str:
    """Every command, its description and its options."""
    return "\n\n".join(_command(c) for commands in COMMANDS.values() for c in commands) + "\n"


def _command(command: click.Command) -> str:
    arguments = [p.make_metavar(click.Context(command)) for p in _kind(command, "argument")]
    head = " ".join(["farthing", str(command.name), "[OPTIONS]", *arguments])
    parts = [f"### `{head}`", *map(_paragraph, inspect.cleandoc(command.help or "").split("\n\n"))]
    groups = {"Option": _kind(command, "option")}
    if isinstance(command, GroupedCommand):
        groups = grouped_options(_kind(command, "option"))
    for heading, options in groups.items():
        rows = [f"| {_names(option)} | {_escaped(option)} |" for option in options]
        if rows:
            parts.append("\n".join([f"| {heading} | |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def _kind(command: click.Command, kind: str) -> list[click.Parameter]:
    return [
        parameter
        for parameter in command.params
        if parameter.param_type_name == kind and not getattr(parameter, "hidden", False)
    ]


def _paragraph(text: str) -> str:
    if text.startswith("\b"):
        return f"```sh\n{inspect.cleandoc(text[1:])}\n```"
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False)


def _names(option: click.Parameter) -> str:
    names = [*option.opts, *option.secondary_opts]
    return ", ".join(f"`{name}`" for name in names)


def _escaped(option: click.Parameter) -> str:
    assert isinstance(option, click.Option)
    choices = option.type.choices if isinstance(option.type, click.Choice) else []
    text = " ".join((option.help or ", ".join(map(str, choices))).split())
    default = f" [default: {option.default}]" if option.show_default else ""
    return f"{text}{default}".replace("|", "\\|")


def test_the_page_is_up_to_date():
    written = PAGE.read_text(encoding="utf-8").partition(MARK)[2].lstrip("\n")
    assert written == reference(), "run python tests/cli/test_reference.py"


def test_every_command_and_option_has_a_help_text():
    for name, command in app.commands.items():
        assert command.help, name
        assert len(command.get_short_help_str(limit=60)) < 60
        assert not command.get_short_help_str(limit=60).endswith("..."), name
        for option in _kind(command, "option"):
            assert isinstance(option, click.Option)
            assert option.help or isinstance(option.type, click.Choice) or option.show_default


def test_the_file_on_the_page_can_be_read(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "farthing.toml").write_text(text, encoding="utf-8")
    config = read_config(str(tmp_path / "farthing.toml"))
    file = tomllib.loads(text)
    assert file["run"] | {"env": file["env"]} == config.run
    for name, described in config.params.items():
        parameter_of(name, described)
    for name in SETTINGS:
        assert f"`{name}`" in page or name in config.run


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(f"{before}{MARK}\n\n{reference()}", encoding="utf-8")
