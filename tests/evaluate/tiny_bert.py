"""A BERT with small random weights, as a sentence-transformers directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))


def make_tiny_bert(tokenizer: Path, out: Path, *, pooling: str = "mean_tokens", longest: int | None = 10) -> Path:
    """Reads 16 tokens at most, or `longest` if that is given."""
    config = BertConfig(
        vocab_size=400,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        pad_token_id=1,
        initializer_range=0.5,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).eval().save_pretrained(out)
    shutil.copyfile(tokenizer, out / "tokenizer.json")
    modules = [{"idx": i, "path": path, "type": f"some.{kind}"} for i, (path, kind) in enumerate(MODULES)]
    (out / "modules.json").write_text(json.dumps(modules))
    (out / "1_Pooling").mkdir(exist_ok=True)
    modes = {f"pooling_mode_{each}": each == pooling for each in ("cls_token", "mean_tokens", "max_tokens")}
    (out / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **modes}))
    if longest is not None:
        (out / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest}))
    return out
