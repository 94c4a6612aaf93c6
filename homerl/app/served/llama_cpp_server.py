"""A GGUF file behind llama.cpp's own server, which the package `xllamacpp` holds. It needs no torch.

Invariant: the server listens as `ServerAddress` allows: other machines reach it with a key alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.host.web_server import ServerAddress, open_listening_socket


def start_gguf_server(file: Path, address: ServerAddress, max_tokens: int) -> Any:
    """llama.cpp's server for a file, which answers until the object is gone: its `listening_address` is its URL.

    Context and threads are llama.cpp's own choice. Raises `InputError` if the file is no model, or the port is taken.
    """
    import xllamacpp  # of the extra `gguf`

    if not file.is_file():
        raise InputError("there is no such file", str(file), "homerl export --gguf q8_0 writes one")
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise InputError("this is no GGUF file", str(file), "homerl export --gguf q8_0 writes one")
    open_listening_socket(address).close()  # llama.cpp would say less of a port that is taken
    asked = xllamacpp.CommonParams()
    asked.model.path, asked.model_alias = str(file), {file.stem}
    asked.hostnames, asked.port, asked.api_keys = [address.host], address.port, [address.key] if address.key else []
    asked.n_predict, asked.n_parallel, asked.verbosity = max_tokens, 1, 0
    try:
        return xllamacpp.Server(asked)
    except RuntimeError as error:
        raise InputError(f"llama.cpp cannot load it ({error})", str(file), "export it again") from None
