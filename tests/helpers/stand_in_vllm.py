"""Stands for vLLM and for how TRL sends it weights: the same requests over HTTP, with transformers on a CPU behind them.

`python stand_in_vllm.py serve FOLDER PORT` serves a model as it is in the folder, until it is sent other weights.
`python stand_in_vllm.py train RECIPE` trains, and sends them.
"""

import asyncio
import json
import sys
import threading
import urllib.request

import torch
from safetensors.torch import load, save

LOST = 4  # which sending of weights is lost: to the second server, in the second update
SETTINGS = {
    "weight_transfer_config": {},
    "model_config": {"logprobs_mode": "processed_logprobs", "max_model_len": 1 << 20},
}


class Server:
    """The ASGI application."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForCausalLM

        self.model, self.lock = AutoModelForCausalLM.from_pretrained(folder).eval(), threading.Lock()

    async def __call__(self, scope, receive, send) -> None:
        """Answer a request."""
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        said = await asyncio.to_thread(self.answer, scope["path"], body)
        head = {"type": "http.response.start", "status": 404 if said is None else 200}
        await send(head | {"headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(said).encode()})

    def answer(self, path: str, body: bytes):
        """What is answered at a path; None if there is no such path."""
        with self.lock:
            if path == "/v1/completions":
                return self.completion(json.loads(body))
            if path == "/weights":
                return str(self.model.load_state_dict(load(body), strict=False).unexpected_keys)
        return {"/v1/models": {"data": [{"id": "policy"}]}, "/server_info": {"vllm_config": SETTINGS}}.get(path)

    @torch.no_grad()
    def completion(self, request):
        """Sample."""
        ids = torch.tensor([request["prompt"]])
        done = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=request["max_tokens"],
            do_sample=True,
            top_k=0,
            temperature=request["temperature"],
            eos_token_id=request["stop_token_ids"],
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
        )
        new = done.sequences[0, ids.shape[1] :].tolist()
        logprobs = [float(row[0].log_softmax(-1)[token]) for row, token in zip(done.scores, new, strict=True)]
        told = {"tokens": [f"token_id:{token}" for token in new], "token_logprobs": logprobs}
        choice = {"index": 0, "text": "", "finish_reason": "stop", "logprobs": told, "token_ids": new}
        return {"id": "1", "object": "text_completion", "created": 0, "model": "policy", "choices": [choice]}


class Generation:
    """The part of TRL's `VLLMGeneration` that sends weights."""

    sent = 0

    def __init__(self, trainer, server_base_url: str, **options) -> None:
        self.trainer, self.url = trainer, server_base_url

    def sync_weights(self) -> None:
        """Send them from the first rank. Once a server takes none."""
        if self.trainer.accelerator.is_main_process:
            Generation.sent += 1
            if Generation.sent == LOST:
                raise ConnectionResetError("reset by peer")
            state = self.trainer.accelerator.unwrap_model(self.trainer.model).state_dict()
            body = save({name: weight.detach().clone() for name, weight in state.items()})
            urllib.request.urlopen(urllib.request.Request(f"{self.url}/weights", body, method="POST"), timeout=200).read()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        import uvicorn

        uvicorn.run(Server(sys.argv[2]), port=int(sys.argv[3]), log_level="warning", lifespan="off", interface="asgi3")
    else:
        from homerl.app.runs import launch
        from homerl.train import recipe as refusals
        from homerl.train.engines import server
        from homerl.train.engines import weight_sync as synced

        synced.make_vllm_generation = Generation
        server.PolicyServerKind.packages = {}
        refusals._find_rlve_refusals = lambda recipe: iter(())  # `cpu: true` with a server
        sys.exit(launch.main(sys.argv[2], sys.argv[3:]))
