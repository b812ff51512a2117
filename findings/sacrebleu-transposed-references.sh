#!/usr/bin/env bash
# sacrebleu 2.6.0, 2026-11-29
# Behaviour: references that are listed per hypothesis, and not per set of references, score the first hypothesis alone:
# BLEU and chrF of two hypotheses, of which the second is wrong, are 100. No warning.
# One would have guessed: an error, as two hypotheses need two references in each set.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check sacrebleu==2.6.0
"$folder/venv/bin/python" - <<'PYTHON'
import sacrebleu

print("sacrebleu", sacrebleu.__version__)
hypotheses = ["a b c d e", "wrong wrong wrong wrong wrong"]
seen = {}
for name, references in (("per hypothesis", [["a b c d e"], ["f g h i j"]]), ("per set", [["a b c d e", "f g h i j"]])):
    bleu = sacrebleu.corpus_bleu(hypotheses, references)
    seen[name] = round(bleu.score), bleu.sys_len, round(sacrebleu.corpus_chrf(hypotheses, references).score)
    print(f"references {name}: BLEU {seen[name][0]} over {seen[name][1]} tokens, chrF {seen[name][2]}")
assert seen["per hypothesis"] == (100, 5, 100), "the behaviour has changed"
assert seen["per set"][:2] == (50, 10) and seen["per set"][2] < 100, "the behaviour has changed"
PYTHON
