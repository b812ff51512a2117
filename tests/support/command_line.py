"""The command line, called in this process."""

from evo.cli import invoke


def evo(capsys, *arguments):
    """(exit code, stdout, stderr) of `evo ARGUMENTS`."""
    code = invoke(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err
