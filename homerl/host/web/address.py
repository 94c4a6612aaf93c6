"""Where a server listens.

Invariant: an address that other machines reach has a key.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from dataclasses import dataclass

from homerl.envs.core.documents import InputError


@dataclass(frozen=True)
class ServerAddress:
    """Where a server listens. `key` is needed on every request unless it is None, which the loopback alone allows.

    `ingress` is the address of a proxy that asks by itself who somebody is: its requests for pages need no key.
    """

    host: str = "127.0.0.1"
    port: int = 8124
    key: str | None = None
    ingress: str | None = None

    def __post_init__(self) -> None:
        if self.key is None and not is_loopback(self.host):
            remedy = "name the environment variable that holds a key: --key-env AGENT_KEY"
            raise InputError(f"everybody who reaches {self.host} could use it", "--host", remedy)
        if self.key is not None and not re.fullmatch(r"[!-~]+", self.key):
            remedy = "take letters, digits and signs of ASCII, without spaces"
            raise InputError("the key has characters that HTTP does not carry", "--key-env", remedy)

    @property
    def base_url(self) -> str:
        """The address as a browser takes it."""
        return f"http://{self.bracketed_host}:{self.port}"

    @property
    def bracketed_host(self) -> str:
        """The host as a URL has it."""
        return f"[{self.host}]" if ":" in self.host else self.host


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_listening_socket(address: ServerAddress) -> socket.socket:
    """A socket at the address, taken before anything is announced. `InputError` if it is in use or not of this machine."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        remedy = "is another agent running? Name a free port with --port, and an address of this machine with --host"
        raise InputError(error.strerror or str(error), f"{address.host}, port {address.port}", remedy) from None


def read_key_variable(variable: str | None) -> str | None:
    """The key in an environment variable; None without a variable. Raises `InputError` if the variable holds none."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(f"the environment variable {variable} holds no key", "--key-env", f"export {variable}=...")
    return key
