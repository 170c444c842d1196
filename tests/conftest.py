"""Small models and corpora that the tests make themselves; nothing is fetched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: a second thread slows small models down

import pytest
from hypothesis import HealthCheck, settings

from dpbart.models.bundle import Bundle
from dpbart.models.text import Tokens
from dpbart.options.recipes import AdeptRecipe, PretrainRecipe
from dpbart.prepare.adept import TrainedAdept, count_words, new_adept, write_adept
from dpbart.prepare.corpus import CorpusFile, find_corpus
from dpbart.prepare.pretrain import new_bart, train_tokenizer, write_bundle
from tests.models.tiny_code import make_tiny_code

# A busy machine is slow, not wrong. And what is tried is the same in every run: no run fails by luck.
settings.register_profile("fair", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fair")

TINY = PretrainRecipe(length=12, vocabulary=400, width=32, layers=1, heads=2, batch_size=8, steps=6, warmup=2)
TINY_ADEPT = AdeptRecipe(length=12, vocabulary=60, embedding=8, hidden=16, batch_size=8, steps=6, warmup=2)
SUBJECTS = ("the nurse", "a farmer", "my neighbour", "the old captain", "our teacher", "a child", "the baker")
VERBS = ("found", "sold", "painted", "forgot", "carried", "repaired", "described")
OBJECTS = ("a red bicycle", "two letters", "the garden gate", "an apple", "the blue boat", "a song", "nine keys")


def made_up_texts() -> list[str]:
    return [f"{s} {v} {o} ." for s in SUBJECTS for v in VERBS for o in OBJECTS]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[CorpusFile, ...]:
    file = tmp_path_factory.mktemp("corpus") / "made_up.txt"
    file.write_text("\n".join(made_up_texts()) + "\n")
    return find_corpus([file])


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, corpus: tuple[CorpusFile, ...]) -> Bundle:
    """An untrained BART of 32 columns and 12 positions, as a complete bundle."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = folder / "made-tokenizer.json"
    train_tokenizer(corpus, vocabulary=TINY.vocabulary).save(str(tokenizer))
    model = new_bart(TINY, Tokens.load(tokenizer, length=TINY.length))
    bundle = write_bundle(model, tokenizer, corpus, TINY, folder / "tiny")
    return bundle.record(figures={}, clip=0.5)


@pytest.fixture(scope="session")
def tiny_adept(tmp_path_factory: pytest.TempPathFactory, corpus: tuple[CorpusFile, ...]) -> Bundle:
    """An untrained ADePT of 16 + 16 columns that reads 12 ids, as a complete bundle."""
    folder = tmp_path_factory.mktemp("tiny-adept")
    count_words(corpus, TINY_ADEPT).save(str(folder / "tokenizer.json"))
    tokens = Tokens.load(folder / "tokenizer.json", length=TINY_ADEPT.length)
    trained = TrainedAdept(new_adept(TINY_ADEPT, tokens, None), known_words=0)
    return write_adept(trained, folder, corpus, TINY_ADEPT, None, folder / "tiny-adept")


@pytest.fixture
def tiny_copy(tiny: Bundle, tmp_path: Path) -> Path:
    """A copy of the tiny model's directory, which a test may spoil."""
    return shutil.copytree(tiny.folder, tmp_path / "copy")


@pytest.fixture(scope="module")
def no_wait_for_the_disk() -> Iterator[None]:
    """A busy disk takes half a second to say that it has a file; one test looks that it is asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def tiny_code(tmp_path_factory: pytest.TempPathFactory, tiny: Bundle) -> Bundle:
    """An untrained code model that reads 512 tokens and writes 12, as a complete bundle."""
    return make_tiny_code(tiny.folder / "tokenizer.json", tmp_path_factory.mktemp("tiny-code") / "tiny-code")
