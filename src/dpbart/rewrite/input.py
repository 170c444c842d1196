"""The input of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbart.tables.table import Table, open_table

if TYPE_CHECKING:
    from dpbart.rewrite.request import Request


def open_input(request: Request) -> Table:
    """The input, with every column that the request names.

    Raises:
        BadTable: It cannot be read, or lacks one of them.
    """
    others, kept = (request.label_column, request.person_column, request.id_column), request.keep_columns or ()
    table = open_table(
        request.source,
        text_column=request.text_columns,
        named=[*(column for column in others if column is not None), *kept],
        dialect=request.dialect,
        bounds=request.bounds,
    )
    if request.policy is not None:
        table.require(request.policy.column, option="--label-column")
        request.policy.check(table)
    if request.people is not None:
        table.require(request.people.column, option=request.people.option)
    for column in kept:
        table.require(column, option="--keep-column")
    return table
