"""Small real tokenizers for the tiny test models, trained on the spot: byte-level (llama) and
SentencePiece-style with byte fallback (gemma). Deterministic; takes some milliseconds."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = """\
The keeper of the lighthouse wrote down every ship that passed, the hour, the wind and the colour of its flag.
In winter few ships came, and the book stayed closed for days; in summer a page was full before noon.
She counted the lamps at dusk, trimmed them, and carried the oil up one hundred and eleven steps.
"Why do you write it all down?" asked the boy. "Because the sea forgets," she said, "and somebody must not."
A bridge is a promise between two banks: it says that a cart which starts here will also arrive there.
The builder measured the river three times, at high water, at low water and once more for luck.
Prices: 3 loaves for 12 pence, 7 eggs for 5, 1 barrel of salt for 240. No credit is given on Fridays.
def area(width: int, height: int) -> int:
    return width * height
{"name": "harbour", "open": true, "berths": [1, 2, 3, 5, 8], "depth_m": 11.5}
Morgen früh fährt das Schiff über die Förde; größere Wellen sind nicht zu erwarten. Ça va très bien, merci.
The clock in the tower was always four minutes slow, so everybody in town arrived together, four minutes late.
When the storm was over they found the path again, washed clean, with new stones shining in the sun.
"""

LLAMA_SPECIALS = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
]
LLAMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
    "{{ message['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
GEMMA_SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "<start_of_turn>{{ role }}\n{{ message['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def write_llama_tokenizer(directory: Path, vocab_size: int = 512) -> int:
    """Write tokenizer.json and tokenizer_config.json; return the number of tokens (= vocab_size)."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=LLAMA_SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A",
        pair="<|begin_of_text|> $A <|begin_of_text|> $B",
        special_tokens=[("<|begin_of_text|>", 0)],
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    _write_config(directory, LLAMA_TEMPLATE, bos="<|begin_of_text|>", eos="<|eot_id|>")
    return _checked_size(tokenizer, vocab_size)


def write_gemma_tokenizer(directory: Path, vocab_size: int = 512) -> int:
    """As `write_llama_tokenizer`, with Gemma's specials, space marks and byte fallback."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    byte_tokens = [f"<0x{value:02X}>" for value in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=GEMMA_SPECIALS + byte_tokens, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT.split("\n"), trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] not in byte_tokens]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", 2)]
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    _write_config(directory, GEMMA_TEMPLATE, bos="<bos>", eos="<eos>")
    return _checked_size(tokenizer, vocab_size)


def _write_config(directory: Path, template: str, *, bos: str, eos: str) -> None:
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": eos,
        "add_bos_token": True,
        "chat_template": template,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1))


def _checked_size(tokenizer: Tokenizer, expected: int) -> int:
    size = tokenizer.get_vocab_size()
    assert size == expected, f"the training text yields {size} tokens, not {expected}"
    return size
