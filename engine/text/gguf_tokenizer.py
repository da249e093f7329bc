"""A `tokenizers` tokenizer from GGUF metadata.

GGUF files carry a vocabulary, not a tokenizer. SentencePiece-style ones (`tokenizer.ggml.model = llama`)
have scores and no merges: the merges are every split of a piece into two known pieces, best score first.
GPT-2-style ones (`gpt2`) have merges and name their pre-tokenizer. Building takes seconds for a large
vocabulary, so the caller keeps the result. Knows no chat templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from engine.gguf import GGUFError, Metadata

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_MARK = "▁"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_PRE_TOKENIZERS: Mapping[str, str] = {
    "llama-bpe": _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tekken": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
}
_PRE_ALIASES: Mapping[str, str] = {
    "llama3": "llama-bpe",
    "llama-v3": "llama-bpe",
    "default": "gpt-2",
    "gpt2": "gpt-2",
}


def build_tokenizer(metadata: Metadata) -> Tokenizer:
    """The tokenizer of a GGUF file. Raises `GGUFError` for kinds that we do not know."""
    kind = metadata.str_of("tokenizer.ggml.model")
    tokens = metadata.strings_of("tokenizer.ggml.tokens")
    types = [int(value) for value in metadata.numbers_of("tokenizer.ggml.token_type")]
    if len(types) != len(tokens):
        raise GGUFError(f"{len(tokens)} tokens but {len(types)} token types")
    if kind == "llama":
        tokenizer = _sentencepiece(metadata, tokens, types)
    elif kind == "gpt2":
        tokenizer = _byte_level(metadata, tokens)
    else:
        raise GGUFError(f"tokenizer.ggml.model {kind!r} is not supported (llama and gpt2 are)")
    _add_tokens(tokenizer, tokens, types)
    _add_bos(tokenizer, metadata, tokens, default=kind == "llama")
    return tokenizer


def merges_from_scores(
    tokens: Sequence[str], types: Sequence[int], scores: Sequence[float]
) -> list[tuple[str, str]]:
    """Every way to make a piece of two pieces, in the order in which SentencePiece would apply them."""
    pieces = {token for token, kind in zip(tokens, types, strict=True) if kind == _NORMAL}
    rank = {token: (-scores[index], index) for index, token in enumerate(tokens)}
    merges: list[tuple[float, int, int, str, str]] = []
    for piece in pieces:
        score, index = rank[piece]
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in pieces and right in pieces:
                merges.append((score, index, cut, left, right))
    merges.sort()
    return [(left, right) for *_, left, right in merges]


def _sentencepiece(metadata: Metadata, tokens: list[str], types: list[int]) -> Tokenizer:
    scores = metadata.numbers_of("tokenizer.ggml.scores").tolist()
    if len(scores) != len(tokens):
        raise GGUFError(f"{len(tokens)} tokens but {len(scores)} scores")
    unknown = tokens[metadata.int_of("tokenizer.ggml.unknown_token_id", 0)]
    model = models.BPE(
        vocab=_vocabulary(tokens),
        merges=merges_from_scores(tokens, types, scores),
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=_BYTE in types,
    )
    tokenizer = Tokenizer(model)
    space_prefix = metadata.bool_of("tokenizer.ggml.add_space_prefix", True)
    scheme = "first" if space_prefix else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=_MARK, prepend_scheme=scheme, split=False)
    steps = [decoders.Replace(_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if space_prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def _byte_level(metadata: Metadata, tokens: list[str]) -> Tokenizer:
    name = metadata.str_of("tokenizer.ggml.pre", "default")
    name = _PRE_ALIASES.get(name, name)
    if name not in _PRE_TOKENIZERS:
        known = ", ".join([*_PRE_TOKENIZERS, *_PRE_ALIASES])
        raise GGUFError(f"tokenizer.ggml.pre {name!r} is not supported ({known} are)")
    merges = []
    for line in metadata.strings_of("tokenizer.ggml.merges"):
        left, _, right = line.partition(" ")
        merges.append((left, right))
    model = models.BPE(
        vocab=_vocabulary(tokens), merges=merges, ignore_merges=name in ("llama-bpe", "tekken")
    )
    tokenizer = Tokenizer(model)
    if name == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(_PRE_TOKENIZERS[name]), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _vocabulary(tokens: Sequence[str]) -> dict[str, int]:
    """Token → id; a repeated token (padding entries) keeps its first id."""
    vocabulary: dict[str, int] = {}
    for index, token in enumerate(tokens):
        vocabulary.setdefault(token, index)
    return vocabulary


def _add_tokens(tokenizer: Tokenizer, tokens: Sequence[str], types: Sequence[int]) -> None:
    """Control tokens are special; user-defined ones (runs of spaces, markup) are matched before all else."""
    special = [t for t, kind in zip(tokens, types, strict=True) if kind in (_CONTROL, _UNKNOWN)]
    plain = [t for t, kind in zip(tokens, types, strict=True) if kind == _USER_DEFINED and t]
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in special if token]
    )
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in plain])


def _add_bos(tokenizer: Tokenizer, metadata: Metadata, tokens: Sequence[str], *, default: bool) -> None:
    if not metadata.bool_of("tokenizer.ggml.add_bos_token", default):
        return
    bos_id = metadata.int_of("tokenizer.ggml.bos_token_id")
    bos = tokens[bos_id]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[bos, "$A"], pair=[bos, "$A", bos, "$B"], special_tokens=[(bos, bos_id)]
    )
