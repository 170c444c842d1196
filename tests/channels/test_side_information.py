"""Side information is public, and distinguishes budgets and rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpbart.channels.columns import EDGES, TOKENS, Columns, ColumnsChannel, SideInformation, budget_token, row_places
from dpbart.privacy.clipping import ByValue
from dpbart.privacy.mechanisms import Gaussian, NonPrivate
from dpbart.privacy.sampling import SystemEntropy


def test_each_range_of_budgets_has_its_token() -> None:
    tokens = [budget_token(bits) for bits in (0.0, 0.7, 8, 138, 800, 1e9, math.inf)]
    assert tokens[0] == tokens[1] == TOKENS[0]
    assert tokens[-1] == tokens[-2] == TOKENS[-1]
    assert len(set(tokens)) == 5


def test_a_range_begins_at_its_edge() -> None:
    assert [budget_token(edge) for edge in EDGES] == list(TOKENS[1:])
    assert [budget_token(math.nextafter(edge, 0)) for edge in EDGES] == list(TOKENS[:-1])


def test_places_are_sines_and_cosines_of_longer_and_longer_waves() -> None:
    """Vaswani et al. 2017, section 3.5, with waves up to 2 pi 1000."""
    places = row_places(Columns(6, (1, 3)), length=4)
    slow = 1000**-0.5
    for row in range(4):
        waves = [math.sin(row), math.cos(row), math.sin(row * slow), math.cos(row * slow)]
        np.testing.assert_allclose(places[row, [0, 2, 4, 5]], waves, atol=1e-6)


@pytest.mark.parametrize(("width", "kept"), [(256, 61), (768, 182), (32, 30)])
@pytest.mark.parametrize("length", [20, 100])
def test_every_row_has_unique_places_in_the_pruned_columns(width: int, kept: int, length: int) -> None:
    columns = Columns(width, tuple(range(kept)))
    places = row_places(columns, length=length)
    assert places.shape == (length, width)
    assert not places[:, :kept].any()
    assert np.abs(places).max() <= 1
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1) + 9 * np.eye(length)
    assert apart.min() > 0.005


def test_a_model_without_pruned_columns_has_no_places() -> None:
    assert not row_places(Columns.all(8), length=5).any()


@pytest.mark.parametrize("epsilon", [10.0, 250.0, 2500.0])
@pytest.mark.parametrize("bound", [0.1, 1.0])
def test_the_noised_columns_have_the_same_power_at_every_budget(epsilon: float, bound: float) -> None:
    columns, clip = Columns(80, tuple(range(60))), ByValue(bound)
    mechanism = Gaussian(epsilon, 1e-5)
    public = SideInformation.of(mechanism, clip, columns, length=20)
    signal = np.zeros((16, 20, 80), dtype=np.float32)
    signal[..., :60] = np.tile([bound, -bound], (16, 20, 30))  # as strong as the clip allows
    channel = ColumnsChannel(columns, clip, mechanism, 20, public)
    received = channel.send(signal, SystemEntropy()).values[..., :60] / bound
    assert float(np.square(received).mean()) == pytest.approx(1.0, abs=0.1)  # ten standard errors


def test_without_noise_the_kept_columns_are_unchanged() -> None:
    columns, clip = Columns(6, (0, 2)), ByValue(1.0)
    public = SideInformation.of(NonPrivate(), clip, columns, length=3)
    latent = np.linspace(-0.9, 0.9, 18, dtype=np.float32).reshape(1, 3, 6)
    received = ColumnsChannel(columns, clip, NonPrivate(), 3, public).send(latent, SystemEntropy())
    np.testing.assert_allclose(received.values[..., [0, 2]], latent[..., [0, 2]], rtol=1e-6)
    np.testing.assert_array_equal(received.values[0][:, [1, 3, 4, 5]], public.places[:, [1, 3, 4, 5]])
