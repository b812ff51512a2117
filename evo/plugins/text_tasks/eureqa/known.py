"""Well-known facts for closed riddles, each such that a relation and its second entity leave only one entity.

By hand, from common knowledge, as of 2025. Facts that several countries share (a currency, a capital on the Danube) or
that sources disagree on are left out (where the Nile rises, the capital of South Africa).
"""

from __future__ import annotations

import random
import zlib
from functools import cache

_DEPTH = 5
_TRIES = 10_000
# country | continent | capital | its river | where that rises | currency of its own | main language, where it is
# named after another country
_COUNTRIES = """
France|Europe|Paris|Seine|France||
United_Kingdom|Europe|London|River_Thames|United_Kingdom|Pound_sterling|
Germany|Europe|Berlin|Spree_(river)|Germany||
Italy|Europe|Rome|Tiber|Italy||
Spain|Europe|Madrid|Manzanares_(river)|Spain||
Portugal|Europe|Lisbon|Tagus|Spain||
Poland|Europe|Warsaw|Vistula|Poland|Polish_złoty|
Czech_Republic|Europe|Prague|Vltava|Czech_Republic|Czech_koruna|
Hungary|Europe|Budapest|Danube|Germany|Hungarian_forint|
Austria|Europe|Vienna|Danube|Germany||German_language
Serbia|Europe|Belgrade|Danube|Germany|Serbian_dinar|
Romania|Europe|Bucharest|Dâmbovița|Romania|Romanian_leu|
Russia|Europe|Moscow|Moskva_(river)|Russia|Russian_ruble|
Ukraine|Europe|Kyiv|Dnieper|Russia|Ukrainian_hryvnia|
Sweden|Europe|Stockholm|||Swedish_krona|
Norway|Europe|Oslo|||Norwegian_krone|
Denmark|Europe|Copenhagen|||Danish_krone|
Iceland|Europe|Reykjavík|||Icelandic_króna|
Ireland|Europe|Dublin|River_Liffey|Ireland||
Greece|Europe|Athens||||
Belgium|Europe|Brussels|Senne_(river)|Belgium||
Turkey|Asia|Ankara|||Turkish_lira|
Iraq|Asia|Baghdad|Tigris|Turkey|Iraqi_dinar|
Iran|Asia|Tehran|||Iranian_rial|
India|Asia|New_Delhi|Yamuna|India|Indian_rupee|
China|Asia|Beijing|||Renminbi|
Japan|Asia|Tokyo|Sumida_River|Japan|Japanese_yen|
South_Korea|Asia|Seoul|Han_River_(Korea)|South_Korea|South_Korean_won|
Thailand|Asia|Bangkok|Chao_Phraya_River|Thailand|Thai_baht|
Vietnam|Asia|Hanoi|Red_River_(Asia)|China|Vietnamese_đồng|
Laos|Asia|Vientiane|Mekong|China|Lao_kip|
Cambodia|Asia|Phnom_Penh|Mekong|China|Cambodian_riel|
Indonesia|Asia|Jakarta|||Indonesian_rupiah|
Malaysia|Asia|Kuala_Lumpur|||Malaysian_ringgit|
Mongolia|Asia|Ulaanbaatar|||Mongolian_tögrög|
Ethiopia|Africa|Addis_Ababa|||Ethiopian_birr|
Nigeria|Africa|Abuja|||Nigerian_naira|English_language
Ghana|Africa|Accra|||Ghanaian_cedi|English_language
Angola|Africa|Luanda|||Angolan_kwanza|Portuguese_language
Mozambique|Africa|Maputo|||Mozambican_metical|Portuguese_language
Argentina|South_America|Buenos_Aires|||Argentine_peso|Spanish_language
Brazil|South_America|Brasília|||Brazilian_real|Portuguese_language
Peru|South_America|Lima|Rímac_River|Peru|Peruvian_sol|Spanish_language
Chile|South_America|Santiago|Mapocho_River|Chile|Chilean_peso|Spanish_language
Colombia|South_America|Bogotá|||Colombian_peso|Spanish_language
Mexico|North_America|Mexico_City|||Mexican_peso|Spanish_language
Cuba|North_America|Havana|||Cuban_peso|Spanish_language
United_States|North_America|Washington,_D.C.|Potomac_River|United_States||English_language
"""
# work or idea | person | country of birth as it is today | capital of birth
_WORKS = """
Don_Quixote|Miguel_de_Cervantes|Spain|
War_and_Peace|Leo_Tolstoy|Russia|
Crime_and_Punishment|Fyodor_Dostoevsky|Russia|Moscow
Hamlet|William_Shakespeare|United_Kingdom|
Frankenstein|Mary_Shelley|United_Kingdom|London
Les_Misérables|Victor_Hugo|France|
The_Three_Musketeers|Alexandre_Dumas|France|
The_Flowers_of_Evil|Charles_Baudelaire|France|Paris
The_Magic_Mountain|Thomas_Mann|Germany|
The_Metamorphosis|Franz_Kafka|Czech_Republic|Prague
Divine_Comedy|Dante_Alighieri|Italy|
One_Hundred_Years_of_Solitude|Gabriel_García_Márquez|Colombia|
The_Tale_of_Genji|Murasaki_Shikibu|Japan|
Ulysses_(novel)|James_Joyce|Ireland|Dublin
Dracula|Bram_Stoker|Ireland|Dublin
Moby-Dick|Herman_Melville|United_States|
A_Doll's_House|Henrik_Ibsen|Norway|
Pippi_Longstocking|Astrid_Lindgren|Sweden|
The_Little_Mermaid|Hans_Christian_Andersen|Denmark|
Quo_Vadis_(novel)|Henryk_Sienkiewicz|Poland|
Things_Fall_Apart|Chinua_Achebe|Nigeria|
The_House_of_the_Spirits|Isabel_Allende|Peru|Lima
Os_Lusíadas|Luís_de_Camões|Portugal|Lisbon
Independent_People|Halldór_Laxness|Iceland|Reykjavík
Zorba_the_Greek|Nikos_Kazantzakis|Greece|
Gitanjali|Rabindranath_Tagore|India|
Ficciones|Jorge_Luis_Borges|Argentina|Buenos_Aires
Eugene_Onegin|Alexander_Pushkin|Russia|Moscow
The_Labyrinth_of_Solitude|Octavio_Paz|Mexico|Mexico_City
My_Name_Is_Red|Orhan_Pamuk|Turkey|
Guernica_(Picasso)|Pablo_Picasso|Spain|
The_Scream|Edvard_Munch|Norway|
Mona_Lisa|Leonardo_da_Vinci|Italy|
Telephone|Alexander_Graham_Bell|United_Kingdom|
Dynamite|Alfred_Nobel|Sweden|Stockholm
Penicillin|Alexander_Fleming|United_Kingdom|
Polonium|Marie_Curie|Poland|Warsaw
World_Wide_Web|Tim_Berners-Lee|United_Kingdom|London
Voltaic_pile|Alessandro_Volta|Italy|
Diesel_engine|Rudolf_Diesel|France|Paris
X-ray|Wilhelm_Röntgen|Germany|
Periodic_table|Dmitri_Mendeleev|Russia|
Rubik's_Cube|Ernő_Rubik|Hungary|Budapest
Ballpoint_pen|László_Bíró|Hungary|Budapest
Braille|Louis_Braille|France|
Bohr_model|Niels_Bohr|Denmark|Copenhagen
Psychoanalysis|Sigmund_Freud|Czech_Republic|
Saxophone|Adolphe_Sax|Belgium|
Schrödinger_equation|Erwin_Schrödinger|Austria|Vienna
Judo|Kanō_Jigorō|Japan|
"""
# language | the country that it is named after
_LANGUAGES = """
Spanish_language|Spain
Portuguese_language|Portugal
German_language|Germany
English_language|United_Kingdom
"""
# country | the only one that it borders
_BORDERS = """
Portugal|Spain
Ireland|United_Kingdom
Monaco|France
San_Marino|Italy
Vatican_City|Italy
Brunei|Malaysia
East_Timor|Indonesia
Papua_New_Guinea|Indonesia
"""
SAYINGS = {
    "capital": "{0} is the capital of {v}.",
    "country of capital": "{0} is the country whose capital is {v}.",
    "river": "{0} is the main river of {v}.",
    "source": "{v} rises in {0}.",
    "currency": "{0} is the currency of {v}.",
    "country of currency": "{0} is the country whose currency is {v}.",
    "language": "{0} is the main language of {v}.",
    "origin": "{v} is named after {0}.",
    "maker": "{0} is known for {v}.",
    "birthplace": "{0} is the country where {v} was born.",
    "capital of birth": "{0} is the capital where {v} was born.",
    "neighbour": "{0} is the only country that borders {v}.",
}


class _Known:
    """leads: next entity -> [(relation, the one entity that has it to the next one)]; kinds and traits: by entity"""

    def __init__(self) -> None:
        self.leads: dict[str, list[tuple[str, str]]] = {}
        self.kinds: dict[str, str] = {}
        self.traits: dict[str, str] = {}
        for country, continent, capital, river, source, currency, language in _read(_COUNTRIES):
            place = continent.replace("_", " ")
            self._name(country, "country", f"lies in {place}")
            self._name(capital, "city", f"lies in {place}")
            self._add("capital", capital, country)
            self._add("country of capital", country, capital)
            if river:
                self._name(river, "river", f"flows through {place}")
                self._add("river", river, capital)
                self._add("source", source, river)
            if currency:
                self._name(currency, "currency", f"is used in {place}")
                self._add("currency", currency, country)
                self._add("country of currency", country, currency)
            if language:
                self._add("language", language, country)
        for language, country in _read(_LANGUAGES):
            self._name(language, "language", "is spoken all over the world")
            self._add("origin", country, language)
        for country, neighbour in _read(_BORDERS):
            self._add("neighbour", neighbour, country)
        for work, person, country, capital in _read(_WORKS):
            self._name(person, "person", "is known all over the world")
            self._add("maker", person, work)
            self._add("birthplace", country, person)
            if capital:
                self._add("capital of birth", capital, person)

    def _name(self, entity: str, kind: str, trait: str) -> None:
        self.kinds[entity], self.traits[entity] = kind, trait

    def _add(self, relation: str, entity: str, of: str) -> None:
        facts = self.leads.setdefault(of, [])
        if (relation, entity) not in facts:  # the Danube rises in one place, whatever capital it is of
            facts.append((relation, entity))


def _read(table: str) -> list[list[str]]:
    return [line.split("|") for line in table.strip().splitlines()]


@cache
def known() -> _Known:
    return _Known()


def draw_known_walk(rng: random.Random, split: str) -> tuple[list[str], list[str], list[str]]:
    """(entities A to F, their masks, a sentence for each of A to E). Training and test share no walk."""
    facts = known()
    for _ in range(_TRIES):
        entities, relations = [rng.choice(sorted(facts.leads))], list[str]()
        while len(relations) < _DEPTH:
            free = [(how, name) for how, name in facts.leads.get(entities[0], ()) if name not in entities]
            if not free:
                break
            relation, entity = rng.choice(free)
            relations.insert(0, relation)
            entities.insert(0, entity)
        own = (zlib.crc32("|".join(entities).encode()) % 2 == 0) == (split == "test")
        # Peruvian sol would give a hidden Peru away
        if len(relations) == _DEPTH and own and not any(name in entities[-1] for name in entities[:-1]):
            break
    else:
        raise RuntimeError("no walk over the known facts is long enough")
    masks = [f"{facts.kinds[name].title()} {letter}" for letter, name in zip("ABCDE", entities, strict=False)]
    masks.append(f"{facts.kinds.get(entities[-1], 'thing').title()} F")
    shown = [*masks[:-1], entities[-1].replace("_", " ")]
    sentences = [
        f"{mask} {facts.traits[name]}. {SAYINGS[relation].format(mask, v=value)}"
        for mask, name, relation, value in zip(masks, entities, relations, shown[1:], strict=False)
    ]
    return entities, masks, sentences
