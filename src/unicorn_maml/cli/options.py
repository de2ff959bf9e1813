"""Turns a settings dataclass into the options of a command.

Every field becomes an option of the same name, or an argument where it has no default. `--config
FILE` sets defaults from a YAML or JSON file with the same names; options on the command line win.
"""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from unicorn_maml.configuration import read_configuration
from unicorn_maml.names import option_name

__all__ = ["add_command"]


def add_command(
    app: typer.Typer,
    name: str,
    settings: type,
    run: Callable[[Any], None],
    *,
    recall: Callable[[type, dict[str, Any]], dict[str, Any]] | None = None,
    epilog: str | None = None,
) -> None:
    """Add a command whose options are the fields of `settings`, which is what `run` is called with.

    `recall`, given `settings` and the options, may return other values for those that the user left
    open.
    """
    hints = get_type_hints(settings, include_extras=True)
    names = [field.name for field in dataclasses.fields(settings)]
    lists = {name for name in names if get_origin(get_args(hints[name])[0]) is list}
    parameters = [_parameter(field, hints[field.name]) for field in dataclasses.fields(settings)]
    switches = [field.name for field in dataclasses.fields(settings) if field.default is False]
    parameters += [_off_switch(name) for name in switches]
    parameters += [_config_parameter(names, lists), _CONTEXT]

    def command(context: typer.Context, **values: Any) -> None:
        off = {name: False for name in switches if values[f"no_{name}"]}
        chosen = {name: values[name] for name in names} | off
        for name, value in (recall(settings, chosen) if recall else {}).items():
            source = context.get_parameter_source(name)
            if source is not None and source.name == "DEFAULT" and name not in off:
                chosen[name] = value
        run(settings(**chosen))

    # typer reads the options off the signature
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = settings.__doc__
    app.command(name, epilog=epilog)(command)


_CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def _parameter(field: "dataclasses.Field[Any]", hint: Any) -> inspect.Parameter:
    value_type, text = get_args(hint)
    text = text.replace("[", r"\[")  # or else it would be taken for markup, and vanish
    if field.default is dataclasses.MISSING:
        default, info = inspect.Parameter.empty, typer.Argument(help=text, show_default=False)
    else:
        option = option_name(field.name)
        if field.default is True:
            option += f"/{option_name(f'no_{field.name}')}"
        info = typer.Option(option, help=text, show_default=field.default is not None)
        default = field.default
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[value_type, info],
    )


def _off_switch(name: str) -> inspect.Parameter:
    """`--no-X` for what is off anyway, unless a configuration file turns it on: not in the help."""
    return inspect.Parameter(
        f"no_{name}",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[
            bool, typer.Option(option_name(f"no_{name}"), hidden=True, show_default=False)
        ],
    )


def _config_parameter(names: list[str], lists: set[str]) -> inspect.Parameter:
    def read(context: typer.Context, file: Path | None) -> Path | None:
        if file is not None:
            values = read_configuration(file, names)
            for name in lists & values.keys():  # one value is a list of one
                if not isinstance(values[name], list):
                    values[name] = [values[name]]
            context.default_map = {**(context.default_map or {}), **values}
        return file

    info = typer.Option(
        "--config", help="YAML or JSON file with any of these options", is_eager=True, callback=read
    )
    return inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[Path | None, info],
    )
