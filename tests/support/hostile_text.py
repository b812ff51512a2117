"""Texts that must never be more than text on a page: a problem that takes any, a policy that writes them, and a parser
of the pages."""

import html.parser

import numpy as np

from problems.contract import Problem, Score
from problems.types import Rollout
from vpo.policies.contract import Policy

HOSTILE = (
    "</pre></script><script>fetch('http://evil.example/')</script><img src=x onerror=alert(1)>"
    '<a href="javascript:alert(4)">go</a></style>"\'><svg/onload=alert(2)> {{ 7 * 7 }} '
    "\x1b[31m\x08\u202e\u2066\ud800 $\\frac{1}{2}$ &lt;"
)


class AnyTextProblem(Problem):
    """Every answer counts: the longer the better, up to the target."""

    objectives, inline = ("length", "<i>&vowels"), True

    def __init__(self, name="any/<b>0</b>", target=0.9):
        self.name, self.target = name, target

    def statement(self):
        return "Write."

    def seed_answer(self):
        return "a"

    def score(self, answer):
        size = min(1.0, len(answer) / 400)
        vowels = sum(letter in "aeiou" for letter in answer) / max(1, len(answer))
        return Score((size, vowels), size, {"size": float(len(answer))}, feedback=HOSTILE)


class HostilePolicy(Policy):
    """Writes what must not be believed, longer at every turn."""

    version, prompt_format, batch = "<b>v</b>", "chat", 4

    def __init__(self, words):
        self.words = words

    async def sample(self, prompts, *, rollouts, answers, seed):
        def one(prompt):
            word = f"<answer>{self.words * (1 + prompt.stream % 3)}{prompt.stream}</answer>"
            return Rollout(word, np.arange(3, dtype=np.int32), np.zeros(3, np.float32), np.arange(2, dtype=np.int32))

        return [[one(prompt) for _ in range(rollouts)] for prompt in prompts]

    async def close(self):
        pass


class Elements(html.parser.HTMLParser):
    """Every element with its attributes, and the text outside scripts and styles."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.elements, self.words, self._in = [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._in = tag if tag in ("script", "style") else self._in

    def handle_endtag(self, tag):
        self._in = None if tag == self._in else self._in

    def handle_data(self, words):
        if self._in is None:
            self.words.append(words)

    @property
    def text(self):
        return "".join(self.words)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]
