"""The model families, by the model_type in config.json."""

from __future__ import annotations

from collections.abc import Mapping

from dpbart.models.adept import ADEPT
from dpbart.models.bart import BART
from dpbart.models.code import CODE
from dpbart.models.model import Family

FAMILIES: Mapping[str, Family] = {each.name: each for each in (BART, ADEPT, CODE)}
