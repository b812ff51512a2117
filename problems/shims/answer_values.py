# Executed in the process of an isolated answer before the answer is (problems.isolated_answer), and imported by its
# scorer's process (answer_proxy). Every name begins with _evo_, which is no name of an answer's.


def _evo_plain(value: object, depth: int = 0) -> bool:
    """Whether the value crosses between processes."""
    import sys

    numpy = sys.modules.get("numpy")
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return True
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return bool(value.dtype != object)
    if depth < 20 and isinstance(value, (list, tuple, set, frozenset)):
        return all(_evo_plain(item, depth + 1) for item in value)
    if depth < 20 and isinstance(value, dict):
        return all(_evo_plain(item, depth + 1) for pair in value.items() for item in pair)
    return False


def _evo_names(space: dict[str, object]) -> list[tuple[str, str]]:
    """(name, kind) of everything that the answer defines: "class", "call", "value" or "other"."""
    import types

    named = []
    for name, value in list(space.items()):
        if name.startswith(("_evo_", "__")) or isinstance(value, types.ModuleType):
            continue
        if isinstance(value, type):
            kind = "class"
        else:
            kind = "call" if callable(value) else "value" if _evo_plain(value) else "other"
        named.append((name, kind))
    return named


def _evo_arrays(value: object) -> object:
    """The value with numpy arrays again where the wire carried their lists."""
    kind: type = type(value)
    if isinstance(value, list) and kind.__name__ == "Array":
        import numpy

        return numpy.array(list(value))
    if isinstance(value, (list, tuple)) and kind in (list, tuple):
        return kind([_evo_arrays(item) for item in value])
    if isinstance(value, dict) and kind is dict:
        return {key: _evo_arrays(item) for key, item in value.items()}
    return value
