"""The command line, called in this process."""

from evo.cli import invoke


def evo(capsys, *arguments):
    """(exit code, stdout, stderr) of `evo ARGUMENTS`."""
    code = invoke(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments):
    """What `evo ARGUMENTS` says of bad input: one line, nothing on stdout, exit code 2."""
    code, out, err = evo(capsys, *arguments)
    assert (code, out) == (2, "") and err.startswith("evo: ") and err.count("\n") == 1, (code, out, err)
    return err


def output(capsys, *arguments):
    """What `evo ARGUMENTS` alone prints on stdout; it succeeds."""
    capsys.readouterr()
    code, out, err = evo(capsys, *arguments)
    assert code == 0, err
    return out
