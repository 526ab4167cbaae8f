"""Network addresses and device identifiers, for logs that leave the house."""

import re
from collections.abc import Iterator

from diagnoser.facts.lazy import lazy

_IPV4 = lazy(rb"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_IPV6 = lazy(
    rb"(?<![\w:.])(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}"
    rb"|(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6}|(?:[0-9A-Fa-f]{1,4}:){1,7}:)(?![\w:])"
)
_MAC = lazy(rb"(?<![\w:\-])[0-9A-Fa-f]{2}(?:([:\-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2}){4}(?![\w:\-])")
_UUID = lazy(rb"(?:GPU|MIG)-([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})")
_HOST = lazy(rb"://(?:[^\s/@\"'<>]{1,256}@)?([A-Za-z][\w.\-]{0,252})")

# Versions of four numbers ("nvidia-cudnn-cu12==9.1.0.70", "nvidia-cublas-cu12   12.4.5.8") are no addresses.
_VERSION_BEFORE = lazy(
    rb"(?:[=~<>!]=|(?i:version|cuda|driver|cu\d{2})\W{1,40}|^[A-Za-z][\w.\-]{2,80}[ \t]{2,80})\Z",
    re.MULTILINE,
)

_PUBLIC = tuple(
    b"." + name
    for name in b"localhost huggingface.co hf.co github.com githubusercontent.com pypi.org pythonhosted.org pytorch.org"
    b" nvidia.com docker.io readthedocs.io vllm.ai sglang.ai".split()
)


def addresses_in(data: bytes) -> Iterator[tuple[int, int]]:
    """Where addresses stand, as start and end: IPv4, IPv6 and MAC addresses, host names in URLs, GPU UUIDs.

    Loopback and wildcard addresses and the names of public services stay: they identify nobody, and whether a
    server listens on 127.0.0.1 matters to a diagnosis.
    """
    for found in _IPV4.finditer(data):
        if _is_ipv4(found[0]) and not _VERSION_BEFORE.search(
            data, max(0, found.start() - 100), found.start()
        ):
            yield found.span()
    if b"::" in data or data.count(b":") > 7:
        for found in _IPV6.finditer(data):
            if _is_ipv6(found[0]):
                yield found.span()
    for pattern, group in ((_MAC, 0), (_UUID, 1)):
        for found in pattern.finditer(data):
            yield found.span(group)
    for found in _HOST.finditer(data):
        if not (b"." + found[1].lower()).endswith(_PUBLIC):
            yield found.span(1)


def _is_ipv4(text: bytes) -> bool:
    parts = [int(part) for part in text.split(b".")]
    return max(parts) < 256 and parts[0] not in (0, 127)


def _is_ipv6(text: bytes) -> bool:
    from ipaddress import IPv6Address

    try:
        return not IPv6Address(text.decode()).is_loopback and any(48 <= byte <= 57 for byte in text)
    except ValueError:
        return False
