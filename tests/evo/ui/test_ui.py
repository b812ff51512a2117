"""The page of `evo ui` by requests: its content, whom it answers, and that texts of models are never more than text."""

import http.client
import re
import shutil
import sqlite3
from contextlib import contextmanager

import pytest
from support.hostile_text import Elements

from islands.store import Store


class Client:
    """Requests to a server, as a browser sends them unless a header is given."""

    def __init__(self, server):
        self.server, self.host = server, f"127.0.0.1:{server.port}"

    def get(self, path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        sent = {"Host": self.host} | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=sent)
        reply = connection.getresponse()
        reply.body = reply.read().decode()
        connection.close()
        return reply

    def page(self, path, status=200):
        reply = self.get(path)
        assert reply.status == status, reply.body
        found = Elements(reply.body)
        headings = [int(tag[1]) for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)]
        assert headings[0] == 1 and all(
            deeper - level <= 1 for level, deeper in zip(headings, headings[1:], strict=False)
        )
        assert len(found.of("script")) == 1 and "src" not in found.of("script")[0]
        return found


@pytest.fixture(scope="module")
def connect(serve):
    """connect(address, ...) -> a context with a client of a new server."""

    @contextmanager
    def connected(address, **settings):
        with serve(address, **settings) as server:
            yield Client(server)

    return connected


@pytest.fixture(scope="module")
def client(made, connect):
    with connect(made) as opened:
        yield opened


def test_a_comparison_is_listed_and_shown(client, made):
    listed = client.page("/")
    assert [one["href"] for one in listed.of("a") if one["href"].startswith("/run/")] == ["/run/made-up"]
    assert "3 arms: base, best-of-n, grpo" in listed.text
    shown = client.page("/run/made-up")
    assert "all runs have ended" in shown.text and " - base = " in shown.text
    assert len(shown.of("figure")) == 2 + 5
    best = [one["href"] for one in shown.of("a") if "/candidate/" in one["href"]]
    answer = client.page(best[0])
    assert "fitness" in answer.text and "Write eight digits." in answer.text
    one_run = client.page("/run/made-up%2Fgrpo%2Fs0")
    assert "made:grpo" in one_run.text and "the run has ended" in one_run.text


@pytest.fixture(scope="module")
def digits_client(connect, small_run):
    """A client of a database with a finished run, and its address."""
    address = f"sqlite:///{small_run}"
    with connect(address) as client:
        yield client, address


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("show=valid", lambda one: one["error"] is None),
        ("show=failed", lambda one: one["error"] is not None),
        ("show=failed&kind=not+eight+digits", lambda one: one["error"] == "not eight digits"),
        ("problem=1", lambda one: one["problem"] == 1),
        ("sort=fitness", lambda one: True),
    ],
)
def test_candidates_are_picked_by_filters(digits_client, query, holds):
    from islands.browse import candidates_table

    client, address = digits_client
    with Store.open(address, read_only=True) as store:
        every = list(candidates_table(store, store.run("run").id))
    for one in every:
        one["problem"] = {"a": 0, "b": 1}[one["problem"]]
    expected = {one["candidate"] for one in every if holds(one)}
    assert expected and (query == "sort=fitness" or len(expected) < len(every))
    found = []
    for page in (1, 2, 3, 4):
        shown = client.page(f"/run/run/candidates?{query}&page={page}")
        ids = [int(one["href"].split("/")[-1]) for one in shown.of("a") if re.search(r"/candidate/\d+$", one["href"])]
        found += [id for id in ids if id not in found]
    assert set(found) == expected
    if query == "sort=fitness":
        rank = {one["candidate"]: (one["error"] is not None, -one["fitness"]) for one in every}
        assert [rank[id] for id in found] == sorted(rank.values())


def test_one_candidate_has_its_prompt_scores_and_line(digits_client):
    client, address = digits_client
    with Store.open(address, read_only=True) as store:
        best = store.problems(store.run("run").id)[0]
    shown = client.page(f"/run/run/candidate/{best.best}")
    for part in ("even", "Write eight digits.", "Changes to the parent", "Ancestors", "digits-1", "The whole reply"):
        assert part in shown.text
    parent = next(one["href"] for one in shown.of("a") if re.search(r"/candidate/\d+$", one["href"]))
    assert f"/run/run/candidate/{best.best}" in {one.get("href") for one in client.page(parent).of("a")}
    saved = client.get(f"/run/run/candidate/{best.best}/text")
    assert re.fullmatch(r"\d{8}", saved.body)
    assert (
        saved.headers["Content-Disposition"].startswith("attachment") and "text/plain" in saved.headers["Content-Type"]
    )


def test_what_models_wrote_is_text_everywhere(hostile_database, connect):
    address, best = hostile_database
    with connect(address) as client:
        answers = ("/candidates?show=failed", "/candidates?sort=fitness", f"/candidate/{best}")
        for path in ("/", "/run/both", *(f"/run/both{rest}" for rest in answers)):
            reply = client.get(path)
            found = client.page(path)
            assert len(reply.body) < 1_000_000, path
            assert not {"img", "iframe", "object", "base"} & {tag for tag, _ in found.elements}
            assert len(found.of("style")) == 1 and all(one.get("class") == "plot" for one in found.of("svg"))
            attributes = {name for _, of_tag in found.elements for name in of_tag}
            assert not {name for name in attributes if name.startswith("on") or name in ("style", "srcdoc")}
            assert all(one["href"].startswith(("/", "#")) for one in found.of("a"))
            assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]", reply.body), path
            assert "</script>" in found.text
        for sign in ("<script>fetch(", "javascript:alert(4)", "{{ 7 * 7 }}", "␛[31m␈␀<U+202E><U+2066><U+D800>", "&lt;"):
            assert sign in found.text
        for sign in ("alert(3)", "</title>␀", "</script><b>"):  # a report is this page in a file
            assert sign in client.page("/run/both").text
        whole = client.get(f"/run/both/candidate/{best}/text")
        assert len(whole.body) > 1_000_000 and whole.headers["X-Content-Type-Options"] == "nosniff"


def test_each_answer_forbids_scripts_of_others_and_other_origins(client):
    for path in ("/", "/run/made-up", "/nothing", "/run/made-up/candidates?problem=x"):
        headers = client.get(path, Origin="http://evil.example").headers
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"].startswith("'sha256-") and policy["style-src"].startswith("'sha256-")
        assert policy["connect-src"] == policy["form-action"] == "'self'"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert not any(name.lower().startswith("access-control") for name in headers)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_only_reads(client, method):
    assert client.get("/", method=method).status == 501


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:80@127.0.0.1"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "192.168.0.7"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "[::"}, 403),
        ({"Host": "LocalHost:9"}, 200),
        ({"Host": "[::1]:9"}, 200),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}, 200),
    ],
)
def test_only_this_machines_names_are_answered(client, headers, status):
    assert client.get("/", **headers).status == status


def test_a_token_opens_the_page_and_leaves_the_address(made, connect):
    with connect(made, token=True) as client:
        token = client.server.token
        assert client.server.address.endswith(f":{client.server.port}/?token={token}") and len(token) >= 32
        for path in ("/", "/run/made-up", "/?token=wrong", "/?token="):
            refused = client.get(path)
            assert refused.status == 403 and "base" not in refused.body and token not in refused.body
        let_in = client.get(f"//evil.example/?token={token}&q=grpo")
        assert let_in.status == 303 and let_in.headers["Location"] == "/evil.example/?q=grpo"
        cookie, *rules = let_in.headers["Set-Cookie"].split("; ")
        assert {"HttpOnly", "SameSite=Strict"} <= set(rules)
        assert client.get("/", Cookie=cookie).status == 200
        assert client.get("/", Cookie=cookie[:-1]).status == 403
        assert client.get("/", Cookie=cookie, Host="evil.example").status == 403
        assert client.get("/", Cookie=cookie, Host="192.168.0.7:1").status == 403


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/run/nothing", 404),
        ("/run/made-up/x", 404),
        ("/run/made-up/candidate/999999", 404),
        ("/run/made-up/candidate/x", 404),
        ("/run/made-up/candidate/" + "9" * 30, 404),
        ("/static/page.js", 404),
        ("/run/made-up/candidates?page=x", 400),
        ("/run/made-up/candidates?problem=x", 400),
        ("/run/made-up/candidates?page=" + "9" * 40, 400),
        ("/?page=7&q=%00%ff", 200),
    ],
)
def test_wrong_addresses_get_a_page_that_says_so(client, path, status, capsys):
    assert client.page(path, status).text
    assert not capsys.readouterr().err


def test_without_runs_it_says_what_to_type(tmp_path, connect, small_run):
    address = f"sqlite:///{tmp_path}/evo.db"
    with connect(address) as client:
        empty = client.page("/")
        assert f"evo run maze:test --limit 10 --policy embedded:vpo --name mazes --db {address}" in empty.text
        shutil.copy(small_run, tmp_path / "evo.db")
        assert "/run/run" in {one["href"] for one in client.page("/").of("a")}
        for file in tmp_path.glob("evo.db*"):
            file.unlink()
        assert client.page("/run/run", 503)
        assert "There are no runs yet" in client.page("/").text


def test_every_run_is_listed_the_failed_one_with_its_reason(connect, tmp_path, search_with, digits, digits_policy):
    address = f"sqlite:///{tmp_path}/evo.db"
    for name in ("first", "second"):
        search_with([digits("a")], digits_policy(), address, name=name, iterations=2)
    with Store.open(address) as store:
        store.finish_run(store.run("first").id, "done")
        store.finish_run(store.run("second").id, "failed", "no memory")
    with connect(address) as client:
        shown = client.page("/")
        assert {one["href"] for one in shown.of("a") if "/run/" in one["href"]} == {"/run/first", "/run/second"}
        assert "no memory" in shown.text


def test_a_page_that_did_not_change_is_not_sent_again(client):
    tag = client.get("/").headers["ETag"]
    again = client.get("/", If_None_Match=tag)
    assert again.status == 304 and not again.body


def test_it_never_writes(made, connect):
    path = made.removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        before = connection.execute("PRAGMA data_version").fetchone(), connection.total_changes
        with connect(made) as client:
            client.page("/run/made-up")
            client.page("/run/made-up/candidates")
        assert (connection.execute("PRAGMA data_version").fetchone(), connection.total_changes) == before
    connection.close()


def test_the_command_reports_bad_input(capsys, here, connect):
    from evo.cli import invoke

    assert invoke(["ui", "mysql://x/y"]) == 2
    assert "not a database that runs can be kept in" in capsys.readouterr().err
    with connect(f"sqlite:///{here}/evo.db") as client:
        assert invoke(["ui", "--port", str(client.server.port)]) == 2
    assert "--port 0 chooses a free one" in capsys.readouterr().err
    assert invoke(["ui", "--host", "999.1.1.1", "--port", "0"]) == 2
    assert "--host names an address of this machine" in capsys.readouterr().err


def test_another_host_than_this_machine_always_has_a_token(made, connect):
    with connect(made, host="0.0.0.0") as client:
        token = client.server.token
        assert client.server.address == f"http://127.0.0.1:{client.server.port}/?token={token}" and len(token) >= 24
        for host in (client.host, "workstation:8080"):  # a published port, and the name that others have for it
            assert client.get("/", Host=host).status == 403
            assert client.get("/?token=wrong", Host=host).status == 403
            cookie = client.get(f"/?token={token}", Host=host).headers["Set-Cookie"].partition(";")[0]
            assert client.get("/run/made-up", Host=host, Cookie=cookie).status == 200
    for host in ("127.0.0.1", "localhost"):
        with connect(made, host=host) as client:
            assert not client.server.token and client.get("/").status == 200
            assert client.get("/", Host="workstation:8080").status == 403
