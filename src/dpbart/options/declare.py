"""Declare an option once: its type, range, default and help, and where it shows.

A record is a strict model of options. It may hold further records, so that each task gets those it needs. Outside, all
options are flat and have one name each: `text_column` in Python and HTTP is `--text-column` on the command line.

class Texts(Record):
    text_column: Strings = option(("text",), help="Column with the texts.")

Command line (`dpbart.cli.command.options_of`), HTTP bodies and their schema (`flat_model`), and the record that a
resumed run compares (`compared`) follow from `leaves`.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator
from pydantic.fields import FieldInfo

from dpbart.errors import BadParameter

Strings = Annotated[tuple[str, ...], Field(strict=False)]  # a list will do: JSON has no tuples
AnyPath = Annotated[Path, Field(strict=False)]  # a string will do

Some = TypeVar("Some", bound="Record")


@dataclass(frozen=True)
class Shown:
    """Where an option shows, and how."""

    flags: tuple[str, ...]  # on the command line, such as ("-e", "--epsilon"); empty if it is not there
    metavar: str | None  # what the command line calls its value
    argument: bool  # whether the command line takes it by its place instead of by a flag
    separated: bool  # whether a list is one value with commas on the command line, instead of a repeated flag
    http: bool  # whether a request over HTTP may have it
    resume: bool  # whether it must be the same when a run is resumed


def option(
    default: object = ...,
    *,
    help: str,
    flags: str | None = "",
    metavar: str | None = None,
    argument: bool = False,
    separated: bool = False,
    http: bool = True,
    resume: bool = True,
    example: object = None,
    **limits: Any,
) -> Any:
    """Declare a field of a record. `Shown` explains what is not said here.

    Args:
        default: its value if it is not given; without one, it must be given.
        help: one sentence for the command line, the schema and the docs.
        flags: separated by a blank; by default the name of the field with dashes. None: not on the command line.
        example: for the schema.
        limits: pydantic's ge, gt, le and lt; and allow_inf_nan for a float that somebody else checks.
    """
    field: FieldInfo = Field(default, description=help, examples=None if example is None else [example], **limits)
    on_command_line = () if flags is None else tuple(flags.split()) or ("",)
    field.metadata.append(Shown(on_command_line, metavar, argument, separated, http, resume))
    return field


@dataclass(frozen=True)
class Leaf:
    """One option of a record, whichever record inside holds it."""

    name: str  # in Python, in HTTP bodies and in the resume record
    path: tuple[str, ...]  # the fields on the way to it
    field: FieldInfo
    shown: Shown

    @property
    def flags(self) -> tuple[str, ...]:
        """On the command line."""
        return tuple(each or f"--{self.name.replace('_', '-')}" for each in self.shown.flags)

    @property
    def help(self) -> str:
        return self.field.description or ""

    @property
    def kind(self) -> Any:
        """Its type, without None and its list: bool, int, float, str or Path."""
        return _bare(self.field.annotation)

    @property
    def choices(self) -> tuple[str, ...]:
        """The only values that it may have; empty if they cannot be listed."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def many(self) -> bool:
        """Whether it is a list."""
        return _is_list(self.field.annotation)

    def value(self, record: Record) -> object:
        """Its value in a record."""
        found: object = record
        for step in self.path:
            found = getattr(found, step)
        return found


class Record(BaseModel):
    """Options that belong together. Values may be given by place or by name; inner ones by their flat names too."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )

    def __init__(self, /, *values: Any, **named: Any) -> None:
        record = type(self)
        given = {**dict(zip(record.model_fields, values, strict=False)), **named}
        _refuse_unknown(given, [*(leaf.name for leaf in leaves(record)), *record.model_fields])
        _refuse_half_characters(given)
        try:
            super().__init__(**_nested(record, given))
        except ValidationError as error:
            raise refusal(error, record) from None

    def changed(self: Some, **named: Any) -> Some:
        """The same record with other values for some options, by their flat names."""
        return type(self)(**{**{leaf.name: leaf.value(self) for leaf in leaves(type(self))}, **named})


@cache
def leaves(record: type[Record]) -> tuple[Leaf, ...]:
    """Every option of a record and of the records in it, in the order in which they are declared."""
    return tuple(_walk(record, ()))


def _walk(record: type[Record], path: tuple[str, ...]) -> Iterator[Leaf]:
    for name, field in record.model_fields.items():
        inner = _record_in(field)
        if inner is not None:
            yield from _walk(inner, (*path, name))
        else:
            shown = next(each for each in field.metadata if isinstance(each, Shown))
            yield Leaf(name, (*path, name), field, shown)


def from_flat(record: type[Some], given: Mapping[str, object]) -> Some:
    """A record from flat options, of which it takes its own. Another record may take the others."""
    return record(**{leaf.name: given[leaf.name] for leaf in leaves(record) if leaf.name in given})


def flat_model(*records: type[Record], name: str, without: Sequence[str] = ()) -> type[Flat]:
    """One flat record with all options of these records that a request over HTTP may have.

    Its JSON schema is that of the request. `from_flat(Request, body.given())` makes the records again.
    """
    shown = [leaf for record in records for leaf in leaves(record) if leaf.shown.http and leaf.name not in without]
    fields: dict[str, Any] = {}
    for leaf in shown:
        finite = copy(leaf.field)  # JSON has no infinite numbers
        finite.metadata = [each for each in finite.metadata if not hasattr(each, "allow_inf_nan")]
        fields[leaf.name] = (finite.annotation, finite)
    return create_model(name, __base__=Flat, **fields)


class Flat(Record):
    """The base of a flat request. JSON's null means that an option is not given."""

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, given: Any) -> Any:
        return {name: each for name, each in given.items() if each is not None} if isinstance(given, dict) else given

    def given(self) -> dict[str, object]:
        """The options that were given."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def compared(record: Record) -> dict[str, object]:
    """Everything in a record that must be the same when a run is resumed, as JSON has it."""
    return {
        leaf.name.replace("_", " "): _plain(leaf.value(record)) for leaf in leaves(type(record)) if leaf.shown.resume
    }


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value.resolve())
    return list(value) if isinstance(value, tuple) else value


def _nested(record: type[Record], given: Mapping[str, Any]) -> dict[str, Any]:
    """Flat options in the shape of the record. An inner record may also be given as a whole."""
    found: dict[str, Any] = {}
    for name, field in record.model_fields.items():
        inner = _record_in(field)
        if inner is None:
            found |= {name: given[name]} if name in given else {}
            continue
        own = {leaf.name: given[leaf.name] for leaf in leaves(inner) if leaf.name in given}
        whole = given.get(name)
        if isinstance(whole, inner):
            found[name] = whole.changed(**own) if own else whole
        elif name in given and name not in own:
            raise BadParameter(f"{name} must be a {inner.__name__}, got {type(whole).__name__}.")
        elif own or field.is_required():
            found[name] = inner(**own)
    return found


# What a value must be, by pydantic's name of the mistake.
_RULES = {
    "bool_type": "true or false",
    "string_type": "a string",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a number between -1e308 and 1e308",
    "tuple_type": "a list",
    "path_type": "a path",
    "missing": "given",
}
_LIMITS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def refusal(error: ValidationError, record: type[BaseModel]) -> BadParameter:
    """Our own error for the first mistake that pydantic found. It quotes numbers that are out of range, nothing else.

    A value may be a private text that somebody sent in the wrong place.
    """
    first = error.errors(include_url=False)[0]
    own = first.get("ctx", {}).get("error")
    if isinstance(own, BadParameter):
        return own
    what, kind, value = _what(first["loc"]), first["type"], first["input"]
    if kind in _LIMITS:
        return BadParameter(f"{what} must be {_range(record, first)}, got {value}.")
    if kind == "literal_error":
        choices = str(first["ctx"]["expected"]).replace("'", "").replace(" or ", ", ")
        return BadParameter(f"{what} must be one of {choices}, got something else.")
    if kind == "float_type" and isinstance(value, int) and not isinstance(value, bool):
        kind = "finite_number"  # an integer that no float can hold
    got = "" if kind in ("finite_number", "missing") else f", got {type(value).__name__}"
    return BadParameter(f"{what} must be {_RULES.get(kind, 'of another kind')}{got}.")


def _what(where: tuple[int | str, ...]) -> str:
    """The option in words: 'label set, item 2'."""
    name = str(where[0]).replace("_", " ") if where else "a value"
    return "".join([name, *(f", item {each + 1}," for each in where[1:] if isinstance(each, int))])


def _range(record: type[BaseModel], mistake: Any) -> str:
    """The range that was missed: both ends if there are two."""
    field = record.model_fields.get(str(mistake["loc"][0]))
    limits = field.metadata if field else ()
    ends = {name: getattr(each, name) for each in limits for name in ("ge", "le") if hasattr(each, name)}
    if len(ends) == 2:
        return f"from {ends['ge']:,.10g} to {ends['le']:,.10g}"
    name, words = _LIMITS[mistake["type"]]
    return f"{words} {mistake['ctx'][name]:,.10g}"


def _refuse_unknown(given: Mapping[str, object], known: Sequence[str]) -> None:
    """Refuse an option that nobody reads: it may be a misspelt one."""
    unknown = len(set(given) - set(known))  # their names are not repeated: somebody may have sent a text as a name
    if unknown:
        names = ", ".join(dict.fromkeys(known))
        raise BadParameter(f"a request may have the fields {names}, and has {unknown} more. Leave them out.")


def _refuse_half_characters(given: Mapping[str, object]) -> None:
    """Refuse strings with half a surrogate pair, which cannot be written as UTF-8."""
    for name, value in given.items():
        strings = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
        try:
            "".join(each for each in strings if isinstance(each, str)).encode()
        except UnicodeEncodeError:
            raise BadParameter(f"{_what((name,))} must be text, got half a surrogate pair. Leave it out.") from None


def _record_in(field: FieldInfo) -> type[Record] | None:
    """The record that a field holds; None if it is an option."""
    held: Any = field.annotation
    return held if isinstance(held, type) and issubclass(held, Record) else None


def _bare(annotation: Any) -> Any:
    """A type without None, and without its list."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated or origin is tuple:
        return _bare(inner[0])
    if origin in (Union, types.UnionType):
        return _bare(next(each for each in inner if each is not type(None)))
    return annotation


def _is_list(annotation: Any) -> bool:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated or origin in (Union, types.UnionType):
        return any(map(_is_list, inner))
    return origin is tuple
