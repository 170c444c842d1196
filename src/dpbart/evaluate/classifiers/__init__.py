"""Classifiers that are trained on rewritten texts. To add one: its file, a line in CLASSIFIERS, and its test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from dpbart.evaluate.classifiers.classifier import Classifier
from dpbart.evaluate.classifiers.encoder import EncoderClassifier
from dpbart.evaluate.classifiers.linear import LinearClassifier
from dpbart.evaluate.classifiers.vectors import VectorsClassifier

CLASSIFIERS: dict[str, type[Classifier]] = {
    "encoder": EncoderClassifier,
    "linear": LinearClassifier,
    "vectors": VectorsClassifier,
}


def settings_of(kind: str) -> list[str]:
    """The names of a classifier's settings."""
    return [each.name for each in fields(CLASSIFIERS[kind])]  # type: ignore[arg-type]  # all are dataclasses


def make_classifier(kind: str, settings: Mapping[str, object]) -> Classifier:
    """A classifier with those of the settings that it has. Settings of other classifiers have no effect."""
    return CLASSIFIERS[kind](**{name: settings[name] for name in settings_of(kind) if name in settings})
