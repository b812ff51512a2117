"""What may come next in answers of `rule-edit`, and a policy of the language before training."""

from __future__ import annotations

from pathlib import Path

from evo.plugins.formulas.edits.answer_grammar import FormulaGrammar
from evo.plugins.formulas.edits.words import FUNCTION_WORDS
from evo.plugins.rules.rule import FUNCTIONS, MOST_NODES


class RuleGrammar(FormulaGrammar):
    """As that of formulas, with the functions and the size of rules."""

    functions = tuple(FUNCTION_WORDS[code] for code in FUNCTIONS)
    most_nodes = MOST_NODES


def write_untrained(folder: str | Path, seed: int, width: int = 64, layers: int = 2) -> None:
    """Save a Llama of random weights that writes `rule-edit`. seed: of the weights"""
    from vpo.languages.pretrain import build_model, build_tokenizer
    from vpo.training.checkpoint import save_checkpoint

    card = f"# An untrained policy for rules\n\nWidth {width}, {layers} layers, seed {seed}.\n"
    model = build_model(width, layers, 4, seed, "rule-edit")
    save_checkpoint(model, build_tokenizer("rule-edit"), folder, card)
