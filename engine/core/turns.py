"""In which order the prompts of several ids share a step: in turns of so many tokens, so that a long prompt of one
id does not stand before the short ones of the others.

An id that begins to read a prompt starts where the one is that has read least, as in `fairness`, and with every
turn of tokens that it got it goes behind those that had fewer. Prompts shorter than a turn are thus read whole, in
the order of arrival, and within an id the order never changes. Policy only, used by `scheduler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.core.fairness import MIN_WEIGHT, Account
from engine.core.request import Request

TURN_TOKENS = 2048
"""Of a turn, at the beginning of a prompt."""


class Turns:
    def __init__(self, first_rank: int = 0) -> None:
        self.first_rank = first_rank
        """The class that goes first."""
        self._round = 0

    def order(self, prompts: Iterable[Request], heads: Sequence[Request]) -> list[Request]:
        """Unfinished prompts of running requests, in the order in which they get what the answers leave.
        `heads`: the next request in line of every id; these take part, so that they know where to begin."""
        accounts = {id(request.account): request.account for request in (*prompts, *heads)}
        if len(accounts) > 1:
            self._lift([account for account in accounts.values() if account is not None])
        return sorted(prompts, key=lambda request: (self._turn(request), request.arrival))

    def room_for(self, heads: Sequence[Request], prompt: Request, most: int) -> int:
        """Tokens, at most `most`, to keep for those requests in line whose turn is before the prompt's."""
        turn, room = self._turn(prompt), 0
        for head in heads:
            if head.account is not prompt.account and self._turn(head) < turn:
                room += head.num_tokens
        return min(room, most)

    def _lift(self, accounts: list[Account]) -> None:
        """Who was not there the last time begins beside the one that has read least of those who were."""
        there = [account.num_read for account in accounts if account.read_at == self._round]
        least = min(there, default=None)
        for account in accounts:
            if least is None:
                account.num_read = 0.0
            elif account.read_at != self._round:
                account.num_read = max(account.num_read, least)
            account.read_at = self._round + 1
        self._round += 1

    def _turn(self, request: Request) -> tuple[bool, int, int]:
        account = request.account
        assert account is not None, "only who was in line has a turn"
        rank = request.class_rank
        return rank != self.first_rank, rank, int(account.num_read // TURN_TOKENS)


def note_read(request: Request, start: int, end: int, key_cost: float) -> None:
    """These positions of its prompt are computed; taken back if `end` is before `start`. `key_cost`: comparing with
    one more key, in tokens: far into a long prompt a token costs several times what it does at the beginning."""
    assert request.account is not None
    cost = (end - start) * (1.0 + key_cost * (start + end) / 2)
    request.account.num_read += cost / max(request.fairness_weight, MIN_WEIGHT)
