"""One sequence of a request: the core's tokens in, deltas of text for the caller out.

Runs the detokeniser, the stop search and the parser of reasoning and tool calls, decides the finish reason that the
caller sees, and counts what was reported and what was computed in vain. Stop strings are looked for in the text as
the model wrote it, reasoning and calls included. Knows no HTTP, no journal and no other sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.messages import TokenLogprobs, TokenOutput
from engine.text.answer import AnswerFormat, AnswerParser
from engine.text.detokenizer import Detokenizer, TokenBytes
from engine.text.events import AnswerEvent, Arguments, CallStarted, Content, Reasoning
from engine.text.stops import StopChecker


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """How tokens become the caller's text."""

    stops: tuple[str, ...] = ()
    include_stop: bool = False
    skip_special_tokens: bool = True
    min_tokens: int = 0
    stop_token_ids: frozenset[int] = frozenset()
    """The caller's own; only these are reported as stop_reason."""
    scores_only: bool = False
    """Only the prompt matters (`max_tokens` 0): the one token that the core makes behind it is overrun."""
    answer_id: str = ""
    """As the caller sees it; names the tool calls."""
    format: AnswerFormat | None = None
    """How reasoning and tool calls are told from content; None: all text is content."""
    shown_token_ids: frozenset[int] = frozenset()
    """Special tokens that are text for the sake of `format`."""


@dataclass(slots=True)
class CallDelta:
    """News of one tool call. Name and id come with the first."""

    index: int
    arguments: str = ""
    id: str | None = None
    name: str | None = None


@dataclass(slots=True)
class Delta:
    """News of one choice for the caller."""

    index: int
    text: str = ""
    """Of the content."""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[tuple[int, TokenLogprobs]] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprobs] = field(default_factory=list)
    """Of the whole prompt from its second token on; with the first news of a choice, or never."""
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    reasoning: str = ""
    calls: list[CallDelta] = field(default_factory=list)
    embedding: bytes | None = None
    """With the end, where one was asked for."""

    @property
    def is_news(self) -> bool:
        return bool(self.text or self.reasoning or self.calls)


class Choice:
    """Feed it every output of its sequence, in order."""

    __slots__ = (
        *("_detokenizer", "_options", "_parser", "_pending", "_stops", "_vocabulary", "cached_tokens"),
        *("closed", "finished", "index", "is_cut", "num_overrun", "num_reasoning_tokens", "num_tokens"),
        *("queue_ms", "request_id"),
    )

    def __init__(self, request_id: str, index: int, vocabulary: TokenBytes, options: TextOptions) -> None:
        self.request_id = request_id
        self.index = index
        self._vocabulary = vocabulary
        self._options = options
        self._detokenizer = Detokenizer(
            vocabulary, skip_special_tokens=options.skip_special_tokens, shown=options.shown_token_ids
        )
        self._stops = StopChecker(options.stops, include_in_output=options.include_stop)
        self._parser = None if options.format is None else AnswerParser(options.format)
        self._pending = Delta(index)
        self.num_tokens = 0
        """Reported to the caller."""
        self.num_reasoning_tokens = 0
        """Of these, those within the reasoning, the closing tag among them."""
        self.num_overrun = 0
        self.cached_tokens: int | None = None
        self.queue_ms: float | None = None
        self.closed = False
        """Nobody reads any more: further tokens are overrun."""
        self.is_cut = False
        """Its text is as long as it may be."""
        self.finished = False

    def cut(self) -> None:
        """No more text: further tokens are overrun, and the end is that of a length."""
        self.closed = self.is_cut = True

    @property
    def stopped(self) -> bool:
        """A stop string or the last allowed call ended the answer; the core may not know yet."""
        return self._stops.matched is not None or (self._parser is not None and self._parser.satisfied)

    def take(self, output: TokenOutput) -> Delta | None:
        """The news for the caller, if there is any: text, or the end."""
        assert not self.finished, "nothing follows a terminal output"
        if output.num_cached_tokens is not None:
            self.cached_tokens = output.num_cached_tokens
        if output.queue_ms is not None:
            self.queue_ms = output.queue_ms
        self._pending.prompt_logprobs += output.prompt_logprobs or ()
        self._pending.embedding = output.embedding
        last = len(output.token_ids) - 1
        for position, token_id in enumerate(output.token_ids):
            if self.closed or self.stopped or self._options.scores_only:
                self.num_overrun += 1
                continue
            ends = position == last and output.stop_token_id is not None
            self._add(token_id, ends, output.logprobs[position] if output.logprobs else None)
        if output.finish_reason is not None:
            self._finish(output)
        elif not self._pending.is_news:
            return None
        delta, self._pending = self._pending, Delta(self.index)
        return delta

    def _add(self, token_id: int, ends: bool, logprobs: TokenLogprobs | None) -> None:
        self.num_tokens += 1
        self._pending.token_ids.append(token_id)
        if ends and not self._options.include_stop:
            return  # an end token is reported and counted, but not shown
        if logprobs is not None:
            self._pending.logprobs.append((token_id, logprobs))
        before = self._parser is not None and self._parser.is_reasoning
        text = self._detokenizer.push(token_id)
        if text:
            checked = self.num_tokens > self._options.min_tokens
            self._show(self._stops.push(text) if checked else text)
        if before or (self._parser is not None and self._parser.is_reasoning):
            self.num_reasoning_tokens += 1

    def _show(self, text: str) -> None:
        if self._parser is None:
            self._pending.text += text
        elif text:
            self._collect(self._parser.push(text))

    def _collect(self, events: list[AnswerEvent]) -> None:
        delta, format_ = self._pending, self._options.format
        for event in events:
            match event:
                case Content(text):
                    delta.text += text
                case Reasoning(text):
                    delta.reasoning += text
                case CallStarted(index, name):
                    assert format_ is not None
                    assert format_.calls is not None
                    answer = f"{self._options.answer_id}:{self.index}"
                    delta.calls.append(CallDelta(index, "", format_.calls.call_id(answer, index), name))
                case Arguments(index, text) if delta.calls and delta.calls[-1].index == index:
                    delta.calls[-1].arguments += text
                case Arguments(index, text):
                    delta.calls.append(CallDelta(index, text))

    def _finish(self, output: TokenOutput) -> None:
        self.finished = True
        self.num_overrun += output.num_overrun_tokens
        if not self.stopped:
            self._show(self._stops.push(self._detokenizer.finish()))
        if not self.stopped:
            self._show(self._stops.finish())
        if self._parser is not None:
            self._collect(self._parser.finish())
        delta = self._pending
        if self.stopped:
            delta.finish_reason, delta.stop_reason = "stop", self._stops.matched
        elif self.is_cut:
            delta.finish_reason = "length"
        else:
            delta.finish_reason = output.finish_reason
            if self._options.scores_only and output.finish_reason == "stop":
                delta.finish_reason = "length"
            elif output.stop_token_id in self._options.stop_token_ids:
                delta.stop_reason = output.stop_token_id
        if delta.finish_reason == "stop" and self._parser is not None and self._parser.called:
            assert self._options.format is not None
            delta.finish_reason = self._options.format.finish_reason
