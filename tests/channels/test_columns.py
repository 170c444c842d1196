from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dpbart.channels.columns import Columns, ColumnsChannel
from dpbart.errors import BadParameter, NotPrepared
from dpbart.models.imported import read_pruned_columns
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.mechanisms import Gaussian, NonPrivate
from dpbart.privacy.sampling import ReplaySeed, SystemEntropy

LATENT = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)


def test_restoring_puts_columns_back_and_zeros_elsewhere() -> None:
    columns = Columns.without([1, 2, 6], width=8)
    channel = ColumnsChannel(columns, ByValue(10.0), NonPrivate(), 5)
    restored = channel.send(LATENT, SystemEntropy())
    np.testing.assert_array_equal(restored.values[..., [0, 3, 4, 5, 7]], LATENT[..., [0, 3, 4, 5, 7]])
    assert not restored.values[..., [1, 2, 6]].any()
    assert restored.facts == channel.facts


def test_pruned_columns_carry_no_information() -> None:
    columns = Columns.without([1, 2, 6], width=8)
    other = LATENT.copy()
    other[..., [1, 2, 6]] = 99.0
    np.testing.assert_array_equal(columns.keep(other), columns.keep(LATENT))


@pytest.mark.parametrize("replayed", [False, True])
def test_a_private_value_carries_the_facts_of_the_channel(replayed: bool) -> None:
    """The plan and the card use the channel's facts before anything is sent; the private value must agree."""
    channel = ColumnsChannel(Columns.without([1, 2, 6], width=8), ByValue(10.0), Gaussian(5.0, 1e-5), 5)
    sent = channel.send(LATENT, ReplaySeed(1) if replayed else SystemEntropy())
    assert sent.facts == (channel.facts.replayed() if replayed else channel.facts)
    assert sent.guarantee.private != replayed
    assert channel.facts.figures["entries"] == 5 * 5
    assert channel.facts.recipe == "mech:gaussian|eps:5|delta:1e-05|clip:value:10|kept:5/8"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Columns(8, ()), "keep at least one column"),
        (lambda: Columns(8, (3, 2)), "ascending"),
        (lambda: Columns(8, (2, 2)), "ascending"),
        (lambda: Columns(8, (2, 8)), "below the model's width 8, got column 8"),
        (lambda: Columns.without([9], width=8), "below the model's width 8, got column 9"),
        (lambda: Columns.all(16).keep(LATENT), "must have 16 columns, got 8"),
    ],
)
def test_columns_that_do_not_fit_are_refused(make: object, message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        make()  # type: ignore[operator]


def test_the_authors_index_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "k_prune_neurons_0.pt"
    torch.save(torch.tensor([0, 4, 7]), file)
    assert read_pruned_columns(file) == [0, 4, 7]


@pytest.mark.parametrize("held", [torch.tensor([0.5]), {"a": 1}, torch.tensor([[1, 2]])])
def test_a_file_that_is_not_an_index_file_is_refused(tmp_path: Path, held: object) -> None:
    file = tmp_path / "k_prune_neurons_0.pt"
    torch.save(held, file)
    with pytest.raises(NotPrepared, match="one list of int64 column indices"):
        read_pruned_columns(file)


def test_the_first_and_the_last_column_can_be_pruned_or_kept() -> None:
    assert Columns.without([0, 3], width=4) == Columns(4, (1, 2))
    assert Columns(1, (0,)) == Columns.all(1)
    with pytest.raises(BadParameter, match="without repeats or negative numbers"):
        Columns(4, (-1, 2))


def test_a_decoder_gets_floats_of_32_bits() -> None:
    channel = ColumnsChannel(Columns(4, (1, 2)), ByValue(1.0), Gaussian(10, 1e-5), 3)
    assert channel.send(np.zeros((2, 3, 4), dtype=np.float32), SystemEntropy()).values.dtype == np.float32
