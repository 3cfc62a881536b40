"""A server of chat completions over a tiny model of transformers: true log-probabilities, over HTTP.

It knows nothing of capscore: `apply_chat_template` and `forward` are those of transformers. `fault` makes it
fail.
"""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image

MODEL = "org/tiny"
Fault = Callable[["Handler", dict[str, Any]], bool]  # request and answer → whether all was said


class ChatServer(ThreadingHTTPServer):
    """A server of the model in a folder; `continues` says whether it begins answers, as vLLM does."""

    daemon_threads = True

    def __init__(self, folder: Path, continues: bool = True):
        super().__init__(("127.0.0.1", 0), Handler)
        self.model = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
        self.processor = transformers.AutoProcessor.from_pretrained(folder)
        self.listed = [MODEL]
        self.continues, self.stated = continues, {"system_fingerprint": "fp_1"}
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.fault: Fault | None = None
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @torch.inference_mode()
    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = [dict(message) for message in body["messages"]]
        for message in messages:
            if not isinstance(message["content"], str):
                message["content"] = [*map(_part, message["content"])]
        continued = self.continues and body.get("continue_final_message", False)
        inputs = self.processor.apply_chat_template(
            messages,
            add_generation_prompt=not continued,
            continue_final_message=continued,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        n_before = inputs["input_ids"].shape[1]
        made = self.model.generate(
            **inputs,
            max_new_tokens=body["max_tokens"],
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        ids, content = made.sequences[0, n_before:].tolist(), []
        for logits, chosen in zip(made.logits, ids, strict=True):
            found = logits[0].double().log_softmax(dim=0)
            values, tokens = found.topk(min(body.get("top_logprobs", 1), len(found)))
            top = [self._token(*pair) for pair in zip(tokens.tolist(), values.tolist(), strict=True)]
            content.append({**self._token(chosen, float(found[chosen])), "top_logprobs": top})
        text = self.processor.decode(ids, skip_special_tokens=True)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}}
        choice["logprobs"] = {"content": content} if body.get("logprobs") else None
        usage = {"prompt_tokens": n_before, "completion_tokens": len(ids)}
        return {"choices": [choice], "usage": usage, **self.stated}

    def _token(self, token: int, value: float) -> dict[str, Any]:
        return {"token": self.processor.decode([token]), "logprob": value}


class Handler(BaseHTTPRequestHandler):
    """Answers GET /v1/models and POST /v1/chat/completions."""

    server: ChatServer

    def do_GET(self) -> None:
        self.send(200, {"data": [{"id": name, "owned_by": "tiny"} for name in self.server.listed]})

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.asked.append(body)
            server.keys.append(self.headers["Authorization"])
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
        try:
            answer = server.answer(body)
        finally:
            with server.lock:
                server.at_once -= 1
        if server.fault is None or not server.fault(self, answer):
            self.send(200, answer)

    def send(self, status: int, content: object, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] != "image_url":
        return part
    head, _, coded = part["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64"
    return {"type": "image", "image": Image.open(io.BytesIO(base64.b64decode(coded)))}
