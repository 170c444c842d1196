"""The config.json of a model directory, which may not lead to files or code outside the ones that are hashed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpbart.errors import NotPrepared

# With these, transformers loads other weights, or code from the hub, than the files of the directory that we hash.
_LEADS_ELSEWHERE = (
    "_attn_implementation",
    "attn_implementation",
    "auto_map",
    "experts_implementation",
    "fusion_config",
    "quantization_config",
    "transformers_weights",
)
_OTHER_FILES = ("adapter_config.json",)  # an adapter would be loaded on top of the weights


def read_config(folder: Path) -> dict[str, Any]:
    """The settings in config.json.

    Raises:
        NotPrepared: It cannot be read, or would make transformers load anything but this directory's own weights.
    """
    try:
        held = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise NotPrepared(f"'{folder}' is not a model: its config.json cannot be read.") from error
    if not isinstance(held, dict):
        raise NotPrepared(f"'{folder}' is not a model: its config.json must hold an object.")
    found = [name for name in _LEADS_ELSEWHERE if held.get(name) is not None]
    found += [name for name in _OTHER_FILES if (folder / name).exists()]
    if found:
        raise NotPrepared(
            f"'{folder}' must hold all of its weights in model.safetensors and no code, got {', '.join(found)}. "
            "Such a setting loads other weights or code than the card names. Remove it, or choose another model."
        )
    return held
