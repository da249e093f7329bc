"""What a checkpoint says about text: templates, end tokens, default sampling, from either kind of file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.text.assets import TextAssets, TextSources, eos_token_ids, load_assets
from engine.text.tokenizer import TokenizerError
from tests.engine.text.gguf_files import write_byte_level_gguf, write_sentencepiece_gguf
from tests.tiny_tokenizer import write_gemma_tokenizer, write_llama_tokenizer

USER = [{"role": "user", "content": "hi"}]


def _load(tmp_path: Path, sources: TextSources) -> TextAssets:
    return load_assets(sources, tmp_path / "cache", lambda: datetime.fromtimestamp(0, UTC))


def _prompt(assets: TextAssets) -> str:
    assert assets.chat_template is not None
    return assets.chat_template.render(USER)


def test_template_of_a_directory(tmp_path: Path) -> None:
    write_llama_tokenizer(tmp_path)
    prompt = _prompt(_load(tmp_path, TextSources(tmp_path)))
    assert prompt.startswith("<|begin_of_text|><|start_header_id|>user")


def test_separate_template_file_wins(tmp_path: Path) -> None:
    write_llama_tokenizer(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ bos_token }}!", encoding="utf-8")
    assert _prompt(_load(tmp_path, TextSources(tmp_path))) == "<|begin_of_text|>!"


@pytest.mark.parametrize("inline", [True, False])
def test_operator_template_wins(tmp_path: Path, inline: bool) -> None:
    write_llama_tokenizer(tmp_path)
    text = "{{ 'mine' }}"
    (tmp_path / "mine.jinja").write_text(text, encoding="utf-8")
    given = text if inline else str(tmp_path / "mine.jinja")
    assert _prompt(_load(tmp_path, TextSources(tmp_path, chat_template=given))) == "mine"


def test_named_templates(tmp_path: Path) -> None:
    write_llama_tokenizer(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    special = {"content": "<|begin_of_text|>", "special": True}
    path.write_text(json.dumps({**config, "chat_template": named, "bos_token": special}), encoding="utf-8")
    assert _prompt(_load(tmp_path, TextSources(tmp_path))) == "d"


def test_gguf_template_and_family_fallback(tmp_path: Path) -> None:
    write_byte_level_gguf(tmp_path / "a.gguf", template="{{ bos_token }}{{ eos_token }}")
    assert _prompt(_load(tmp_path, TextSources(tmp_path / "a.gguf"))) == "<|begin_of_text|><|end_of_text|>"
    write_sentencepiece_gguf(tmp_path / "b.gguf")
    assert _prompt(_load(tmp_path, TextSources(tmp_path / "b.gguf"))).startswith(
        "<bos><start_of_turn>user\nhi"
    )


def test_no_template_at_all(tmp_path: Path) -> None:
    write_byte_level_gguf(tmp_path / "a.gguf")
    assert _load(tmp_path, TextSources(tmp_path / "a.gguf")).chat_template is None


def test_another_tokenizer_brings_its_template(tmp_path: Path) -> None:
    write_byte_level_gguf(tmp_path / "a.gguf")
    (tmp_path / "other").mkdir()
    write_gemma_tokenizer(tmp_path / "other")
    assets = _load(tmp_path, TextSources(tmp_path / "a.gguf", tokenizer=tmp_path / "other"))
    assert _prompt(assets).startswith("<bos><start_of_turn>user")


def test_eos_of_gguf_holds_the_end_of_turn(tmp_path: Path) -> None:
    write_sentencepiece_gguf(tmp_path / "a.gguf")
    assert eos_token_ids(tmp_path / "a.gguf") == (1, 5)
    write_byte_level_gguf(tmp_path / "b.gguf")
    assert eos_token_ids(tmp_path / "b.gguf") == (1, 4)


def test_eos_of_directories(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"eos_token_id": 7, "text_config": {}}', encoding="utf-8")
    assert eos_token_ids(tmp_path) == (7,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [9, 8]}', encoding="utf-8")
    assert eos_token_ids(tmp_path) == (8, 9)
    added = {"added_tokens_decoder": {"106": {"content": "<end_of_turn>"}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(added), encoding="utf-8")
    assert eos_token_ids(tmp_path) == (8, 9, 106)


def test_eos_in_the_text_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"text_config": {"eos_token_id": [1, 106]}}', encoding="utf-8")
    assert eos_token_ids(tmp_path) == (1, 106)


def test_the_tokenizers_own_end_token_ends_answers_too(tmp_path: Path) -> None:
    """A chat checkpoint whose configuration is still its base model's."""
    (tmp_path / "config.json").write_text('{"eos_token_id": 7}', encoding="utf-8")
    added = {"5": {"content": "<|im_end|>"}, "6": {"content": "<tool_call>"}}
    for name in ("<|im_end|>", {"content": "<|im_end|>", "special": True}):
        text = json.dumps({"eos_token": name, "added_tokens_decoder": added})
        (tmp_path / "tokenizer_config.json").write_text(text, encoding="utf-8")
        assert eos_token_ids(tmp_path) == (5, 7)


def test_end_tokens_of_a_generation_config_elsewhere_are_added(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"eos_token_id": 7}', encoding="utf-8")
    (tmp_path / "other").mkdir()
    for listed, expected in ((9, (7, 9)), ([8, 9], (7, 8, 9)), (None, (7,))):
        text = json.dumps({"eos_token_id": listed})
        (tmp_path / "other" / "generation_config.json").write_text(text, encoding="utf-8")
        assert eos_token_ids(tmp_path, str(tmp_path / "other")) == expected
    for name in ("auto", "none", "vllm"):
        assert eos_token_ids(tmp_path, name) == (7,)


def test_sampling_defaults(tmp_path: Path) -> None:
    write_llama_tokenizer(tmp_path)
    path = tmp_path / "generation_config.json"

    def defaults(config: dict[str, object], where: str = "auto") -> dict[str, float]:
        path.write_text(json.dumps(config), encoding="utf-8")
        return dict(_load(tmp_path, TextSources(tmp_path, generation_config=where)).sampling_defaults)

    every = {"temperature": 0.6, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1}
    every["max_new_tokens"] = 7
    assert defaults({**every, "max_length": 20, "eos_token_id": 1}) == every
    assert defaults(every, "none") == defaults(every, "vllm") == {}
    assert defaults({"do_sample": False, **every}) == {"repetition_penalty": 1.1, "max_new_tokens": 7}
    assert defaults({"temperature": None}) == {}
    for name, value in (("temperature", 3), ("top_p", "x"), ("top_k", True), ("max_new_tokens", 0)):
        with pytest.raises(TokenizerError, match=f"generation_config.json: {name} must be"):
            defaults({name: value})


def test_sampling_defaults_from_elsewhere(tmp_path: Path) -> None:
    write_llama_tokenizer(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"top_k": 4}', encoding="utf-8")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "generation_config.json").write_text('{"top_k": 5}', encoding="utf-8")
    sources = TextSources(tmp_path, generation_config=str(tmp_path / "other"))
    assert _load(tmp_path, sources).sampling_defaults == {"top_k": 5}
    write_byte_level_gguf(tmp_path / "a.gguf")
    assert _load(tmp_path, TextSources(tmp_path / "a.gguf")).sampling_defaults == {}


def test_broken_config_is_named(tmp_path: Path) -> None:
    write_llama_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(TokenizerError, match="tokenizer_config"):
        _load(tmp_path, TextSources(tmp_path))


def test_parsers_follow_the_template_or_the_operator(tmp_path: Path) -> None:
    write_llama_tokenizer(tmp_path)
    template = "{{ tools }}<tool_call>{{ '<think>' }}{{ '</think>' }}"
    auto = _load(tmp_path, TextSources(tmp_path, chat_template=template))
    assert (auto.call_format and auto.call_format.name, auto.reasoning_parser) == ("hermes", "qwen3")
    plain = _load(tmp_path, TextSources(tmp_path))
    assert (plain.call_format, plain.reasoning_parser) == (None, None)
    told = _load(tmp_path, TextSources(tmp_path, tool_call_parser="mistral", reasoning_parser="deepseek_r1"))
    assert (told.call_format and told.call_format.name, told.reasoning_parser) == ("mistral", "deepseek_r1")
