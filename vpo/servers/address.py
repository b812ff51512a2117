"""Addresses of servers: `openai:MODEL[@URL]` for chat completions of any server, `vllm:ID[@URL]` for vLLM, which is
asked in tokens; without a URL it is started here."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from problems.contract import BadAddress
from problems.redaction import redact, remember
from vpo.policies.address import OwnOptions, PolicyAddress
from vpo.policies.contract import Price

HOSTED = "https://api.openai.com/v1"
_ADDRESS = re.compile(r"(?P<model>.+?)(?:@(?P<url>https?://.*))?", re.DOTALL)
_SECRET_HEADER = re.compile(r"authorization|key|token|secret|cookie", re.IGNORECASE)
_OURS = {"model", "messages", "n", "seed", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stream"}
"""Fields of a request that are no business of `?body=`."""


class ServerOptions(OwnOptions):
    """The options of `openai:`, in addition to vpo.policies.address.PolicySettings."""

    concurrency: int = Field(32, ge=1, le=4096, description="requests at a time")
    retries: int = Field(6, ge=0, le=100, description="retries of a request, after 0.5 to 8 s or as the server says")
    timeout: float = Field(600.0, gt=0.0, description="seconds to wait for the next byte of an answer")
    price: Price | None = Field(
        None,
        description="price of a million tokens of prompt, completion and cached prompt: IN/OUT or IN/OUT/CACHED",
    )
    key: str = Field("OPENAI_API_KEY", description="environment variable that holds the key")
    n: Literal["auto", "off"] = Field("auto", description="auto: one request for the rollouts of a prompt, if possible")
    logprobs: Literal["auto", "off"] = Field("auto", description="auto: with token ids, if the server returns them")
    check: Literal["on", "off"] = Field("on", description="on: the server must list the model")
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = Field(
        None, description="how much a model reasons before it answers: none to xhigh, as far as the model takes it"
    )
    body: dict[str, Any] = Field(default_factory=dict, description="further fields of each request: a JSON object")
    headers: dict[str, str] = Field(
        default_factory=dict, description="further headers: a JSON object; $NAME stands for an environment variable"
    )
    query: dict[str, str] = Field(
        default_factory=dict, description="what the URL of each request ends with: a JSON object"
    )

    @field_validator("price", mode="before")
    @classmethod
    def _read_price(cls, value: object) -> object:
        """`IN/OUT` or `IN/OUT/CACHED`."""
        if not isinstance(value, str):
            return value
        if not re.fullmatch(r"[\d.e-]+(/[\d.e-]+){1,2}", value):
            raise ValueError("write IN/OUT, such as 0.15/0.60")
        read, written, *cached = map(float, value.split("/"))
        return Price(read, written, *(cached or [read]))

    @field_validator("body", "headers", "query", "serve", mode="before", check_fields=False)
    @classmethod
    def _read_object(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise ValueError('write a JSON object, such as {"name":"value"}')
        return parsed

    @model_validator(mode="after")
    def _check(self) -> Self:
        if taken := sorted(self.body.keys() & _OURS):
            raise ValueError(f"body: {', '.join(taken)} cannot be set here: the search sets it, or an option does")
        for name, text in self.headers.items():
            if _SECRET_HEADER.search(name) and "$" not in text:
                raise ValueError(f"headers: write {name} as $NAME, the environment variable that holds it")
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,99}", self.key):
            raise ValueError("key: give the name of an environment variable, in capitals, never a key itself")
        return self


class VllmOptions(ServerOptions):
    """The options of `vllm:`. The first two are for a server that the address names; the
    others are for the one that is started here."""

    served: str | None = Field(None, min_length=1, description="the model's name at the server, if it is not ID")
    adapters: str | None = Field(
        None, min_length=1, description="directory with the same path at the server, for a trainer's adapters"
    )
    lora_rank: int | None = Field(
        None, ge=1, le=512, description="room for a trainer's LoRA adapters; without it the policy cannot be trained"
    )
    context: int | None = Field(
        None, ge=128, description="most tokens of prompt and answer; by default the model's, up to 32,768"
    )
    sequences: int = Field(256, ge=1, le=4096, description="rollouts decoded at a time")
    gpu_memory: float = Field(
        0.8, gt=0.0, le=1.0, description="share of a GPU's memory for weights and cache; 0.4 next to a trainer"
    )
    serve: dict[str, Any] = Field(
        default_factory=dict, description='further flags of vllm serve: a JSON object, such as {"enforce-eager":true}'
    )


@dataclass(frozen=True)
class Endpoint:
    """A model on a server.

    kind: of the address; model: as the server names it; options: of the address
    url: with its path, as the client library takes it
    key: from the environment, "" if none is set
    headers: what each request carries, with the values of the environment
    secrets: the key and what headers took from the environment; no reply that holds one is stored
    """

    kind: str
    model: str
    url: str
    options: ServerOptions
    key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def version(self) -> str:
        name = f"{self.kind}:{self.model}"
        return name if self.url == HOSTED else f"{name}@{self.url}"

    def hidden(self, text: str) -> str:
        """The text on one line, without the key where a server repeats it."""
        return redact(" ".join(text.split()))


def split_model(address: PolicyAddress) -> tuple[str, str]:
    """(model, URL) of MODEL@URL; "" for the URL where it names none. Raises BadAddress."""
    name, form = address.model, f"{address.kind}:MODEL@URL"
    match = _ADDRESS.fullmatch(name)
    if match is None or any(character.isspace() for character in name):
        example = f"{address.kind}:qwen@http://host:8000"
        raise BadAddress(f"policy {address.plain!r} is not an address: {form}, e.g. {example}")
    model, url = match["model"], match["url"] or ""
    if model.endswith("@") or "://" in model:
        raise BadAddress(f"policy {address.plain!r} names no model: {form}")
    return model, url


def endpoint(address: PolicyAddress, settings: object = None) -> Endpoint:
    """What `openai:MODEL@URL` names, without asking anyone. Raises BadAddress, one line, which never holds a key."""
    (model, url), options, server = split_model(address), address.own_options(ServerOptions), ""
    if not url and not (server := os.environ.get("OPENAI_BASE_URL", "")) and "@" in model:  # OpenAI's have none
        name, _, host = model.rpartition("@")
        raise BadAddress(
            f"policy {address.plain!r}: {host!r} is no URL; a server is named with http:// or https://, as in "
            f"openai:{name}@http://{host if re.fullmatch(r'[A-Za-z0-9.:/-]+', host) else 'localhost:8000'}"
        )
    return make_endpoint(address.kind, model, url or server or HOSTED, options)


def make_endpoint(kind: str, model: str, url: str, options: ServerOptions) -> Endpoint:
    """The endpoint at a URL. Raises BadAddress."""
    key = os.environ.get(options.key, "")
    secrets = [key]
    headers = {name: _expand(name, text, secrets) for name, text in options.headers.items()}
    for secret in secrets:
        remember(secret)
    kept = tuple(secret for secret in secrets if len(secret) > 5)
    return Endpoint(kind, model, base_url(url), options, key, headers=headers, secrets=kept)


def _expand(header: str, text: str, secrets: list[str]) -> str:
    """The text with the environment's values for $NAME, which are added to `secrets`. Raises BadAddress."""

    def value(match: re.Match[str]) -> str:
        if not (secret := os.environ.get(match[1], "")):
            raise BadAddress(f"the header {header} needs the environment variable {match[1]}: set it")
        secrets.append(secret)
        return secret

    return re.sub(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?", value, text)


def base_url(url: str) -> str:
    """The URL below which the API lies; without a path that is /v1. Raises BadAddress on what is no plain URL."""
    parts = urlsplit(url)
    try:
        wrong = not parts.hostname or parts.scheme not in ("http", "https") or (parts.port or 1) < 1
    except ValueError:
        wrong = True
    if parts.username or parts.password:
        raise BadAddress(f"the URL at {parts.hostname} must hold no user or password; set OPENAI_API_KEY instead")
    if wrong or parts.fragment or parts.query:
        raise BadAddress(f"{url!r} is not the URL of a server, such as http://localhost:8000/v1")
    path = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/chat")
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"
