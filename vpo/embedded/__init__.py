"""The embedded policies: small Llamas that write answers in special token languages, and how they are trained.

For a prompt builder and a chain parser:  open_dialect(name) (vpo.embedded.dialects)
For a policy loader:   checkpoint_path("embedded:base") -> a transformers folder
                       dialect_of(folder) -> "maze-compact" or "maze-edit", or a plug-in's
For mazes by hand:     prompt_text(problem, parent=moves, parent_rewards=vector, answers=m) -> the prompt's token string
                       draw_prefill(problem, parent, rng) -> the beginning of a parent's route, to continue
                       routes(rollout.text, prompt) -> the chain's answers as move lists (letters U, D, L, R), in order
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from problems.lazy import lazy_exports

if TYPE_CHECKING:
    from vpo.embedded.by_hand import draw_prefill as draw_prefill
    from vpo.embedded.by_hand import prompt_text as prompt_text
    from vpo.embedded.by_hand import routes as routes
    from vpo.embedded.checkpoint import checkpoint_path as checkpoint_path
    from vpo.embedded.checkpoint import dialect_of as dialect_of
    from vpo.embedded.checkpoint import shipped as shipped
    from vpo.embedded.dialects import open_dialect as open_dialect
    from vpo.embedded.words import DIALECT as DIALECT
    from vpo.embedded.words import EDIT_DIALECT as EDIT_DIALECT
    from vpo.embedded.words import MOST_ANSWERS as MOST_ANSWERS
    from vpo.embedded.words import most_tokens as most_tokens
else:
    __getattr__, __all__ = lazy_exports(
        __name__,
        by_hand="draw_prefill prompt_text routes",
        checkpoint="checkpoint_path dialect_of shipped",
        dialects="open_dialect",
        words="DIALECT EDIT_DIALECT MOST_ANSWERS most_tokens",
    )
