"""The options of an upload: those of `dpbart rewrite` that make sense for a file that comes over HTTP."""

from __future__ import annotations

from dpbart.errors import BadParameter
from dpbart.rewrite.request import Request
from dpbart.rewrite.settings import Settings
from dpbart.tables.dialect import Dialect
from dpbart.web.bodies import SETTINGS, Fields, number, refuse_unknown, settings_of, string, truth, whole
from dpbart.web.job_folder import JobFolder
from dpbart.web.place import Place

_STRINGS = ("label_column", "labels", "person_column", "id_column", "missing_person", "split")
_TRUTHS = ("join_columns", "join_documents", "shuffle")
_OTHERS = ("text_column", "keep_columns", "label_set", "pieces", "person_budget", "central_epsilon")
DIALECT = ("delimiter", "encoding", "document")
_FIELDS = (*SETTINGS, *_STRINGS, *_TRUTHS, *_OTHERS, *DIALECT)


def request_of(folder: JobFolder, options: Fields, place: Place) -> tuple[Request, Settings]:
    """What a job has to do. Contradictory options are refused here, before the file is read."""
    refuse_unknown(options, _FIELDS)
    named, kept = {name: string(options, name) for name in _STRINGS}, options.get("keep_columns")
    request = Request(
        folder.source,
        folder.target,
        text_column=_text_columns(options),
        join_columns=truth(options, "join_columns"),
        split=named["split"],
        pieces=whole(options, "pieces"),
        keep_columns=None if kept is None else _strings(kept, "keep_columns must be a list of strings."),
        label_column=named["label_column"],
        labels=named["labels"],
        label_set=_strings(options.get("label_set", []), "label_set must be a list of strings."),
        resume=True,
        person_column=named["person_column"],
        join_documents=truth(options, "join_documents"),
        id_column=named["id_column"],
        missing_person=named["missing_person"] or "refuse",
        person_budget=number(options, "person_budget"),
        sign_key=place.sign_key,
        ledger=place.ledger,
        dialect=dialect_of(options),
        shuffle=truth(options, "shuffle"),
        central_epsilon=number(options, "central_epsilon"),
    )
    return request, settings_of(options)


def dialect_of(options: Fields) -> Dialect:
    """What the name and the first bytes of the file do not say."""
    return Dialect(string(options, "delimiter"), string(options, "encoding"), None, truth(options, "document"))


def _text_columns(options: Fields) -> tuple[str, ...]:
    given = options.get("text_column")
    if given is None or isinstance(given, str):
        return (given or "text",)
    return _strings(given, "text_column must be a string or a list of strings.")


def _strings(given: object, words: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise BadParameter(words)
    return tuple(given)
