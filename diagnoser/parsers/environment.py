"""Environment variables as shells, containers, service files, manifests and Python set them.

export NCCL_P2P_DISABLE=1
docker run -e VLLM_ATTENTION_BACKEND=FLASHINFER ...
UCX_TLS=cuda_ipc,cuda_copy,tcp
- name: NCCL_DEBUG
  value: "INFO"
os.environ["CUDA_HOME"] = "/usr/local/cuda-13.0"
"""

import re
from collections.abc import Iterator

from diagnoser.facts.base import Found
from diagnoser.facts.engine import EnvVar
from diagnoser.facts.lazy import lazy
from diagnoser.parsers.base import Lines, Parser
from diagnoser.parsers.statement import LIMIT

MAX_VALUE = 2000

_NAME = r"[A-Za-z_]\w{1,100}"
_VALUE = r"""(?:"([^"]{0,2000})"|'([^']{0,2000})'|([^\s"';&|]{0,2000}))"""
_KNOWN = (
    r"(?:CUDA|NCCL|SGLANG|SGL|VLLM|FLASHINFER|TORCH|PYTORCH|TORCHINDUCTOR|TRITON|GGML|LLAMA|OLLAMA|TLLM|TRTLLM|UCX|OMP|"
    r"MKL|KMP|HF|TRANSFORMERS|NVIDIA|LD|GLOO|OMPI|NVSHMEM|DG|DYN|RAY|TIKTOKEN|TOKENIZERS|PYTHON)_[A-Z0-9_]{1,90}"
)
_EXPORT = lazy(rf"(?:^|[\s;&\"'(])(?:export|ENV|setenv)\s{{1,4}}({_NAME})[=\s]{_VALUE}")
_MORE = lazy(rf"\s{{1,4}}({_NAME})={_VALUE}")
_UNSET = lazy(rf"(?:^|[\s;&])unset\s{{1,4}}({_NAME})\s*$")
_DOCKER = lazy(rf"(?:^|\s)(?:-e|--env)[\s=]{{1,4}}[\"']?({_NAME})={_VALUE}")
_SYSTEMD = lazy(rf"^\s{{0,8}}Environment=\"?({_NAME})={_VALUE}")
_BARE = lazy(rf"^\s{{0,16}}(?:[$#>%] |- ['\"]?|declare -x )?({_KNOWN})={_VALUE}")
_YAML = lazy(rf"^\s{{0,40}}({_KNOWN}):\s{{1,4}}{_VALUE}\s*$")
_YAML_NAME = lazy(rf"^\s{{0,40}}- name:\s{{1,4}}[\"']?({_NAME})[\"']?\s*$")
_YAML_VALUE = lazy(rf"^\s{{0,40}}value:\s{{0,4}}{_VALUE}\s*$")
_PYTHON = lazy(
    rf"os\.environ(?:\[|\.setdefault\()\s{{0,4}}[\"']({_NAME})[\"'](?:\]\s{{0,4}}=|,)\s{{0,4}}{_VALUE}"
)
_ASSIGNMENT = lazy(rf"({_NAME})={_VALUE}\Z")
_SECRET = lazy(r"TOKEN(?!IZERS)|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_KEY", re.I)


def assignment(word: str) -> tuple[str, str] | None:
    """``NAME=value`` as name and value; None for other words and for names of secrets.

    >>> assignment("NCCL_P2P_DISABLE=1")
    ('NCCL_P2P_DISABLE', '1')
    """
    match = _ASSIGNMENT.match(word)
    return None if match is None or _SECRET.search(match[1]) or word[0] == "-" else (match[1], _value(match))


def _value(match: re.Match[str]) -> str:
    return next((group for group in match.groups()[1:4] if group is not None), "")


def parse(lines: Lines, i: int) -> Iterator[Found]:
    """Variables set on line i; an ``unset`` gives the value None."""
    line = lines[i][:LIMIT]
    unset = _UNSET.search(line)
    if unset is not None:
        yield Found(EnvVar(name=unset[1], value=None), i, i)
        return
    named = _YAML_NAME.match(line)
    if named is not None:
        value = _YAML_VALUE.match(lines[i + 1][:LIMIT]) if i + 1 < len(lines) else None
        if value is not None and not _SECRET.search(named[1]):
            text = next((group for group in value.groups() if group is not None), "")
            yield Found(EnvVar(name=named[1], value=text), i, i + 1)
        return
    for match in _settings(line):
        if not _SECRET.search(match[1]):
            yield Found(EnvVar(name=match[1], value=_value(match)), i, i)


def _settings(line: str) -> Iterator[re.Match[str]]:
    for pattern in (_EXPORT, _BARE, _SYSTEMD):
        match = pattern.search(line)
        while match is not None:
            yield match
            match = _MORE.match(line, match.end())
    for pattern in (_DOCKER, _PYTHON):
        yield from pattern.finditer(line)
    yaml = _YAML.match(line)
    if yaml is not None:
        yield yaml


ENVIRONMENT = Parser(
    "environment",
    (
        "export ",
        "unset ",
        "setenv ",
        "os.environ",
        "Environment=",
        "--env",
        " -e ",
        "- name: ",
        "CUDA_",
        "NCCL_",
        "SGLANG_",
        "VLLM_",
        "FLASHINFER_",
        "TORCH_",
        "PYTORCH_",
        "TORCHINDUCTOR_",
        "TRITON_",
        "GGML_",
        "OLLAMA_",
        "TLLM_",
        "UCX_",
        "OMP_NUM",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NVIDIA_",
        "GLOO_",
        "NVSHMEM_",
        "HF_HUB",
        "HF_HOME",
        "PYTHON_",
        "TOKENIZERS_",
    ),
    parse,
)
