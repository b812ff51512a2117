#!/usr/bin/env bash
# openai 3.57.0, 2026-11-28
# Behaviour: the last event of a stream is dropped in silence if the server closes the connection without a blank line
# after it, so the end of the answer is lost. A missing `[DONE]` does no harm.
# One would have guessed: the event is delivered when the stream ends.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -qq --disable-pip-version-check openai==3.57.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import openai


def event(text):
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return "data: " + json.dumps({**chunk, "choices": [{"index": 0, "delta": {"content": text}}]})


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        ending = asked["messages"][0]["content"]
        self.wfile.write((event("4") + "\n\n" + event("2") + ending).encode())

    def log_message(self, *_):
        pass


print("openai", openai.__version__)
server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none", max_retries=0)
seen = {}
for ending in ("\n\n", "\n", " "):
    stream = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": ending}], stream=True
    )
    seen[ending] = "".join(chunk.choices[0].delta.content for chunk in stream)
print("answer 42 by the end of its last event:", seen)
assert seen == {"\n\n": "42", "\n": "4", " ": "4"}, "the behaviour has changed"
PYTHON
