"""A stand-in for `vllm serve`, with only Python: /health, and /v1/completions that returns the prompt."""

import http.server
import json
import os


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.answer({"status": "ok"})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer({"model": "toy", "choices": [{"text": asked.get("prompt", "")}]})


http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), Handler).serve_forever()
