"""The page behind `?`: the keys, and what every word and sign on the screen means."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from evo.tui.line import Line, Lines, wrap
from evo.tui.palette import STRONG
from evo.tui.widgets import LinesView

KEYS = (
    ("up down, k j", "another problem; in the detail: scroll. The wheel scrolls what it is over"),
    ("page up, page down", "a page; also home and end, g and G"),
    ("enter, a click", "the best answer to the chosen problem: vector, lineage, what it changed in its parent, the"
     " statement (a maze with the way through it), the prompt, the full text; escape goes back"),
    ("left right", "in the detail: another arm; n and b: another problem"),
    ("tab, a click", "another panel, where there is no room for all"),
    ("/", "search problems by name; enter keeps what was typed, escape takes it back"),
    ("u", "only problems that no arm has solved"),
    ("d", "only problems on which arms differ: some have solved it and some have not"),
    ("s", "only one set of problems, then the next one, then all"),
    ("o, O", "another order: by number, name, who won, each arm's outcome; O turns it round. Also a click on a title"),
    ("ctrl+l", "paint the screen anew"),
)  # fmt: skip
WORDS = (
    ("The head", ""),
    ("arm", "one side of a comparison: a policy, or a way of searching, with its colour and mark, the same everywhere"),
    ("iteration", "one prompt for one problem, with all the answers that were sampled from it"),
    ("solved", "searches (a problem under one seed) that have come to the target, of how many"),
    ("rate [95%]", "the share solved as the curve estimates it (Kaplan-Meier), and its 95% interval"),
    ("mean best", "best fitness so far, the mean over searches"),
    ("ans/s, tok/s", "answers and tokens sampled per second, all runs of the arm together"),
    ("busy", "share of the time in which the policy was sampling; the rest it waited for scores and for the database"),
    ("queue", "answers that wait to be scored, or are being scored"),
    ("errors", "answers that could not be scored; the panel of that name counts their kinds"),
    ("in flight", "iterations that were begun and not stored yet; sampled: those that wait for an older one"),
    ("→", "a verdict: the difference to the reference, its 95% interval over problems, and p, the chance of one so"
     " large by luck alone. It is said to be shown where p is at most .05 and the interval leaves out 0; else none is"),
    ("reference", "the arm that others are measured against: grpo where there is one, or --against ARM"),
    ("area", "in tables of evo compare: the area under the solve rate's curve, 1 for solving all at once"),
    ("half", "there: the iteration by which half of the searches were solved"),
    ("The table of problems", ""),
    ("@12", "solved after 12 iterations, the median over seeds; 1/3@12: by one seed of three; @0: by the seed answer"),
    (".750", "not solved: the best fitness so far, the mean over seeds"),
    ("+ won", "against the reference: solved under more seeds, or under all and sooner (+12it: by 12 iterations), or"
     " under as many and a higher best fitness (+.250)"),
    ("- lost, = level", "the same the other way round, and neither. As far as the searches have come"),
    ("curve", "how the best fitness rose over the iterations; all arms of a row on one scale, whose top is the target"),
    ("target", "the fitness that counts as solved"),
    ("fault", "the problem's scorer itself failed: its search has stopped, the panel errors says why"),
    ("The panels", ""),
    ("curves", "solve rates over iterations with 95% bands in dots; white where several arms share a cell"),
    ("population", "the archive of each search: a bar for each island"),
    ("cells", "places of the archive that hold an answer; places differ by features (cell by ... in the detail)"),
    ("diversity, L1", "mean L1 distance of the kept answers' reward vectors: the sum over components of how far"
     " they are apart"),
    ("island", "a part of the population that breeds by itself; migrations: answers copied from one to the next"),
    ("improvements", "when, arm, problem, seed (s0), iteration (#12), best fitness before and after, what changed in"
     " the vector against the parent"),
    ("operators", "of the answers to a parent shown, the share better than that parent; columns by how far the parent"
     " was, as a share of the target: <.5 from a quarter to a half"),
    ("kept", "share of the parent's text that answers keep"),
    ("copies, copy", "answers that are one of those shown in the prompt, letter by letter"),
    ("repeats", "answers that the search had before"),
    ("alone", "answers to a prompt that showed no parent"),
    ("training", "the steps of a trainer: its figures, the newest last"),
    ("loss, reward", "what training lowers, and the mean reward of its rollouts; nll: mean surprise at its own tokens"),
    ("kl", "how far the policy has come from where it began, per token"),
    ("clipped", "share of tokens whose step was cut because the policy had moved too far since it sampled them"),
    ("grad_norm", "length of the gradient before it was cut"),
    ("best_of_rollout", "mean over rollouts of the best fitness of a rollout's answers; fitness: over all answers"),
    ("errors: format", "answers that were not written as asked, so that none could be read (no fence, no moves);"
     " missing: fewer answers than asked for"),
    ("timeout, crash", "answers that ran too long, or ended the process that ran them"),
    ("The detail", ""),
    ("vector", "the answer's rewards, one for each objective; in brackets the change against its parent"),
    ("lineage", "the answer, its parent, its parent's parent, each with its fitness"),
    ("format", "how an answer is written: text, python (in a code fence), or route (moves through a maze)"),
    ("found 2×", "how often it was given as an answer, repeats included"),
)  # fmt: skip


def draw_help(live: bool, width: int) -> Lines:
    """As many lines as it takes. live: whether the screen can pause and stop the search."""
    own: tuple[tuple[str, str], ...] = (
        ("p", "hold back new proposals; what is in flight is finished" if live else "hold the picture"),
        ("q", "stop: finish what is in flight, then end; resume goes on" if live else "leave; the run goes on"),
    )
    if live:
        own += (("ctrl+c", "the same as q; a second time: stop at once"),)
    lines = [Line(width).add("Keys", STRONG)]
    for word, meaning in (*own, *KEYS):
        lines += _entry(word, meaning, width)
    for word, meaning in WORDS:
        lines += _entry(word, meaning, width) if meaning else [Line(width), Line(width).add(word, STRONG)]
    return lines


def _entry(word: str, meaning: str, width: int) -> Lines:
    pieces = wrap(meaning, max(12, width - 24), 9, words=True)
    return [Line(width).gap(2).add(" " if at else word, STRONG, 20).gap().add(piece) for at, piece in enumerate(pieces)]


class HelpScreen(ModalScreen[None]):
    """The page behind `?`, scrolling; any other key goes back."""

    CSS = "HelpScreen { background: ansi_default }"

    def __init__(self, live: bool, leave: Callable[[], None]) -> None:
        super().__init__()
        self._live, self._leave = live, leave

    def compose(self) -> ComposeResult:
        yield LinesView(id="help")

    def on_mount(self) -> None:
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        self.query_one(LinesView).show(draw_help(self._live, self.app.size.width - 1))

    def on_key(self, event: events.Key) -> None:
        view, page = self.query_one(LinesView), max(1, self.app.size.height - 2)
        steps = {"down": 1, "j": 1, "up": -1, "k": -1, "pagedown": page, "space": page, "pageup": -page}
        steps |= {"home": -(10**6), "g": -(10**6), "end": 10**6, "G": 10**6}
        if event.key == "ctrl+c":
            return
        event.stop()
        event.prevent_default()
        step = steps.get("G" if event.character == "G" else event.key)
        if not self.is_current:
            return  # the key before this one has closed the page already
        if step is None:
            self.dismiss()
            if event.key in ("q", "ctrl+q"):  # a page over the screen hides its keys from it
                self._leave()
        else:
            view.scroll_to(y=view.scroll_offset.y + step, animate=False)
