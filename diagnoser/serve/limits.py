"""What a visitor may ask for, and who may ask."""

import hmac
import ipaddress
import os
from typing import NamedTuple

MIB = 1024 * 1024


class Limits(NamedTuple):
    """bytes: of one request. seconds: of one diagnosis; of silence while a request is sent. at_once: diagnoses at
    work; waiting: those in line behind them. memory_bytes: address space of a diagnosis."""

    bytes: int = 100 * MIB
    seconds: float = 120.0
    silence: float = 15.0
    at_once: int = max(1, os.cpu_count() or 1)
    waiting: int = 200
    memory_bytes: int = 8 * 1024 * MIB


class Door(NamedTuple):
    """Who may come in. token: None lets everybody in, which only a loopback address may do. hosts: names under which
    the server answers, so that a page from elsewhere cannot reach it through a name of its own (DNS rebinding)."""

    token: str | None
    hosts: frozenset[str]

    def known(self, host: str) -> bool:
        """Whether a Host header is one of ours."""
        return _name(host) in self.hosts

    def opens(self, authorization: str) -> bool:
        """Whether an Authorization header holds the token."""
        if self.token is None:
            return True
        return hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode())


def _name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
