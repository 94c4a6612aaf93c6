"""A server of the policy in vLLM's dialect of completions, on a CPU: it samples with the weights that it was last sent."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from safetensors.torch import load

from homerl.agents.policy import TransformersEngine


class PolicyServer:
    """`sent` holds what came, by update; the model begins as noise, so that nothing but what is sent can be right."""

    def __init__(self, model: Any, tokenizer: Any, max_tokens: int) -> None:
        self.engine = TransformersEngine(model, tokenizer, max_tokens, 1.0, 8)
        self.sent: list[dict[str, torch.Tensor]] = []
        self.lock = threading.Lock()
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_()

    def take(self, weights: dict[str, torch.Tensor]) -> None:
        with self.lock:
            found = self.engine.model.load_state_dict(weights, strict=False)
            assert not found.unexpected_keys and set(found.missing_keys) <= {"lm_head.weight"}, found
            self.sent.append(weights)

    def complete(self, prompt: list[int]) -> dict[str, Any]:
        with self.lock:
            [sample] = self.engine._generate([prompt])
        names = [f"token_id:{i}" for i in sample.ids]
        logprobs = {"tokens": names, "token_logprobs": sample.logprobs, "text_offset": [0] * len(names)}
        choice = {"index": 0, "text": "", "finish_reason": "stop", "logprobs": logprobs | {"top_logprobs": None}}
        choice |= {"token_ids": sample.ids, "prompt_token_ids": prompt}
        return {"id": "1", "object": "text_completion", "created": 0, "model": "policy", "choices": [choice]}

    def __enter__(self) -> PolicyServer:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer({"object": "list", "data": [{"id": "policy", "object": "model"}]})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sent = self.path == "/weights"
                self.answer(server.take(load(body)) if sent else server.complete(json.loads(body)["prompt"]))

            def answer(self, data: Any) -> None:
                text = json.dumps(data).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.http.shutdown()
        self.http.server_close()
