"""The MCP server, driven by the official client over standard input and output."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
STORY = FIXTURES / "story" / "step6-triton-default.log"


def talk(act: Callable[[ClientSession], Awaitable[Any]]) -> Any:
    async def session() -> Any:
        command = StdioServerParameters(command=sys.executable, args=["-m", "diagnoser", "mcp"])
        async with stdio_client(command) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            return await act(client)

    return asyncio.run(asyncio.wait_for(session(), 60))


def answered(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    found: dict[str, Any] = json.loads(result.content[0].text)
    return found


def test_the_tools_all_read_and_none_changes_anything() -> None:
    tools = talk(lambda client: client.list_tools()).tools
    assert {tool.name for tool in tools} == {
        "diagnose",
        "diagnose_files",
        "look_at_host",
        "explain_rule",
        "compare",
    }
    assert all(tool.annotations.read_only_hint and not tool.annotations.destructive_hint for tool in tools)


def test_a_text_is_diagnosed() -> None:
    found = answered(talk(lambda client: client.call_tool("diagnose", {"text": STORY.read_text()})))
    assert found["schema"] == "diagnoser/diagnosis/1"
    first = found["findings"][0]
    assert first["rule"] == "triton-attn-default-sm120"
    assert first["evidence"][0]["line"] == 2


def test_files_a_rule_and_benchmarks() -> None:
    async def several(client: ClientSession) -> list[Any]:
        bench = FIXTURES / "bench" / "vllm_serve.json"
        return [
            await client.call_tool("diagnose_files", {"paths": [str(STORY)]}),
            await client.call_tool(
                "explain_rule", {"rule": "triton-attn-default-sm120", "text": STORY.read_text()}
            ),
            await client.call_tool("compare", {"before": str(bench), "after": str(bench)}),
        ]

    files, rule, benchmarks = talk(several)
    assert answered(files)["findings"][0]["rule"] == "triton-attn-default-sm120"
    assert "Use triton backend by default" in rule.content[0].text
    assert answered(benchmarks)["word"] in ("the same", "no difference seen")


def test_what_cannot_be_done_is_a_sentence() -> None:
    async def several(client: ClientSession) -> list[Any]:
        return [
            await client.call_tool("diagnose_files", {"paths": ["/nowhere/x.log"]}),
            await client.call_tool("explain_rule", {"rule": "no-such-rule"}),
            await client.call_tool("compare", {"before": "/nowhere", "after": "/nowhere"}),
            await client.call_tool("look_at_host", {"host": "nobody@127.0.0.1:1"}),
        ]

    for result in talk(several):
        assert result.is_error
        assert "Traceback" not in result.content[0].text


def test_this_machine_is_looked_at() -> None:
    found = answered(talk(lambda client: client.call_tool("look_at_host", {"host": "local"})))
    assert found["schema"] == "diagnoser/diagnosis/1"
    assert found["coverage"]
