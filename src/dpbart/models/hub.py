"""Model directories: found on this machine or fetched from the Hugging Face hub, and their config.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpbart.errors import DpbartError, NotPrepared, require_extra

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


def find_folder(name: str, *, files: Sequence[str], what: str, remedy: str) -> Path:
    """A directory, or the local copy of a hub id.

    Args:
        name: the path or hub id.
        files: patterns of the only files that are fetched. Never name pickled weights: loading them can run code.
        what: what is sought, for messages, such as "model".
        remedy: how to choose another one.

    Raises:
        NotPrepared: It is neither a directory nor a hub id that can be fetched.
    """
    if Path(name).is_dir():
        return Path(name)
    if name.count("/") > 1 or name.startswith((".", "/")):
        raise NotPrepared(f"no {what} at '{name}'. {remedy}")
    return fetch(name, files=files, what=what, remedy=remedy)


def fetch(
    hub_id: str,
    *,
    files: Sequence[str],
    what: str,
    remedy: str,
    repo_type: str = "model",
    kind: type[DpbartError] = NotPrepared,
) -> Path:
    """Download the files of a hub id, or find them in the hub's cache.

    Raises:
        MissingExtra: The hub's package is not installed.
        DpbartError: Of this kind: the hub does not answer, or has no such files.
    """
    require_extra("bart", "fetching from the hub needs", "huggingface_hub")
    from huggingface_hub import snapshot_download

    failed = f"the {what} '{hub_id}' is not a directory here and could not be fetched from the hub"
    with foreign_errors(failed, remedy=remedy, kind=kind):
        return Path(snapshot_download(hub_id, repo_type=repo_type, allow_patterns=list(files)))


def read_config(folder: Path) -> dict[str, Any]:
    """The settings in config.json.

    Raises:
        NotPrepared: It cannot be read, or would make transformers load anything but this directory's own weights.
    """
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise NotPrepared(f"'{folder}' is not a model: its config.json must hold an object.")
    refused = [name for name in _LEADS_ELSEWHERE if config.get(name) is not None]
    refused += [name for name in _OTHER_FILES if (folder / name).exists()]
    if refused:
        raise NotPrepared(
            f"'{folder}' must hold all of its weights in model.safetensors and no code, got {', '.join(refused)}. "
            "Such a setting loads other weights or code than the card names. Remove it, or choose another model."
        )
    return config


def read_json(file: Path) -> Any:
    """The content of a JSON file of a model.

    Raises:
        NotPrepared: It cannot be read.
    """
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise NotPrepared(
            f"'{file.parent}' is not a model: its {file.name} cannot be read. Download or make it again."
        ) from error


@contextmanager
def foreign_errors(failed: str, *, remedy: str, kind: type[DpbartError] = NotPrepared) -> Iterator[None]:
    """Turn any error of another library into one line: what failed, the error's type, and the remedy.

    Loaders raise many types, which change between versions. Their messages are left out: they may span lines.

    >>> with foreign_errors("the weights cannot be loaded", remedy="Download them again."):
    ...     raise KeyError("encoder")
    Traceback (most recent call last):
    dpbart.errors.NotPrepared: the weights cannot be loaded (KeyError). Download them again.
    """
    try:
        yield
    except DpbartError:
        raise
    except Exception as error:
        raise kind(f"{failed} ({type(error).__name__}). {remedy}") from error
