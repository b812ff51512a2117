"""Parent choice: figures of finished comparisons whose arms differ in their islands alone, one section a comparison.

    evo compare --config bench/selection/classic.yaml --db sqlite:///classic.db --name classic
    evo compare --config bench/selection/compromise.yaml --db sqlite:///compromise.db --name compromise
    python bench/selection.py classic=sqlite:///classic.db compromise=sqlite:///compromise.db ...

edit.yaml asks a policy that `evo pretrain maze-edit --start embedded:base --steps 3000 --lr 1e-3 --precision bf16 -o
edit` makes. The arms of every comparison are named alike (STRATEGY-ISLANDS), so that the first table can set them side
by side: the solve rate at the end, or the mean best fitness where the problem has no target.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.search import arms_table, differences, head  # noqa: E402
from bench.tables import markdown  # noqa: E402
from evo.comparison.load import gather, load_results  # noqa: E402
from evo.comparison.table import as_dict, costs_of  # noqa: E402
from evo.comparison.verdict import Summary, summarise  # noqa: E402
from islands.db.store import Store  # noqa: E402

REFERENCE = "openevolve-5"
"""OpenEvolve's own choice."""
_FOLDERS = re.compile(r"(?<![\w:/])/[\w./-]*/(?=[\w.-]+)")
"""Where files of this machine lay."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparisons", nargs="+", metavar="NAME=DB")
    parser.add_argument("-o", "--output", default="bench/results/selection.md")
    parser.add_argument("--against", default=REFERENCE, help="the arm that differences are from")
    options = parser.parse_args()
    sections, summaries, records = [], dict[str, Summary](), dict[str, Any]()
    for given in options.comparisons:
        name, _, db = given.partition("=")
        with Store.open(db, read_only=True) as store:
            comparison = gather(store, name, options.against)
            found = load_results(store, comparison)
            summary = summarise(found, comparison.reference, crossed_seeds=comparison.crossed_seeds)
            costs = {arm.name: costs_of(store, arm) for arm in comparison.arms}
        parts = [head(comparison), arms_table(comparison, found, summary, costs), differences(summary)]
        # a section each: one heading level below the page's
        section = "\n\n".join(parts).replace("\n## ", "\n### ").replace("# Search on", f"## {name}:", 1)
        sections.append(
            _FOLDERS.sub("", section.replace("--config bench/", "--config ")).replace(
                "--config ", "--config bench/selection/"
            )
        )
        summaries[name], records[name] = summary, as_dict(comparison, summary, costs)
    output = Path(options.output)
    page = ["# Parent choice, measured", side_by_side(summaries), *sections]
    output.write_text("\n\n".join(page) + "\n", encoding="utf-8")
    record = _FOLDERS.sub("", json.dumps(records, indent=1))
    output.with_suffix(".json").write_text(record + "\n", encoding="utf-8")


def side_by_side(summaries: Mapping[str, Summary]) -> str:
    """Arms by comparisons."""
    arms = list(dict.fromkeys(arm for summary in summaries.values() for arm in summary.arms))
    rows = [["arm", *summaries]]
    for arm in arms:
        rows.append([arm, *(_figure(summary, arm) for summary in summaries.values())])
    return markdown(rows)


def _figure(summary: Summary, arm: str) -> str:
    one = summary.arms.get(arm)
    found = None if one is None else one.solved or one.best
    return "-" if found is None else f"{found.mean:.3f} [{found.low:.2f}, {found.high:.2f}]"


if __name__ == "__main__":
    main()
