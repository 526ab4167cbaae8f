"""What secrets look like: tokens with a known beginning, and values with a telling name.

Shapes are those that the issuers document or that secret scanners agree on. Each pattern is linear: every
quantifier is bounded or meets no second way to match the same bytes.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from diagnoser.facts.lazy import lazy

Kind = Literal["password", "key", "token"]


class _Shape(NamedTuple):
    """The literal stands in every match; group 1 is the secret."""

    literal: bytes
    pattern: re.Pattern[bytes]


def _shape(literal: str, rest: str, before: str = r"(?<![A-Za-z0-9])") -> _Shape:
    return _Shape(literal.encode(), lazy(f"{before}{re.escape(literal)}({rest})".encode()))


_BEARER = lazy(rb"(?i)\bbearer[ \t]{1,4}((?=[A-Za-z._~+/=\-]{0,256}[0-9])[\w.~+/=\-]{8,})")
_AUTHORIZATION = lazy(
    rb"(?i)authorization(?:\\{0,3}[\"']?[ \t]{0,4}[:=]|[\"'],)[ \t]{0,4}(?:b(?=[\"']))?\\{0,3}[\"']?"
    rb"(?:(?:bearer|basic|token|digest|apikey|negotiate)[ \t]{1,4})?([^\s\"'\\,}]{1,8192})"
)
_COOKIE = lazy(rb"(?i)\bcookie[\"']?:[ \t]{0,4}[\"']?([^\s\"'][^\r\n\"']{0,8191})")
_CURL_USER = lazy(
    rb"\bcurl\b[^\n]{0,800}?[ \t](?:-u|--user|--proxy-user|-U)[ \t=]{1,4}[\"']?[^\s:\"']{1,128}:([^\s\"']{1,256})"
)
_LOGIN = lazy(
    # docker, podman, helm registry, az acr; and a netrc entry on one line
    rb"\b(?:docker|podman|nerdctl|helm|oras|az|crane)\b[^\n]{0,80}? login [^\n]{0,400}?(?:-p|--password)[ \t=]{1,4}"
    rb"[\"']?([^\s\"']{1,512})"
    rb"|\bmachine[ \t]{1,8}\S{1,256}[ \t]{1,8}login[ \t]{1,8}\S{1,256}[ \t]{1,8}password[ \t]{1,8}(\S{1,512})"
)
_MYSQL = lazy(rb"\bmysql(?:dump|admin)?\b[^\n]{0,200}?[ \t]-p([^\s\"'\-][^\s\"']{0,255})")
_SHAPES = (
    _shape("hf_", r"[A-Za-z0-9]{20,}", ""),
    _shape("api_org_", r"[A-Za-z0-9]{20,}", ""),
    _shape("sk-", r"[A-Za-z0-9_\-]{16,}"),
    _shape("AKIA", r"[A-Z0-9]{16}(?![A-Z0-9])"),
    _shape("ASIA", r"[A-Z0-9]{16}(?![A-Z0-9])"),
    *(_shape(f"gh{letter}_", r"[A-Za-z0-9]{20,}") for letter in "pousr"),
    _shape("github_pat_", r"[A-Za-z0-9_]{20,}"),
    _shape("glpat-", r"[A-Za-z0-9_.\-]{16,}"),
    *(_shape(f"xox{letter}-", r"[A-Za-z0-9\-]{10,}") for letter in "abeprs"),
    _shape("xapp-", r"[A-Za-z0-9\-]{10,}"),
    _shape("hooks.slack.com/services/", r"[A-Za-z0-9/]{16,}", ""),
    _shape("AIza", r"[A-Za-z0-9_\-]{30,}"),
    _shape("ya29.", r"[A-Za-z0-9_\-.]{20,}"),
    _shape("nvapi-", r"[A-Za-z0-9_\-]{16,}"),
    _shape("gsk_", r"[A-Za-z0-9]{20,}"),
    _shape("dckr_pat_", r"[A-Za-z0-9_\-]{16,}"),
    _shape("pypi-", r"[A-Za-z0-9_\-]{32,}"),
    _shape("npm_", r"[A-Za-z0-9]{30,}"),
    _shape("eyJ", r"[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-+/=]{2,}){0,4}"),
    *(_shape(f"{kind}_live_", r"[A-Za-z0-9]{16,}") for kind in ("sk", "rk", "pk")),
    *(_shape(f"{kind}_test_", r"[A-Za-z0-9]{16,}") for kind in ("sk", "rk")),
    _shape("hvs.", r"[A-Za-z0-9_\-]{20,}"),
    _shape("hvb.", r"[A-Za-z0-9_\-]{20,}"),
    *(_shape(f"do{letter}_v1_", r"[a-f0-9]{40,}") for letter in "por"),
    _shape("r8_", r"[A-Za-z0-9]{30,}"),
    _shape("pplx-", r"[A-Za-z0-9]{30,}"),
    _shape("xai-", r"[A-Za-z0-9]{40,}"),
    _shape("csk-", r"[a-z0-9]{40,}"),
    _shape("tgp_v1_", r"[A-Za-z0-9_\-]{30,}"),
    _shape("SG.", r"[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}"),
    _shape("glsa_", r"[A-Za-z0-9_]{30,}"),
    _shape("tskey-", r"[A-Za-z0-9\-]{16,}"),
    _shape("lin_api_", r"[A-Za-z0-9]{30,}"),
    _shape("sntrys_", r"[A-Za-z0-9_+/=]{30,}"),
    *(_Shape(literal, _COOKIE) for literal in (b"ookie:", b"ookie':", b'ookie":', b"OOKIE:")),
    _Shape(b"curl ", _CURL_USER),
    _Shape(b" login ", _LOGIN),
    _Shape(b"mysql", _MYSQL),
    *(_Shape(literal, _BEARER) for literal in (b"earer ", b"EARER ")),
    *(_Shape(literal, _AUTHORIZATION) for literal in (b"uthorization", b"UTHORIZATION")),
    _Shape(b"api-key',", re.compile(rb"api-key',[ \t]b'([^'\n]{1,8192})")),  # headers as ASGI has them
    _Shape(b"@", re.compile(rb"://[^\s/@:\"'<>]{0,256}:([^\s/\"'<>]{1,256})@")),
    _Shape(b"@", re.compile(rb"://([\w.~\-]{16,256})@")),
)

_QUOTE = rb"(?:\\{0,3}[\"'])"
_FORMS = (
    rb"(?:[A-Za-z_.]{1,40}\(|[bBrRuU]{1,2})?"  # SecretStr('...'), b'...'
    rb"(?:(?P<q>[\"'])(?P<quoted>(?:\\.|(?!(?P=q))[^\\\n]){0,8192})|\\{1,3}[\"'](?P<inner>[^\"'\\\n]{0,8192}))"
    rb"|\[(?P<list>[^\]\n]{1,8192})"
)
_VALUE = lazy(_FORMS + rb"|(?P<bare>[^\s\"'\[][^\s\"',;&)\]}\\<>]{0,8191})")
_ENVIRONMENT_VALUE = lazy(_FORMS + rb"|(?P<bare>[^\s\"'\[][^\s\"']{0,8191})")
_ENDS = (
    *b"key Key KEY oken OKEN ecret ECRET assword ASSWORD asswd ASSWD assphrase ASSPHRASE PASS".split(),
    *b"ignature IGNATURE sig PWD Pwd pwd".split(),
    *(b"pi key", b"pi Key", b"PI key", b"PI Key", b"PI KEY", b"ess key", b"ret key"),
)
_NAME_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_MAX_NAME = 80
_SEPARATOR = lazy(
    rb"(?P<sep>%b?\]?[ \t]{0,8}(?:=>|:=|=(?!=)|:(?!:))[ \t]{0,64})|(?P<gap>[ \t]{1,8}|%b,[ \t]{0,4}(?=%b))"
    % (_QUOTE, _QUOTE, _QUOTE)
)
_PAIR = lazy(  # a name above or beside its value, as Kubernetes has it
    rb"\bname%b?[ \t]{0,4}:[ \t]{0,4}%b?(?P<name>[A-Za-z_][\w.\-]{0,80}+)%b?,?\s{0,80}%b?value%b?"
    rb"(?P<sep>[ \t]{0,4}:[ \t]{0,4})" % ((_QUOTE,) * 5)
)
_DOCKER_AUTH = lazy(rb"\"auth\"[ \t]{0,4}:[ \t]{0,4}\"([A-Za-z0-9+/=]{8,4096})\"")

_NETRC_LINE = lazy(rb"(?m)^[ \t]{0,16}password[ \t]{1,8}(\S{3,512})[ \t]{0,8}\r?$")
_FOLDERS = frozenset([b"PWD", b"OLDPWD", b"pwd", b"oldpwd"])
"""Shells print the folder they are in under these names; alone they tell no password."""
_CAMEL = lazy(rb"(?<=[a-z0-9])(?=[A-Z])")
_KEY_OWNERS = frozenset(
    b"api access secret private account auth encryption signing master subscription service admin client license"
    b" shared aws azure openai anthropic wandb hf".split()
)
_TOKEN_OWNERS = frozenset(
    b"auth access api hf bearer refresh session secret user gh github csrf xsrf my".split()
)
_TEXT_TOKENS = frozenset(
    b"bos eos pad unk sep cls mask stop start end begin first last next new prev max min num per total input output"
    b" prompt cached draft bonus special additional image img video audio vision think tool call system user"
    b" assistant eot eom eod eog fim prefix middle suffix placeholder text context generated decode prefill"
    b" response accepted reasoning completion each single one multi special".split()
)
_NO_VALUES = frozenset(
    b"none null nil true false empty undefined unset redacted hidden secret_str str bytes int bool string - ...".split()
)
_REFERENCE = lazy(
    rb"\$\{?[A-Z][A-Z0-9_]{0,80}\}?|\$\{\{.{0,200}|\$\(.{0,200}|<[^<>]{0,80}>|\{\{.{0,200}"
    rb"|(?:self|args|os|cfg|config|settings|kwargs|server_args|engine_args)\.\S{0,200}"
    rb"|(?:Optional|Union|List|list)\[.{0,80}"
)
_NUMBER = lazy(rb"[+\-]?[\d., ]{1,4096}(?:[eE][+\-]?\d{1,4})?%?")
_NEXT_WORD = lazy(
    rb"[ \t]{1,4}[\"']?(?!-)(?=[\w\-]{0,256}\d)(?=[\w\-]{0,256}[A-Za-z])([\w\-]{12,512})[\"']?(?=[ \t\r\n]|$)"
)
_WORD_FOLLOWS = lazy(rb"[ \t][A-Za-z]")


def secrets_in(lines: bytes) -> Iterator[tuple[int, int]]:
    """Where secret values stand in a few lines, as start and end. They may overlap."""
    for shape in _SHAPES:
        if shape.literal in lines:
            for found in shape.pattern.finditer(lines):
                group = found.lastindex or 1
                if not _harmless(found[group], "key"):
                    yield found.span(group)
    for end in _ENDS:
        yield from _named(end, lines)
    if b"value" in lines:
        for found in _PAIR.finditer(lines):
            yield from _value(lines, found["name"], found["sep"], found.end())
    if b"password " in lines:
        for found in _NETRC_LINE.finditer(lines):
            if not _harmless(found[1], "password"):
                yield found.span(1)
    for found in _DOCKER_AUTH.finditer(lines):
        yield found.span(1)


def kind_of(name: bytes) -> Kind | None:
    """What a value of this name would be; None where the name promises no secret (``max_token``, ``sort_key``)."""
    words = [word for word in re.split(rb"[_.\- ]", _CAMEL.sub(b"_", name).lower()) if word]
    last = words[-1] if words else b""
    before = words[-2] if len(words) > 1 else b""
    environment = name.isupper() and before != b""
    if last.endswith((b"password", b"passwd", b"passphrase")) or (environment and last == b"pass"):
        return "password"
    if last == b"pwd" and name not in _FOLDERS:
        return "password"
    if last.endswith((b"secret", b"apikey")) or last in (b"signature", b"sig"):
        return "key"
    if last == b"key" and (before in _KEY_OWNERS or environment):
        return "key"
    if (last == b"token" and before not in _TEXT_TOKENS) or (
        last[-5:] == b"token" and last[:-5] in _TOKEN_OWNERS
    ):
        return "token"
    return None


def _named(end: bytes, lines: bytes) -> Iterator[tuple[int, int]]:
    """Values of the names that end so. Names are found from their end: that is rare, and quick to look for."""
    at = lines.find(end)
    while at >= 0:
        stop = at + len(end)
        if found := _SEPARATOR.match(lines, stop):
            start = at
            while start > 0 and stop - start < _MAX_NAME and lines[start - 1] in _NAME_BYTES:
                start -= 1
            name = lines[start:stop].lstrip(b"-.")
            flag = lines[start : start + 1] == b"-"
            sep = found["sep"]
            if (flag and b":" not in (sep or b"")) or (not flag and sep):
                for span in _value(lines, name, sep or b"", found.end()):
                    yield span
                    stop = span[1]
                    if flag and not sep:
                        for further in _further(lines, stop):
                            yield further
                            stop = further[1]
        at = lines.find(end, stop)


def _further(lines: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Flags that take several values (``--api-key k1 k2``): the words behind the first that look like keys too."""
    while found := _NEXT_WORD.match(lines, at):
        yield found.span(1)
        at = found.end()


def _value(lines: bytes, name: bytes, sep: bytes, at: int) -> Iterator[tuple[int, int]]:
    kind = kind_of(name)
    environment = name.isupper()
    form = _ENVIRONMENT_VALUE if environment and sep == b"=" else _VALUE
    found = form.match(lines, at) if kind else None
    if kind is None or found is None:
        return
    group = next(group for group in ("quoted", "inner", "list", "bare") if found[group] is not None)
    start, end = found.span(group)
    value = lines[start:end]
    same = value.replace(b"-", b"_").lower() == name.replace(b"-", b"_").lower()
    if _harmless(value, kind) or (same and (kind != "password" or value.isupper())):
        return
    if name.lower().endswith((b"sig", b"signature")) and len(value) < 16:
        return
    # "Invalid token: expected a string" tells no token.
    prose = b":" in sep and group == "bare" and not environment and kind != "password" and value.isalpha()
    if not (prose and _WORD_FOLLOWS.match(lines, end)):
        yield start, end


def _harmless(value: bytes, kind: Kind) -> bool:
    value = value.strip()
    if not value.strip(b"*") or value.lower() in _NO_VALUES or _REFERENCE.fullmatch(value):
        return True
    if kind == "password" or not _NUMBER.fullmatch(value):
        return False
    return kind == "token" or len(value) < 6
