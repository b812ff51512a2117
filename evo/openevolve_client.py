"""The earlier address of evo.openevolve.client, which OpenEvolve scripts written before 2026-11-22 import."""

from evo.openevolve.client import policy_client

__all__ = ["policy_client"]
