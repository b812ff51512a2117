"""Whether a hub has a model, found out in seconds: the libraries that load one ask a hub out of reach for a minute."""

from __future__ import annotations

from functools import lru_cache

from problems.contract import BadAddress

HUB_SECONDS = 5.0
"""How long a hub may take to answer."""
INSTEAD = "name a directory, embedded:NAME or openai:MODEL@URL, or for answers without a model scripted:mutate"


@lru_cache(maxsize=64)
def only_cached(name: str) -> bool:
    """Whether a hub's model is to be loaded from the files that were fetched before, since the hub is out of reach.

    name: a hub id
    Asks the hub once, with a limit of HUB_SECONDS. Raises BadAddress, one line, where the hub has no such model, or
    where it is out of reach and nothing of the model was fetched before.
    """
    from huggingface_hub import constants, get_session, get_token, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = isinstance(try_to_load_from_cache(name, "config.json"), str)
    except HFValidationError:
        raise BadAddress(f"policy {name!r} is neither a directory here nor a hub id; {INSTEAD}") from None
    if constants.HF_HUB_OFFLINE:
        if cached:
            return True
        raise BadAddress(
            f"policy {name!r}: no such directory, none of the models fetched before, and HF_HUB_OFFLINE is set; "
            f"{INSTEAD}"
        )
    token = get_token()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    url = hf_hub_url(name, "config.json")
    try:
        answer = get_session().head(url, headers=headers, timeout=HUB_SECONDS, follow_redirects=True)
        status = int(answer.status_code)
    except Exception as error:  # noqa: BLE001 - whatever the library's client of today raises
        status, reason = 0, " ".join(str(error).split()) or type(error).__name__
    else:
        reason = f"it answers {status}"
    if status == 200 or cached:
        return status != 200
    if 400 <= status < 500:
        private = "" if token else ", or it is private and HF_TOKEN is not set"
        raise BadAddress(f"policy {name!r}: no such directory, and {constants.ENDPOINT} has no such model{private}")
    raise BadAddress(
        f"policy {name!r}: no such directory, and {constants.ENDPOINT} cannot be reached ({reason}); {INSTEAD}"
    )
