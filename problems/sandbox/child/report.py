"""One call of a scorer's function, and what the parent is told of it. Runs in the evaluation, confined."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from .program import Feed, describe, send
from .wire import ORACLE, RESULT, TooLarge, Unplain, decode, encode


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


def questions(results: int, feed: Feed, limit: int) -> Callable[..., Any]:
    """What asks the parent, from this process alone and one thread at a time: (name, *args, **kwargs) -> its reply.

    An exchange that is broken off (by the exception of a signal's handler) leaves no way to tell its reply from the
    next one's, so it is the last.
    """
    lock, own, broken = threading.Lock(), os.getpid(), [False]

    def ask(name: str, /, *args: Any, **kwargs: Any) -> Any:
        if os.getpid() != own:
            raise RuntimeError("only the process of the evaluation itself can ask")
        body = [name, encode(list(args), limit), encode(kwargs, limit)]
        with lock:
            if broken[0]:
                raise RuntimeError("an earlier question was broken off")
            broken[0] = True
            send(results, ORACLE, body)
            reply = feed.read()
            broken[0] = False
        if reply["error"] is not None:
            raise RuntimeError(reply["error"])
        return decode(reply["value"])

    return ask
