"""`evo ui` by requests: its pages are those of `evo runs`, `evo report` and `evo show`, whom it answers, and that it
changes nothing."""

import http.client
import json
import re
import shutil
from contextlib import contextmanager

import pytest
from support.hostile_text import Elements

from evo.cli import invoke
from evo.ui import pages
from islands.store import Store


class Client:
    """Requests to a server, as a browser sends them unless a header is given."""

    def __init__(self, server):
        self.server, self.host = server, f"127.0.0.1:{server.port}"

    def get(self, path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        sent = {"Host": self.host} | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=sent)
        reply = connection.getresponse()
        reply.body = reply.read().decode()
        connection.close()
        return reply

    def page(self, path, status=200):
        reply = self.get(path)
        assert reply.status == status, reply.body
        return Elements(reply.body)


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


def links(page):
    return {one["href"] for one in page.of("a")}


def test_the_list_has_the_rows_of_evo_runs(client, made, capsys):
    listed = client.page("/")
    assert links(listed) == {"/run/made-up"}
    assert invoke(["runs", "--db", made]) == 0
    titles, row = capsys.readouterr().out.splitlines()
    assert all(cell in listed.text for cell in re.split(r"  +", row.strip())) and "policy" in titles


def test_a_page_is_the_file_of_evo_report_with_links(client, made, tmp_path):
    file = tmp_path / "report.html"
    for name, path in (("made-up", "/run/made-up"), ("made-up/grpo/s0", "/run/made-up%2Fgrpo%2Fs0")):
        assert invoke(["report", name, "-o", str(file), "--db", made]) == 0
        served = client.get(path)
        way = re.search(r"<nav aria-label=\"Where you are\">.*\n", served.body)
        plain, links = re.subn(rf'<a href="{path}/candidate/(\d+)">(candidate \1)</a>', r"\2", served.body)
        plain = plain.replace(f'data-base="{path}"', 'data-base=""').replace(way[0], "", 1)
        added = r"<script>// Asks every.*?</script>\n", r' data-version="\w+"'
        policy = r"<meta http-equiv=.Content-Security-Policy[^\n]*"
        plain = re.sub("|".join((*added, policy)), "", plain, flags=re.S)
        assert plain == re.sub(policy, "", file.read_text())
        assert links >= 5 and "made-up" in way[0]


def test_a_candidate_has_what_evo_show_knows_and_links_to_its_line(client, made, capsys):
    best = max(map(int, re.findall(r"/run/made-up/candidate/(\d+)", client.get("/run/made-up").body)))
    assert invoke(["show", "made-up", str(best), "--json", "--db", made]) == 0
    known = json.loads(capsys.readouterr().out)
    shown = client.page(f"/run/made-up/candidate/{best}")
    assert known["answer"] in shown.text and f"generation {known['generation']}" in shown.text
    for part in (f"fitness {known['fitness']:.4g}", "Changes to its parent", "# Answer to improve", "<answer_1>"):
        assert part in shown.text, part
    assert all(f"{name} {value:.4g}" in shown.text for name, value in known["values"].items()) and shown.of("ins")
    line = [f"/run/made-up/candidate/{step['candidate']}" for step in known["lineage"]]
    assert len(line) > 2 and {"/", "/run/made-up", *line[1:]} <= links(shown)
    for child, parent in zip(line, line[1:], strict=False):
        assert child in links(client.page(parent))
    seed = client.page(line[-1])
    assert "seed answer" in seed.text and "It has no parent" in seed.text and "prompt" not in seed.text
    assert client.page(line[0].replace("made-up", "made-up%2Fbase%2Fs0"), 404)  # of another arm


def test_a_failed_candidate_has_its_error(client, made, capsys):
    assert invoke(["show", "made-up/grpo/s0", "--json", "--db", made]) == 0
    failed = json.loads(capsys.readouterr().out)["failed_candidates"][0]
    assert f"Error: {failed['error']}" in client.page(f"/run/made-up/candidate/{failed['id']}").text


def test_a_page_has_another_version_when_its_run_went_on(connect, tmp_path, search_with, digits, digits_policy):
    """One that did not change is not sent again."""
    address = f"sqlite:///{tmp_path}/evo.db"
    settings = dict(name="run", iterations=40)
    search_with([digits("a")], digits_policy(), address, stop_after=3, **settings)
    with connect(address) as client:

        def versions():
            return [client.get(path, method="HEAD").headers["ETag"] for path in ("/", "/run/run")]

        with Store.open(address) as store, store.lease(store.run("run").id):
            before = versions()
            for path, tag in zip(("/", "/run/run"), before, strict=True):
                shown = client.get(path)
                assert tag == shown.headers["ETag"] == f'"{Elements(shown.body).of("body")[0]["data-version"]}"'
                assert "location.reload()" in shown.body
                again = client.get(path, If_None_Match=tag)
                assert again.status == 304 and not again.body
            assert versions() == before
        search_with([digits("a")], digits_policy(), address, resume=True, **settings)
        with Store.open(address) as store:
            store.finish_run(store.run("run").id, "done")
        assert not set(versions()) & set(before)


def test_a_database_may_come_go_and_come_back(connect, tmp_path, small_run, capsys):
    address = f"sqlite:///{tmp_path}/evo.db"
    with connect(address) as client:
        assert f"evo demo --db {address}" in client.page("/").text
        for _ in range(2):
            shutil.copy(small_run, tmp_path / "evo.db")
            assert "/run/run" in links(client.page("/")) and "30 iterations" in client.page("/run/run").text
            for file in tmp_path.glob("evo.db*"):
                file.unlink()
            assert "evo.db" in client.page("/run/run", 503).text
            assert "There are no runs yet" in client.page("/").text
        (tmp_path / "evo.db").write_bytes(b"no database" * 1000)
        assert "not a database" in client.page("/", 503).text
    assert not capsys.readouterr().err


def test_a_page_that_failed_at_first_is_fine_later(connect, made, monkeypatch, capsys):
    build = pages.build_page
    with connect(made) as client:
        monkeypatch.setattr(pages, "build_page", lambda progress, base: 1 / 0)
        assert "ZeroDivisionError" in client.page("/run/made-up", 500).text
        assert "Traceback" in capsys.readouterr().err
        monkeypatch.setattr(pages, "build_page", build)
        assert "all runs have ended" in client.page("/run/made-up").text


def test_a_page_is_built_once_for_many_requests(monkeypatch, made):
    monkeypatch.setattr(pages, "_FRESH_SECONDS", 60.0)
    built, build = [], pages.build_page
    monkeypatch.setattr(pages, "build_page", lambda progress, base: built.append(progress.name) or build(progress))
    asked = pages.RunPages(made)
    assert len({id(asked.page("made-up")) for _ in range(3)}) == 1 == len(built)
    monkeypatch.setattr(pages, "_FRESH_SECONDS", 0.0)
    asked = pages.RunPages(made)
    assert len({asked.page("made-up").version for _ in range(3)}) == 1 and len(built) == 2, "no row is new"


def test_what_models_wrote_is_text(hostile, connect):
    with connect(hostile) as client:
        best = re.findall(r"/run/both/candidate/\d+", client.get("/run/both").body)
        for path in ("/", "/run/both", *best[:2]):
            found = client.page(path)
            assert not {"img", "iframe", "object", "base"} & {tag for tag, _ in found.elements}
            attributes = {name for _, of_tag in found.elements for name in of_tag}
            assert not {name for name in attributes if name.startswith("on") or name in ("style", "srcdoc")}
            assert all(one.startswith(("/", "#")) for one in links(found)) and "</script>" in found.text


def test_every_answer_forbids_scripts_of_others_and_other_origins(client):
    for path in ("/", "/run/made-up", "/nothing"):
        headers = client.get(path, Origin="http://evil.example").headers
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["form-action"] == "'none'"
        assert re.fullmatch("('sha256-[^']+' ?)+", policy["script-src"]) and policy["connect-src"] == "'self'"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert not any(name.lower().startswith("access-control") for name in headers)


@pytest.mark.parametrize(
    "path",
    [
        "/run/nothing", "/run/made-up/x", "/run/", "/static/page.js", "/run/%00%ff", "/run/made-up/candidate/",
        "/run/made-up/candidate/99999", "/run/made-up/candidate/1%00", "/run/made-up/candidate/" + "9" * 30,
        "/run/nothing/candidate/1",
    ],
)  # fmt: skip
def test_wrong_addresses_get_a_page_that_says_so(client, path, capsys):
    assert "Not found" in client.page(path, 404).text and not capsys.readouterr().err


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
    """A site whose name points at this machine reads nothing, by any page and method."""
    for path in ("/", "/run/made-up", "/nothing"):
        replies = [client.get(path, method=method, **headers) for method in ("GET", "HEAD")]
        assert {reply.status for reply in replies} == {404 if (path, status) == ("/nothing", 200) else status}
        assert status == 200 or "made-up" not in replies[0].body


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


def test_another_host_than_this_machine_always_has_a_token(made, connect):
    with connect(made, host="0.0.0.0") as client:
        token = client.server.token
        assert client.server.address == f"http://127.0.0.1:{client.server.port}/?token={token}" and len(token) >= 24
        for host in (client.host, "workstation:8080"):  # a published port, and the name that others have for it
            assert client.get("/", Host=host).status == client.get("/?token=wrong", Host=host).status == 403
            cookie = client.get(f"/?token={token}", Host=host).headers["Set-Cookie"].partition(";")[0]
            assert client.get("/run/made-up", Host=host, Cookie=cookie).status == 200
    with connect(made, host="localhost") as client:
        assert not client.server.token and client.get("/").status == 200


def test_every_request_only_reads(small, connect):
    def state():
        with Store.open(small, read_only=True) as store:
            return store.runs()

    before = state()
    with connect(small) as client:
        for path in ("/", "/run/run", "/run/run/candidate/1"):
            client.page(path)
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            for path in ("/", "/run/run", "/run/run/label", "/run/run/delete"):
                assert client.get(path, method=method, body="note=x").status == 501
        client.page("/run/run/delete", 404)
        assert not client.page("/run/run").of("form")
    assert state() == before


def test_the_command_reports_bad_input(capsys, here, connect):
    assert invoke(["ui", "mysql://x/y"]) == 2
    assert "not a database that runs can be kept in" in capsys.readouterr().err
    with connect(f"sqlite:///{here}/evo.db") as client:
        assert invoke(["ui", "--port", str(client.server.port)]) == 2
    assert "--port 0 chooses a free one" in capsys.readouterr().err
    assert invoke(["ui", "--host", "999.1.1.1", "--port", "0"]) == 2
    assert "--host names an address of this machine" in capsys.readouterr().err
