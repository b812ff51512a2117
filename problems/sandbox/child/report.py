"""One call of a scorer's function, and what the parent is told of it. Runs in the evaluation, confined."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from .program import describe, send
from .wire import RESULT, TooLarge, Unplain, decode, encode


def report(results: int, find: Callable[[str], Any], task: dict[str, Any], scratch: str, limit: int) -> None:
    """Call what the task names and send [status, value, message]."""
    status, value, message = "error", "null", ""
    try:
        arguments = [os.path.join(scratch, name) if file else decode(name) for file, name in task["arguments"]]
        value = encode(find(task["function"])(*arguments), limit, objects=True)
        status = "ok"
    except MemoryError:
        status, message = "memory", "more memory than allowed"
    except (Unplain, TooLarge) as error:
        message = f"the scorer returned {error}"
    except BaseException as error:
        message = describe(error)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        pass  # the answer has replaced them
    send(results, RESULT, [status, value, message])
