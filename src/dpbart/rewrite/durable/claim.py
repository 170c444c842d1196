"""One payment, one draw: a run continues from one folder only, whoever has copied it.

The folder of a run and the ledger share a nonce, which changes whenever the run is resumed. So of all copies of a
folder, one can resume: the ledger knows the nonce of that one from then on, and refuses the others.

The new nonce is written to the folder first, next to the old one, and then to the ledger. After a crash between the two
the ledger still has the old one; after a crash later it has the new one. The folder has both, and can resume.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

from dpbart.errors import NotResumable
from dpbart.rewrite.account import Account
from dpbart.rewrite.durable.unfinished import UnfinishedRun

STAYS_SPENT = "Start again with --overwrite; what the ledger has recorded stays spent."


def claim(account: Account, unfinished: UnfinishedRun, target: Path, *, mechanism: str, model: str) -> Account:
    """Make this folder the only one from which the run continues. A new run is entered in the ledger.

    Raises:
        NotResumable: The run has finished, or was resumed from another copy of the folder.
    """
    held = unfinished.nonces
    account = replace(account, run=unfinished.run, nonce=held[-1])
    account.begin(mechanism=mechanism, model=model)
    known = account.progress()
    if known is None:
        return account
    # A run that was killed after its output was written, and before its folder was deleted, has both.
    if known.finished is not None and not target.exists():
        raise NotResumable(
            f"run {unfinished.run} has finished on {known.finished}, so {str(unfinished.folder)!r} is a copy of its "
            f"folder. Its texts were released and are not drawn again. {STAYS_SPENT}"
        )
    if known.nonce not in held:
        raise NotResumable(
            f"{str(unfinished.folder)!r} is a copy or an older state of the folder of run {unfinished.run}, which was "
            f"resumed elsewhere. A text may be drawn only once for each payment. Resume that folder. {STAYS_SPENT}"
        )
    new = secrets.token_hex(16)
    unfinished.write_nonces(known.nonce, new)
    return replace(account, nonce=known.nonce).renew(new)
