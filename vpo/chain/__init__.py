"""The chain: how a prompt requests m answers in one rollout, and how they are read back from its text.

The grammar follows VPO (arXiv 2605.22817): routes and texts are in numbered tags, programs in Python code blocks with
a line `---` between them. Small models keep to it loosely, so reading is lenient about form and strict about content:
nothing is guessed, and `Chain.error` names whatever is left out.
"""

from vpo.chain.parsing import Chain, parse_chain
from vpo.chain.wording import instructions, write_chain, write_edits
from vpo.policies.prompt_formats import default_max_tokens

__all__ = ["Chain", "default_max_tokens", "instructions", "parse_chain", "write_chain", "write_edits"]
