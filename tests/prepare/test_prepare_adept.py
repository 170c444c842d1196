from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from dpbart.cli import cli
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.adept import AdeptForGeneration
from dpbart.models.bundle import Bundle
from dpbart.models.text import Tokens
from dpbart.options.recipes import AdeptRecipe, NoisyRecipe, PruneRecipe
from dpbart.prepare.adept import WordObjective, count_words, into_ball, new_adept, train_adept
from dpbart.prepare.clip import Copies
from dpbart.prepare.corpus import CorpusFile, find_corpus
from dpbart.prepare.noisy import train_noisy
from dpbart.prepare.prune import prune
from dpbart.privacy.clipping import ByNorm
from tests.command_line import succeed

TINY = AdeptRecipe(length=12, vocabulary=60, embedding=4, hidden=8, batch_size=8, steps=6, warmup=2)


def test_the_papers_sizes_are_the_default() -> None:
    recipe = AdeptRecipe()
    assert (recipe.embedding, recipe.hidden, recipe.vocabulary, recipe.clip) == (300, 512, 20_000, 5.0)


def objective_of(model: AdeptForGeneration, radius: float) -> WordObjective:
    words = int(model.config.vocab_size)
    return WordObjective(model, radius, torch.full((words,), 1 / words))


def all_words(model: AdeptForGeneration) -> torch.Tensor:
    return torch.arange(model.config.vocab_size)


def test_the_training_clip_is_the_clip_of_rewriting() -> None:
    latent = np.random.default_rng(0).normal(size=(6, 1, 32)).astype(np.float32)
    latent *= np.array([0, 0.01, 0.5, 1, 5, 1e4], dtype=np.float32).reshape(6, 1, 1)
    trained = into_ball(torch.from_numpy(latent), 5.0).numpy()
    np.testing.assert_allclose(trained, ByNorm(5.0).clip(latent).values, rtol=1e-5)


def test_the_clip_stands_between_the_halves_and_has_a_gradient(tiny_adept: Bundle) -> None:
    tokens = Tokens.load(tiny_adept.folder / "tokenizer.json", length=12)
    whole = torch.from_numpy(tokens.encode(["the nurse found an apple .", "a child sold nine keys ."]))
    model = new_adept(TINY.changed(hidden=16), tokens, None)
    with torch.no_grad():
        losses = [float(objective_of(model, radius)(whole, all_words(model))) for radius in (1e-6, 0.1, 1e6)]
    assert len({round(loss, 4) for loss in losses}) == 3
    seen: list[torch.Tensor] = []
    model.decoder.register_forward_pre_hook(lambda _, given: seen.append(given[1]))
    objective_of(model, 0.1)(whole, all_words(model)).backward()
    torch.testing.assert_close(seen[0].norm(dim=2), torch.full((2, 1), 0.1))
    gradient = model.encoder.rnn.get_parameter("weight_hh_l0").grad
    assert gradient is not None
    assert float(gradient.abs().sum()) > 0


def test_the_loss_is_of_the_next_word_and_not_of_padding(tiny_adept: Bundle) -> None:
    tokens = Tokens.load(tiny_adept.folder / "tokenizer.json", length=12)
    model = new_adept(TINY, tokens, None)
    whole = torch.from_numpy(tokens.encode(["an apple", "the nurse found a song ."]))
    with torch.no_grad():
        latent = into_ball(model.encoder(whole).last_hidden_state, 5.0)
        scores = torch.log_softmax(model.decoder.generator(model.decoder(whole, latent)), dim=2)
        wanted = [(row, at) for row in range(2) for at in range(1, 12) if whole[row, at] != 1]
        by_hand = -np.mean([float(scores[row, at - 1, whole[row, at]]) for row, at in wanted])
        assert float(objective_of(model, 5.0)(whole, all_words(model))) == pytest.approx(by_hand, rel=1e-5)


def test_a_sampled_softmax_has_the_right_sum_on_average(tiny_adept: Bundle) -> None:
    """The words of a batch are random too, by their frequency. So both texts and rivals are sampled here."""
    tokens = Tokens.load(tiny_adept.folder / "tokenizer.json", length=12)
    random, words, size = np.random.default_rng(0), tokens.size, 9
    frequency = random.dirichlet(np.full(words, 0.3))
    objective = WordObjective(new_adept(TINY, tokens, None), 5.0, torch.from_numpy(frequency).float())
    scores = torch.from_numpy(random.normal(size=words)).float()
    generator = objective.adept.decoder.generator
    with torch.no_grad():
        generator.weight.zero_()  # the same scores whatever the latent
        generator.bias.copy_(scores)
        sums = []
        for _ in range(2000):
            whole = torch.from_numpy(np.concatenate([[0], random.choice(words, size=size, p=frequency)])[None])
            whole[whole == 1] = 0  # padding would not count
            sampled = torch.from_numpy(random.choice(words, size=7, replace=False))
            loss = float(objective(whole, sampled))
            sums.append(np.exp(loss + float((scores - chosen(objective, size, 7 / words))[whole[0, 1:]].mean())))
    assert np.mean(sums) == pytest.approx(float(scores.exp().sum()), rel=0.05)


def chosen(objective: WordObjective, size: int, share: float) -> torch.Tensor:
    """Logarithm of the chance that each word is among the rivals, computed independently."""
    return torch.log(1 - (1 - objective.frequency) ** size * (1 - share))


def test_at_the_end_all_words_compete() -> None:
    recipe = AdeptRecipe(steps=1000)
    assert [recipe.candidates_at(step, words=20_000) for step in (0, 899, 900, 999)] == [1000, 1000, 20_000, 20_000]
    assert recipe.candidates_at(0, words=500) == 500


def test_the_vocabulary_is_the_commonest_words_of_training_text(tmp_path: Path) -> None:
    file = tmp_path / "public.txt"
    file.write_text("\n".join(["The cat saw the dog."] * 150 + ["The cat ran."] * 48 + ["secret secret secret"] * 2))
    words = count_words(find_corpus([file]), TINY.changed(vocabulary=7)).get_vocab()
    assert sorted(words, key=lambda word: words[word])[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert set(words) == {"<s>", "<pad>", "</s>", "<unk>", "the", "cat", "."}
    assert "secret" not in count_words(find_corpus([file]), TINY).get_vocab()  # held out: the last 1%


def test_known_words_start_from_their_vectors_in_both_halves(corpus: tuple[CorpusFile, ...], tmp_path: Path) -> None:
    glove = tmp_path / "vectors.txt"
    glove.write_text("apple 1 2 3 4\nunheard 9 9 9 9\n")
    trained = train_adept(corpus, TINY.changed(steps=1, learning_rate=1e-30), glove, tmp_path / "training")
    assert trained is not None
    assert trained.known_words == 1
    number = Tokens.load(tmp_path / "training" / "tokenizer.json", length=12).id_of("apple")
    for half in (trained.model.encoder, trained.model.decoder):
        torch.testing.assert_close(half.embeds.weight[number], torch.tensor([1.0, 2.0, 3.0, 4.0]))
    glove.write_text("apple 1 2 3 5\n")
    with pytest.raises(BadParameter, match="started with another glove"):
        train_adept(corpus, TINY.changed(steps=1, learning_rate=1e-30), glove, tmp_path / "training")


def test_an_interrupted_training_ends_with_the_same_weights(
    corpus: tuple[CorpusFile, ...], tmp_path: Path, stopped_at: Callable[[int], AbstractContextManager[None]]
) -> None:
    whole = train_adept(corpus, TINY, None, tmp_path / "whole")
    with stopped_at(6):
        train_adept(corpus, TINY, None, tmp_path / "stopped")
    resumed = train_adept(corpus, TINY, None, tmp_path / "stopped")
    assert whole is not None
    assert resumed is not None
    torch.testing.assert_close(resumed.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)


def test_it_learns_to_copy(corpus: tuple[CorpusFile, ...], tmp_path: Path) -> None:
    recipe = TINY.changed(embedding=16, hidden=48, batch_size=32, steps=350, learning_rate=1e-2)
    trained = train_adept(corpus, recipe, None, tmp_path)
    assert trained is not None
    ids = np.fromfile(tmp_path / "corpus-ids.bin", dtype=np.uint32).reshape(-1, 12).astype(np.int64)
    with torch.no_grad():
        loss = objective_of(trained.model, recipe.clip)(torch.from_numpy(ids), all_words(trained.model))
        assert float(loss) < 0.3  # untrained: log(60) = 4


@pytest.mark.parametrize("wrong", [{"length": 2}, {"vocabulary": 4}, {"embedding": 0}, {"hidden": 0}, {"steps": 0}])
def test_an_impossible_recipe_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadParameter, match=f"{next(iter(wrong))} must be"):
        TINY.changed(**wrong)


def test_an_impossible_radius_is_refused() -> None:
    with pytest.raises(BadParameter, match="bound must be between"):
        TINY.changed(clip=0.0)


def test_copies_are_scored_against_the_text_as_read_and_against_the_full_text() -> None:
    texts = ["The cat saw Zanzibar at night", "One two three four five"]
    copies = Copies(texts, ["the cat saw at night", "one two three four five"], ["the cat saw at night", "one two x"])
    assert copies.up_to(5).texts == texts[1:]
    assert replace(copies, written=copies.fitting).bleu == pytest.approx(100)
    assert replace(copies, written=copies.fitting).bleu_of_whole < 90
    assert replace(copies, written=[text.lower() for text in texts]).bleu_of_whole == pytest.approx(100)


def test_a_corpus_without_short_texts_has_no_figure_for_them() -> None:
    long = " ".join(["word"] * 13)
    assert set(Copies([long], [long], [long]).figures()) == {"all_texts"}
    assert set(Copies(["word"], ["word"], ["word"]).figures()) == {"all_texts", "up_to_12_words"}


def test_commands_for_bart_refuse_an_adept(corpus: tuple[CorpusFile, ...], tiny_adept: Bundle, tmp_path: Path) -> None:
    with pytest.raises(NotPrepared, match="'tiny-adept' is not a BART .*, but pruning reads"):
        prune(tiny_adept, corpus, PruneRecipe(), tmp_path / "pruned", texts=1)
    with pytest.raises(NotPrepared, match="'tiny-adept' is not a BART .*, but PR\\+"):
        train_noisy(tiny_adept, corpus, NoisyRecipe(), tmp_path / "noisy")
    assert not list(tmp_path.iterdir())
    args = ["prepare", "clip", "--model", str(tiny_adept.folder), "--corpus", str(corpus[0].path)]
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == 1
    assert "its clip is part of its training" in done.stderr


def test_a_model_is_made_from_text_and_rewrites_by_the_commands_alone(tmp_path: Path) -> None:
    texts = [f"{who} {did} {what} ." for who in "abcdefghij" for did in "klmnopqrst" for what in "uvwxyz"]
    (tmp_path / "public.txt").write_text("\n".join(texts))
    (tmp_path / "glove.txt").write_text("a 1 2\nb 2 3\n")

    made = ("prepare", "adept", "--corpus", tmp_path / "public.txt", "--texts", 6, "--out", tmp_path / "model")
    sizes = ("--steps", 4, "--embedding", 2, "--hidden", 8, "--vocabulary", 40, "--length", 8)
    shown = succeed(*made, *sizes, "--glove", tmp_path / "glove.txt")
    assert "glove.txt: has vectors for 2 of 31 words." in shown
    assert "up to 12 words: BLEU" in shown
    facts = json.loads((tmp_path / "model" / "dpbart.json").read_text())
    assert (facts["variant"], facts["clip"], facts["width"], facts["length"]) == ("adept", 5.0, 16, 8)
    assert facts["recipe"]["adept"]["glove"]["name"] == "glove.txt"
    assert facts["recipe"]["adept"]["glove"]["words_known"] == 2
    assert facts["corpora"][0]["texts"] == 600
    assert set(json.loads(succeed(*made, *sizes, "--glove", tmp_path / "glove.txt", "--json"))) == set(facts["figures"])
    (tmp_path / "in.txt").write_text("a k u .\n")
    succeed("rewrite", tmp_path / "in.txt", tmp_path / "out.txt", "--epsilon", 100, "--model", tmp_path / "model")
    card = json.loads((tmp_path / "out.txt.card.json").read_text())
    assert (card["noise"]["entries"], card["noise"]["clip"]) == (16, "l2:5")
    assert card["noise"]["sensitivity_l2"] == 10
    assert card["noise"]["sensitivity_l1"] == pytest.approx(40)
    assert (card["model"]["variant"], card["model"]["length"]) == ("adept", 8)
