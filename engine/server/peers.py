"""API processes of one engine asking each other: which requests are in flight, and end this one.

A caller of /internal reaches any of the processes, the request it means may live in another. A sibling that does
not answer in time (it may be restarting) counts as one that has nothing. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from engine.server.pipes import Context, Receiver, Sender, peer_address

ANSWER_TIMEOUT_S = 0.5


class Question(msgspec.Struct, frozen=True, tag="question"):
    number: int
    asker: int
    kind: Literal["gateway_ids", "abort"]
    request_id: str = ""


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    number: int
    gateway_ids: list[str] = []
    aborted: bool = False


class Peers:
    """One process's end. With a single worker it has nobody to ask."""

    def __init__(
        self,
        worker: int,
        num_workers: int,
        *,
        gateway_ids: Callable[[], list[str]],
        abort: Callable[[str], bool],
    ) -> None:
        self._worker = worker
        self._others = [other for other in range(num_workers) if other != worker]
        self._gateway_ids = gateway_ids
        self._abort = abort
        self._senders: dict[int, Sender[Question | Answer]] = {}
        self._receiver: Receiver[Question | Answer] | None = None
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Queue[Answer]] = {}

    def open(self, context: Context, run_dir: Path) -> None:
        if not self._others:
            return
        address = peer_address(run_dir, self._worker)
        self._receiver = Receiver(context, address, Question | Answer, self._take)
        self._senders = {other: Sender(context, peer_address(run_dir, other)) for other in self._others}

    def close(self) -> None:
        if self._receiver is not None:
            self._receiver.close()
        for sender in self._senders.values():
            sender.close()

    async def gateway_ids(self) -> set[str]:
        """The gateway's ids of the requests in flight in the other processes."""
        answers = await self._ask("gateway_ids")
        return {index for answer in answers for index in answer.gateway_ids}

    async def abort(self, request_id: str) -> bool:
        """End this request wherever else it lives."""
        return any(answer.aborted for answer in await self._ask("abort", request_id))

    async def _ask(self, kind: Literal["gateway_ids", "abort"], request_id: str = "") -> list[Answer]:
        if not self._senders:
            return []
        number = next(self._numbers)
        answers: list[Answer] = []
        queue = self._waiting[number] = asyncio.Queue()
        try:
            for sender in self._senders.values():
                sender.send(Question(number, self._worker, kind, request_id))
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                while len(answers) < len(self._senders):
                    answers.append(await queue.get())
        except TimeoutError:
            pass
        finally:
            del self._waiting[number]
        return answers

    def _take(self, message: Question | Answer) -> None:
        if isinstance(message, Answer):
            queue = self._waiting.get(message.number)
            if queue is not None:
                queue.put_nowait(message)
        elif message.kind == "abort":
            answer = Answer(message.number, aborted=self._abort(message.request_id))
            self._senders[message.asker].send(answer)
        else:
            self._senders[message.asker].send(Answer(message.number, self._gateway_ids()))
