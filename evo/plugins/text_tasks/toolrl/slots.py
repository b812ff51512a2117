"""The arguments of the made-up tools: one kind of value for each slot, so that no request is ambiguous."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Value = tuple[Any, str]
"""A value in a call, and its words in a request."""


@dataclass(frozen=True)
class Slot:
    """kind: the type in a tool's parameters; description: of the parameter; vague: the words of a request without
    the value; draw: a value. Training and test draw from different halves of a pool."""

    kind: str
    description: str
    vague: str
    draw: Callable[[random.Random, str], Value]


def _pool(words: str) -> Callable[[random.Random, str], Value]:
    words_ = [word.strip() for word in words.split(",")]

    def draw(rng: random.Random, split: str) -> Value:
        word = rng.choice(_half(words_, split))
        return word, word

    return draw


def _half(values: Sequence[Any], split: str) -> Sequence[Any]:
    return values[split == "test" :: 2]


def _whole(first: int, last: int) -> Callable[[random.Random, str], Value]:
    def draw(rng: random.Random, split: str) -> Value:
        number = rng.randint(first, last)
        return number, str(number)

    return draw


def _amount(rng: random.Random, split: str) -> Value:
    number = rng.randint(20, 1999) + rng.choice((0.25, 0.5, 0.75))
    return number, f"{number}"


def _flag(rng: random.Random, split: str) -> Value:
    value = rng.random() < 0.5
    return value, "yes" if value else "no"


def _date(rng: random.Random, split: str) -> Value:
    text = f"{2031 + (split == 'test')}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return text, text


def _clock(rng: random.Random, split: str) -> Value:
    text = f"{rng.randint(7, 21):02}:{rng.choice((0, 10, 20, 30, 40, 50)):02}"
    return text, text


def _code(rng: random.Random, split: str) -> Value:
    text = f"{rng.choice('ACEGKM' if split == 'test' else 'BDFHLN')}{rng.choice('PRTVXZ')}-{rng.randint(1000, 9999)}"
    return text, text


_GOODS = ("apples", "rice", "candles", "paper", "batteries", "soap", "nails", "tea", "flour", "pens", "rope")


def _items(rng: random.Random, split: str) -> Value:
    goods = rng.sample(_half(_GOODS, split), rng.randint(2, 3))
    return goods, f"{', '.join(goods[:-1])} and {goods[-1]}"


SLOTS: Mapping[str, Slot] = {
    "city": Slot(
        *("string", "Name of the city.", "a city"),
        _pool("Lisbon, Oslo, Nairobi, Lima, Hanoi, Quito, Dublin, Accra, Osaka, Riga, Porto, Bergen, Tunis, Cork"),
    ),
    "country": Slot(
        *("string", "Name of the country.", "a country"),
        _pool("Peru, Norway, Kenya, Chile, Vietnam, Latvia, Ghana, Ireland, Portugal, Nepal, Bolivia, Iceland"),
    ),
    "person": Slot(
        *("string", "Full name of the person.", "somebody"),
        _pool(
            "Ada Brook, Omar Reyes, Ines Falk, Tom Okoro, Lena Vogt, Raj Patel, Mia Soto, Jan Novak, Zoe Lind, Ali Can"
        ),
    ),
    "product": Slot(
        *("string", "Name of the product.", "a product"),
        _pool("desk lamp, rain coat, coffee mill, field tent, water bottle, wool scarf, bike pump, garden hose"),
    ),
    "language": Slot(
        *("string", "The language.", "another language"),
        _pool("Finnish, Swahili, Welsh, Korean, Basque, Greek, Hindi, Dutch, Thai, Czech"),
    ),
    "title": Slot(
        *("string", "Title of the work.", "a certain title"),
        _pool("The Salt Road, Winter Orchard, Glass Rivers, A Quiet Engine, Paper Moons, The Last Ferry, Blue Harvest"),
    ),
    "topic": Slot(
        *("string", "The topic.", "a topic"),
        _pool("solar power, sea trade, bee keeping, glaciers, robotics, early music, chess, coral reefs, tunnels"),
    ),
    "team": Slot(
        *("string", "Name of the team.", "a team"),
        _pool(
            "Red Herons, Northgate Rovers, Iron Otters, Lake City, Blue Foxes, Hill Wanderers, Grey Wolves, Bay Stars"
        ),
    ),
    "currency": Slot(
        "string", "Code of the currency.", "another currency", _pool("EUR, JPY, NOK, BRL, KES, CHF, INR, PLN")
    ),
    "email": Slot(
        *("string", "E-mail address.", "somebody's address"),
        _pool("ada@brook.example, omar@reyes.example, ines@falk.example, tom@okoro.example, lena@vogt.example"),
    ),
    "street": Slot(
        *("string", "Street and number.", "an address"),
        _pool("4 Mill Lane, 17 Harbour Road, 9 Elm Street, 30 Castle Hill, 2 Station Square, 61 Bridge Street"),
    ),
    "date": Slot("string", "Date as YYYY-MM-DD.", "some day", _date),
    "clock": Slot("string", "Time of day as HH:MM.", "some time", _clock),
    "code": Slot("string", "Reference code.", "a reference", _code),
    "days": Slot("int", "Number of days.", "some days", _whole(2, 14)),
    "count": Slot("int", "How many.", "some", _whole(15, 60)),
    "percent": Slot("int", "Percentage.", "a certain share of", _whole(61, 95)),
    "amount": Slot("float", "Amount of money.", "some money", _amount),
    "flag": Slot("bool", "Whether this is wanted.", "perhaps", _flag),
    "items": Slot("list", "Names of the items.", "some things", _items),
}
