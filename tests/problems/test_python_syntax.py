"""Parsing from several threads at once."""

import gc
import threading
import time

from problems.python_syntax import parse_python


def test_threads_may_parse_while_the_garbage_collector_lets_others_run():
    """In CPython 3.11 two trees under construction at once end in a SystemError."""
    code = "def f(n):\n" + "".join(f"    x{i} = [(a + {i}) * n for a in range({i})]\n" for i in range(100))
    raised = []

    def parse():
        for _ in range(10):
            try:
                parse_python(code)
            except SystemError as error:
                raised.append(error)

    def give_way(phase, info):
        time.sleep(0)

    before = gc.get_threshold()
    gc.set_threshold(50)
    gc.callbacks.append(give_way)
    try:
        threads = [threading.Thread(target=parse) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(give_way)
        gc.set_threshold(*before)
    assert not raised
