"""New weights of a code model, before training: seeded, so they belong to preparation."""

from __future__ import annotations

import torch
from torch import nn

from dpbart.models.code.sentence import SentenceEncoder, SentenceSizes
from dpbart.models.code.writer import Writer, WriterSizes


def fresh_sentence(sizes: SentenceSizes, *, seed: int) -> SentenceEncoder:
    """A sentence encoder that begins as a bag of tokens: what mixes positions begins at 0."""
    torch.manual_seed(seed)
    encoder = SentenceEncoder(sizes)
    for module in (encoder.score, encoder.down, encoder.before, encoder.after, encoder.skip):
        nn.init.zeros_(module.weight)
    for name, weight in encoder.layers.named_parameters():
        if name.endswith(("out.weight", "down.weight")):
            nn.init.zeros_(weight)
    nn.init.normal_(encoder.place.weight, std=0.02)
    return encoder


def fresh_writer(sizes: WriterSizes, *, seed: int) -> Writer:
    """A writer whose blocks begin as identities, and whose gist begins without effect."""
    torch.manual_seed(seed)
    writer = Writer(sizes)
    for table in (writer.place, writer.depth, writer.gist):
        nn.init.normal_(table.weight, std=0.02)
    nn.init.zeros_(writer.to_all.weight)
    nn.init.zeros_(writer.to_out.weight)
    nn.init.normal_(writer.gist2.weight, std=sizes.width**-0.5)
    nn.init.zeros_(writer.unembed.bias)
    for name, weight in writer.blocks.named_parameters():
        if name.endswith(("qkv.weight", "up.weight")):
            nn.init.normal_(weight, std=0.7 * sizes.width**-0.5)
        elif name.endswith(("out.weight", "down.weight")):
            nn.init.zeros_(weight)
    return writer
