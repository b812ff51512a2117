"""How far it is from `main` to the first stored group of the tutorial's search: functions, files, and frames."""

import json
import re
import subprocess
import sys
import textwrap

from modules import ROOT

FUNCTIONS, FILES, FRAMES = 494, 70, 9
"""At most, in a fresh process. A change that needs more says why in its commit."""
TRACE = textwrap.dedent("""
    import json, sys, threading
    from pathlib import Path
    from evo.cli import main

    root, packages = Path(sys.argv.pop(1)), ("evo", "vpo", "islands", "problems")
    inside = tuple(f"{root / name}/" for name in packages)
    seen, chain = set(), []

    def is_ours(code):
        return code.co_filename.startswith(inside) and not code.co_name.startswith("<") and code.co_flags & 1

    def trace(frame, event, argument):
        if event != "call" or chain or not is_ours(frame.f_code):
            return
        seen.add(frame.f_code)
        if frame.f_code.co_qualname == "Population.add":
            while frame is not None:
                chain.extend([frame.f_code.co_qualname] * bool(is_ours(frame.f_code)))
                frame = frame.f_back

    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        main()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        files = {str(Path(code.co_filename).relative_to(root)) for code in list(seen)}
        Path("depth.json").write_text(json.dumps([len(seen), len(files), chain[::-1]]))
""")


def test_the_way_to_the_first_stored_group_is_short(tmp_path):
    """Class bodies and the bodies of modules are no functions of ours, nor are comprehensions and lambdas."""
    (scorer,) = re.findall(r"```python\n(# jobs\.py.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "jobs.py").write_text(scorer)
    search = ["run", "jobs.py", "--policy", "scripted:mutate", "--iterations", "1", "--plain"]
    done = subprocess.run(
        [sys.executable, "-P", "-c", TRACE, str(ROOT), *search],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    functions, files, chain = json.loads((tmp_path / "depth.json").read_text())
    assert chain[0] == "main" and chain[-1] == "Population.add", chain
    assert functions <= FUNCTIONS and files <= FILES and len(chain) <= FRAMES, (functions, files, chain)
