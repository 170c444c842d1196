"""The commands and groups that the whole command line is made of, and the options that several of them share."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dpbart.errors import BadParameter
from dpbart.files import reason

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from dpbart.options.declare import Leaf, Record


class Command(click.Command):
    """A command that refuses an option given twice, unless the option is meant to be repeated (`multiple`).

    click itself lets the last one win. Of two columns with labels or ids, the first would then be released as it is.
    `dpbart rewrite` takes several text columns: its --text-column is the one option there that may be repeated.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # while a shell completes a line, nothing is refused
            _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)


class Configured(Command):
    """A command whose options may also come from the environment, and from a TOML file that --config names.

    --text-column is DPBART_TEXT_COLUMN in the environment and text_column in the file. The command line wins over the
    environment, and the environment over the file. Standard error says what came from where.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for name, each in self._settable().items():
            each.envvar = f"DPBART_{name.upper()}"
        words = "Take options that are not given here from this TOML file, such as epsilon = 10."
        self.params.append(click.Option(["--config"], metavar="FILE", expose_value=False, help=words))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            given = _refuse_repeated(self, ctx, args)
            if "config" in given:
                ctx.default_map = self._from_file(Path(given["config"]), ctx)
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as error:
            wrong = error.param
            if wrong is None or ctx.get_parameter_source(str(wrong.name)) is not ParameterSource.ENVIRONMENT:
                raise
            words = f"{error.message} It comes from {wrong.envvar} in the environment."
            raise click.BadParameter(words, ctx, wrong) from None

    def invoke(self, ctx: click.Context) -> object:
        taken: dict[ParameterSource | None, list[str]] = {}
        for name, each in self._settable().items():
            taken.setdefault(ctx.get_parameter_source(str(each.name)), []).append(name)
        if variables := taken.get(ParameterSource.ENVIRONMENT):
            named = ", ".join(f"DPBART_{name.upper()}" for name in variables)
            click.echo(f"Taken from the environment: {named}.", err=True)
        if keys := taken.get(ParameterSource.DEFAULT_MAP):
            click.echo(f"Taken from the file of --config: {', '.join(keys)}.", err=True)
        return super().invoke(ctx)

    def _settable(self) -> dict[str, click.Option]:
        """The options by their names in a file: their flags without dashes."""
        options = [each for each in self.params if isinstance(each, click.Option) and each.expose_value]
        return {max(each.opts, key=len).lstrip("-").replace("-", "_"): each for each in options}

    def _from_file(self, file: Path, ctx: click.Context) -> dict[str, object]:
        """The options in a TOML file, by the names of their parameters."""
        try:
            held = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise BadParameter(f"{str(file)!r} cannot be read: {reason(error)}. Check the path.") from None
        except ValueError as error:
            raise BadParameter(f"{str(file)!r} cannot be read as TOML: {error}.") from None
        options, found = self._settable(), dict[str, object]()
        for name, value in held.items():
            if name not in options:
                raise BadParameter(
                    f"{str(file)!r} has {name!r}, which is no option here. See: dpbart {ctx.info_name} --help"
                )
            rule = _rule_broken(options[name], value)
            if rule is not None:
                raise BadParameter(f"{name} in {str(file)!r} must be {rule}, got {type(value).__name__}.")
            found[str(options[name].name)] = value
        return found


def _rule_broken(option: click.Option, value: object) -> str | None:
    """What a value of an option must be, if it is something else. click itself takes true for 1, and 5 for "5"."""
    if option.multiple or option.callback is _separated:
        strings = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return None if strings else "a list of strings"
    if option.is_flag:
        return None if isinstance(value, bool) else "true or false"
    kinds, rule = {
        "integer": ((int,), "a whole number"),
        "float": ((int, float), "a number"),
    }.get(option.type.name, ((str,), "a string"))
    return None if isinstance(value, kinds) and not isinstance(value, bool) else rule


class _Several(click.types.StringParamType):
    """A string of a repeatable option. In a variable, commas separate several of them; click takes blanks."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [each.strip() for each in rv.split(",")]


class Group(click.Group):
    """A group whose commands, and whose own options, refuse repetition."""

    command_class = Command
    group_class = type

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)


def _refuse_repeated(command: click.Command, ctx: click.Context, args: list[str]) -> dict[str, Any]:
    """Refuse an option that was given twice. Returns what was given."""
    values, _, given = command.make_parser(ctx).parse_args(args=list(args))
    for parameter, times in Counter(given).items():
        single = isinstance(parameter, click.Option) and not (parameter.multiple or parameter.is_eager)
        if single and times > 1:
            raise click.UsageError(f"{' / '.join(parameter.opts)} was given {times} times. Give it once.", ctx)
    return dict(values)


def options_of(record: type[Record], name: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Give a command all options of a record. It gets one record, as the argument `name`."""
    from dpbart.options.declare import from_flat, leaves  # imports pydantic, and `dpbart --help` must not wait for it

    shown = [leaf for leaf in leaves(record) if leaf.flags]

    def decorate(command: Callable[..., object]) -> Callable[..., object]:
        @wraps(command)
        def with_record(**given: Any) -> object:
            own = {leaf.name: given.pop(leaf.name) for leaf in shown}
            # What is not given, the record knows.
            asked = from_flat(record, {each: value for each, value in own.items() if value not in (None, ())})
            return command(**{name: asked}, **given)

        decorated: Callable[..., object] = with_record
        for leaf in reversed(shown):
            decorated = _parameter(leaf)(decorated)
        return decorated

    return decorate


def _parameter(leaf: Leaf) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """The click option or argument of one of our options."""
    kind: Any = leaf.kind
    if leaf.choices:
        kind = click.Choice(leaf.choices)
    elif leaf.kind is Path:
        kind = click.Path(path_type=Path, allow_dash=leaf.shown.argument)
    elif leaf.many:
        kind = click.UNPROCESSED if leaf.shown.separated else _Several()
    if leaf.shown.argument:
        return click.argument(leaf.name, metavar=leaf.shown.metavar, type=kind)
    if leaf.kind is bool:
        return click.option(*leaf.flags, leaf.name, is_flag=True, help=leaf.help)
    required, default = leaf.field.is_required(), leaf.field.default
    given = not required and default not in (None, ())
    return click.option(
        *leaf.flags,
        leaf.name,
        type=kind,
        metavar=leaf.shown.metavar,
        multiple=leaf.many and not leaf.shown.separated,
        callback=_separated if leaf.shown.separated else None,
        required=required,
        default=default if given else None,
        show_default=given,
        help=leaf.help,
    )


def _separated(
    _context: click.Context, _option: click.Parameter, given: str | list[str] | None
) -> tuple[str, ...] | None:
    """The items of a list, which the command line has with commas, and a file as it is.

    >>> _separated(None, None, "good, bad"), _separated(None, None, ["good, or bad"])
    (('good', 'bad'), ('good, or bad',))
    """
    if given is None:
        return None
    return tuple(each.strip() for each in given.split(",")) if isinstance(given, str) else tuple(given)


corpus_option = click.option(
    "--corpus",
    "corpus",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    required=True,
    help="Public text, one text per line: a .txt, .txt.gz or .txt.zst file, or a folder of such files. Repeatable.",
)
text_option = click.option("--text-column", default="text", show_default=True, help="Column that holds the texts.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
