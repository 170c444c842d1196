"""The path of a text: nothing goes around the channel, whatever fails. See docs/conformance.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dpbart import Rewriter
from dpbart.channels.channel import Channel
from dpbart.models.bundle import Bundle
from dpbart.options.rewriting import Request
from dpbart.privacy.facts import Facts, Private
from dpbart.privacy.sampling import Entropy, ReplaySeed
from dpbart.testing import described
from tests.conformance.watched import BOTH, Watched, received, watched_rewriter
from tests.rewrite.jobs import run

SHORT, LONG = "Rain.", "The old captain found nine keys. " * 80
TEXTS = ["", SHORT, "the nurse found an apple .", LONG, "\x00\ud800", "🎉" * 500]
MARK = "Wuppertal-4711"


@dataclass(frozen=True)
class Deaf:
    """A channel that always delivers the first value that it was given."""

    channel: Channel[Any, Any]
    delivered: list[Private[Any]]

    @property
    def facts(self) -> Facts:
        return self.channel.facts

    def send(self, encoded: Any, entropy: Entropy) -> Private[Any]:
        if not self.delivered:
            self.delivered.append(self.channel.send(encoded, entropy))
        return self.delivered[0]


@pytest.mark.parametrize("bundle", ["tiny", "tiny_adept", "tiny_code"])
def test_with_equal_private_values_every_text_gets_the_same_output(bundle: str, request: pytest.FixtureRequest) -> None:
    """So neither a length nor a mask, nor anything else of a text, reaches the decoder on another way."""
    folder, delivered = request.getfixturevalue(bundle).folder, list[Private[Any]]()
    written = set()
    for text in TEXTS:
        rewriter = Rewriter.load(str(folder), epsilon=100, replay_seed=5)
        rewriter = replace(rewriter, channel=Deaf(rewriter.channel, delivered))
        written.add(rewriter.rewrite([text]).texts)
    assert len(written) == 1


@pytest.mark.parametrize("bundle", ["tiny", "tiny_code"])
def test_the_decoder_receives_the_same_shape_for_every_text(bundle: str, request: pytest.FixtureRequest) -> None:
    rewriter = Rewriter.load(str(request.getfixturevalue(bundle).folder), epsilon=100)
    sent = [rewriter.channel.send(rewriter.model.encode([text]), rewriter.entropy).values for text in TEXTS]
    assert len({getattr(values, "shape", len(values)) for values in sent}) == 1


@pytest.mark.parametrize("kind", BOTH)
def test_a_text_is_one_release_and_one_row_however_many_sentences_it_has(kind: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f'id,text\n1,{SHORT}\n2,"{LONG}"\n3,\n')
    rewriter = watched_rewriter(kind)
    card = run(Request(tmp_path / "in.csv", tmp_path / "out.csv"), rewriter)
    assert [len(each.values) for each in received(rewriter)] == [3]
    assert (tmp_path / "out.csv").read_text().splitlines() == ["text"] + ["rewritten"] * 3
    assert (card.rows, card.guarantee.epsilon) == (3, 10.0)


def test_the_number_of_output_sentences_follows_the_code_alone(tiny_code: Bundle) -> None:
    texts = []
    for text in (SHORT, LONG):
        rewriter = Rewriter.load(str(tiny_code.folder), epsilon=10, replay_seed=3)
        rewriter.model.encode([text])
        texts += rewriter.model.decode(rewriter.channel.send([(7,)], ReplaySeed(4)))
    assert texts[0] == texts[1]


def failing(texts: Sequence[str]) -> list[str]:
    raise RuntimeError("the decoder failed")


def leaks(folder: Path) -> list[str]:
    """The files that hold the mark, apart from the input."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "in.csv"]
    return [file.name for file in files if MARK.encode() in file.read_bytes()]


@pytest.mark.parametrize("target", ["out.csv", "-"])
@pytest.mark.parametrize("kind", BOTH)
def test_a_decoder_that_fails_releases_nothing(
    kind: str, target: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text(f"text\n{MARK}\n{MARK}\n")
    out = Path(target) if target == "-" else tmp_path / target
    with pytest.raises(RuntimeError, match="the decoder failed") as failure:
        run(Request(tmp_path / "in.csv", out), watched_rewriter(kind, failing))
    assert MARK not in str(failure.value)
    assert [file.name for file in tmp_path.iterdir()] == ["in.csv"]
    assert MARK not in "".join(capfd.readouterr())


@pytest.mark.parametrize("kind", BOTH)
def test_a_decoder_that_writes_nothing_gives_an_empty_text_and_never_the_original(kind: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"id,text\n1,{MARK}\n2,{MARK}\n")
    run(Request(tmp_path / "in.csv", tmp_path / "out.csv"), watched_rewriter(kind, lambda texts: ["" for _ in texts]))
    assert (tmp_path / "out.csv").read_text().splitlines() == ["text", '""', '""']
    assert leaks(tmp_path) == []


@pytest.mark.parametrize("kind", BOTH)
def test_every_text_is_encoded_even_an_empty_or_unreadable_one(kind: str) -> None:
    rewriter = watched_rewriter(kind)
    done = rewriter.rewrite(TEXTS)
    assert isinstance(rewriter.model, Watched)
    assert rewriter.model.read_texts == TEXTS
    assert done.facts == described(rewriter).facts
    assert sum(len(each.values) for each in received(rewriter)) == len(done.texts) == len(TEXTS)
