"""Sentence encoders with small random weights, made in the test: real directories, and nothing is learned."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

WORDS = "the a my our an nurse farmer child baker found sold painted forgot red two letters apple boat song keys ."


def make_teacher(
    folder: Path, *, width: int = 16, layers: int = 1, inner: int = 16, texts: Iterable[str] = (WORDS,)
) -> Path:
    """A sentence-transformers directory as far as it is read: a BERT that knows the words of these texts."""
    tokenizer = _tokenizer(texts)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=inner,
        max_position_embeddings=40,
    )
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        bert = BertModel(config)
        torch.nn.init.normal_(bert.embeddings.word_embeddings.weight[4:])  # so that other words give other vectors
        bert.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    return folder


def make_static(folder: Path, *, width: int = 16, texts: Iterable[str] = (WORDS,)) -> Path:
    """A model2vec directory: a vector for each word of these texts."""
    tokenizer = _tokenizer(texts)
    folder.mkdir()
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), width)).astype(np.float16)
    save_file({"embeddings": table}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True, "hidden_dim": width}))
    (folder / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}])
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def _tokenizer(texts: Iterable[str]) -> Tokenizer:
    normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    split = [splitter.pre_tokenize_str(normalizer.normalize_str(text)) for text in texts]
    words = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(word for each in split for word, _ in each)])
    tokenizer = Tokenizer(models.WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer
