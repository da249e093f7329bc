"""FakeEngine: a real HTTP server that speaks the gateway ↔ engine contract and does what a script says.

The only fake of the gateway's tests: the far side of the network. A token is a word; without a script a
request is answered with the words of its last message. Everything it produced stays in `requests` and in the
journal, so a test can compare what was billed with what was made. It knows nothing of tenants or money.

    async with FakeEngine() as engine:
        engine.script(Script(die_after=3), Script())      # the next two requests, in this order
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from tests.fakes import replies, resume
from tests.fakes.answers import as_json, cut, refuse
from tests.fakes.journal import record_of
from tests.fakes.replies import Usage
from tests.fakes.resume import Resumed
from tests.fakes.script import DRAINING, MISMATCH, TOO_LONG, Plan, Refusal, Script, Seen
from tests.ports import keep_port

__all__ = ["FakeEngine", "Refusal", "Script", "Seen"]

FOREVER_S = 3600.0


class FakeEngine:
    def __init__(self, model: str = "fake-model", api_key: str | None = "engine-key", port: int = 0) -> None:
        self.model = model
        self.api_key = api_key
        self.port = port
        self.default = Script()
        self.state = "ready"
        self.model_hash = "hash-1"
        self.max_model_len = 8192
        self.reported_waiting = 0
        self.reported_kv_usage = 0.0
        self.requests: list[Seen] = []
        self.journal: list[dict[str, Any]] = []
        self.aborts = self.running = self.running_max = 0
        self.status_reads = self.connections_made = 0
        self.epoch = "epoch-0"
        self._epochs = itertools.count(1)
        self._ids = itertools.count(1)
        self._scripts: deque[Script] = deque()
        self._peers: set[object] = set()
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._keeper: socket.socket | None = None

    # -- life ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._generate),
                web.post("/v1/completions", self._generate),
                web.post("/v1/embeddings", self._generate),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
                web.get("/ready", self._ready),
                web.get("/internal/status", self._status),
                web.post("/internal/abort", self._abort),
                web.post("/internal/resume", self._resume),
                web.post("/internal/drain", self._drain),
                web.get("/internal/usage", self._usage),
            ]
        )
        app.on_response_prepare.append(self._stamp)
        self.epoch, self.state = f"epoch-{next(self._epochs)}", "ready"
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.05)
        await self._runner.setup()
        self._keeper = self._keeper or keep_port(self.port)  # ours while it is stopped too
        self.port = self._keeper.getsockname()[1]
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def stop(self) -> None:
        """Ends at once, as a killed process does: no connection survives. `start()` again is a new epoch."""
        runner, self._runner = self._runner, None
        if runner is not None:
            for handler in list(runner.server.connections) if runner.server else []:
                if handler.transport is not None:
                    handler.transport.abort()
            await runner.cleanup()

    async def __aenter__(self) -> FakeEngine:
        await self.start()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.stop()
        if self._keeper is not None:
            self._keeper.close()

    # -- what tests say and ask ---------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(self, *scripts: Script) -> None:
        self._scripts.extend(scripts)

    def count(self, state: str) -> int:
        return sum(seen.state == state for seen in self.requests)

    async def wait_for(self, condition: Callable[[], bool], within_s: float = 60) -> None:
        async with asyncio.timeout(within_s):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    # -- OpenAI -------------------------------------------------------------------------------------------

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        if not self._authorised(request):
            return as_json(401, replies.error("Wrong key.", "invalid_request_error", "invalid_api_key"))
        try:
            body = await request.json()
        except ValueError:
            return as_json(400, replies.error("The body is not JSON.", "invalid_request_error"))
        return await self._take(request, request.path, body, None)

    async def _resume(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        resumed = Resumed.read(body)
        if resumed.start["model_hash"] != self.model_hash:
            return refuse(MISMATCH)
        return await self._take(request, resumed.start["path"], body["request"], resumed)

    async def _take(
        self, request: web.Request, path: str, body: dict[str, Any], resumed: Resumed | None
    ) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self._peers.add(request.transport.get_extra_info("peername") if request.transport else None)
        self.connections_made = len(self._peers)
        seen = Seen(len(self.requests), path, headers, body, resumed=resumed)
        self.requests.append(seen)
        script = self._scripts.popleft() if self._scripts else self.default
        refusal = self._refusal(body, script)
        if refusal is not None:
            seen.state = "refused"
            self._tick()
            return refuse(refusal)
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        try:
            return await self._answer(request, seen, script)
        except (asyncio.CancelledError, ConnectionError):
            if seen.state == "running":
                seen.state = "cancelled"
            raise
        finally:
            self._end(seen)

    def _refusal(self, body: dict[str, Any], script: Script) -> Refusal | None:
        if script.refuse is not None:
            return script.refuse
        if self.state != "ready":
            return DRAINING
        if body.get("model") != self.model:
            return Refusal(404, "invalid_request_error", "model_not_found", "No such model.")
        if not {"messages", "prompt", "input"} & body.keys():
            return Refusal(400, "invalid_request_error", "missing_required_parameter", "Nothing to answer.")
        if len(replies.words(body)) > self.max_model_len:
            return TOO_LONG
        return None

    async def _answer(self, request: web.Request, seen: Seen, script: Script) -> web.StreamResponse:
        prompt = len(replies.words(seen.body)) + seen.replayed
        seen.usage = Usage(prompt, 0, min(script.cached_tokens, prompt))
        self._record(seen, "start")
        self._tick()
        if script.cut_before_answer:
            seen.state = "died"
            cut(request)
            raise ConnectionResetError
        if seen.path.endswith("/embeddings"):
            return await self._embed(seen, script)
        if script.late_refusal is not None:
            await self._pause(seen, script.first_token_delay_s)
            await script.open()
            seen.state = "refused"
            return refuse(script.late_refusal)
        tokens = list(script.tokens) if script.tokens is not None else replies.last_words(seen.body)
        limit = seen.body.get("max_completion_tokens") or seen.body.get("max_tokens") or len(tokens)
        limit = min(limit, int(seen.headers.get("x-max-output-tokens", limit)))
        plan = Plan(tokens[:limit], "length" if limit < len(tokens) else "stop", self._head(seen))
        if seen.body.get("stream"):
            return await self._stream(request, seen, script, plan)
        return await self._whole(request, seen, script, plan)

    async def _stream(
        self, request: web.Request, seen: Seen, script: Script, plan: Plan
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await self._pause(seen, script.first_token_delay_s)
        await script.open()
        await response.prepare(request)
        if script.raw is not None:
            for at in range(0, len(script.raw), script.raw_piece):
                await response.write(script.raw[at : at + script.raw_piece])
                await asyncio.sleep(0)
            seen.state = "finished"
            return response
        finish, marks, lines = plan.finish, seen.emits_ids, b""
        if marks and seen.resumed is None:
            lines = resume.begin(seen.path, seen.usage.cached_tokens, self.model_hash, plan.head)
        for index, token in enumerate(plan.tokens):
            if index < seen.replayed:
                continue
            if await self._misfortune(request, seen, script, index, response):
                return response
            if seen.abort.is_set():
                finish = "abort"
                break
            text = token if index == 0 else " " + token
            chunk = replies.chunk(seen.chat, plan.head, text, index == 0)
            await response.write(lines + resume.ids(index) + chunk if marks else chunk)
            lines = b""
            made = index + 1 - seen.replayed
            seen.usage = Usage(seen.usage.prompt_tokens, made, seen.usage.cached_tokens)
            self._record(seen, "progress")
            self._tick()
            await self._pause(seen, script.token_delay_s)
        if await self._misfortune(request, seen, script, len(plan.tokens), response):
            return response
        seen.state = "aborted" if seen.abort.is_set() else "finished"
        end = replies.chunk(seen.chat, plan.head, "", False, finish)
        if seen.resumed is None or not seen.resumed.has_ended:
            await response.write(lines + resume.END + end if marks else end)
        if script.usage and (seen.body.get("stream_options") or {}).get("include_usage"):
            await response.write(replies.usage_chunk(seen.chat, plan.head, seen.whole_usage))
        await response.write(replies.DONE)
        return response

    async def _whole(
        self, request: web.Request, seen: Seen, script: Script, plan: Plan
    ) -> web.StreamResponse:
        await self._pause(seen, script.first_token_delay_s)
        await script.open()
        made = 0
        for index in range(len(plan.tokens)):
            if script.fail_after == index:
                seen.state = "died"
                return as_json(500, replies.error("It broke.", "server_error") | {"usage": seen.usage.json()})
            if await self._misfortune(request, seen, script, index, None) or seen.abort.is_set():
                break
            made = index + 1
            seen.usage = Usage(seen.usage.prompt_tokens, made, seen.usage.cached_tokens)
            self._record(seen, "progress")
            self._tick()
            await self._pause(seen, script.token_delay_s)
        aborted = seen.abort.is_set()
        seen.state = "aborted" if aborted else "finished"
        usage = seen.usage if script.usage else None
        text = " ".join(plan.tokens[:made])
        return as_json(
            200, replies.whole(seen.chat, plan.head, text, "abort" if aborted else plan.finish, usage)
        )

    async def _embed(self, seen: Seen, script: Script) -> web.StreamResponse:
        await self._pause(seen, script.first_token_delay_s)
        if script.fail_after is not None:
            seen.state = "died"
            return as_json(500, replies.error("It broke.", "server_error") | {"usage": seen.usage.json()})
        seen.state = "aborted" if seen.abort.is_set() else "finished"
        usage = seen.usage if script.usage else None
        return as_json(200, replies.embeddings(self.model, seen.body, usage))

    async def _misfortune(
        self,
        request: web.Request,
        seen: Seen,
        script: Script,
        index: int,
        response: web.StreamResponse | None,
    ) -> bool:
        """True when the script ends the stream here with an error event; a cut connection raises."""
        if script.hang_after == index:
            await self._pause(seen, FOREVER_S)
        if script.die_after == index:
            seen.state = "died"
            cut(request)
            raise ConnectionResetError
        if script.fail_after == index and response is not None:
            seen.state = "died"
            event = replies.error("The engine failed.", "server_error", script.fail_code)
            await response.write(replies.sse(event | {"usage": seen.usage.json()}))
            return True
        return False

    async def _pause(self, seen: Seen, delay_s: float) -> None:
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(seen.abort.wait(), delay_s)

    def _head(self, seen: Seen) -> dict[str, Any]:
        if seen.resumed is not None:
            return seen.resumed.head
        made = f"{'chatcmpl' if seen.chat else 'cmpl'}-{next(self._ids)}"
        return {"id": made, "created": 1_700_000_000, "model": self.model}

    async def _models(self, request: web.Request) -> web.Response:
        return as_json(200, {"object": "list", "data": [replies.model(self.model)]})

    # -- the engine's own ---------------------------------------------------------------------------------

    async def _health(self, request: web.Request) -> web.Response:
        return as_json(200, {})

    async def _ready(self, request: web.Request) -> web.Response:
        return as_json(200 if self.state == "ready" else 503, {})

    async def _status(self, request: web.Request) -> web.Response:
        if not self._authorised(request):
            return as_json(401, replies.error("Wrong key.", "invalid_request_error", "invalid_api_key"))
        self.status_reads += 1
        running = [seen for seen in self.requests if seen.state == "running"]
        return as_json(
            200,
            {
                "epoch": self.epoch,
                "state": self.state,
                "model": self.model,
                "served_model_names": [self.model],
                "max_model_len": self.max_model_len,
                "pid": 1,
                "core_pid": 2,
                "running": len(running),
                "waiting": self.reported_waiting,
                "kv_usage": self.reported_kv_usage,
                "request_ids": [seen.request_id for seen in running if seen.request_id],
            },
        )

    async def _abort(self, request: web.Request) -> web.Response:
        wanted = (await request.json())["request_id"]
        found = [s for s in self.requests if s.request_id == wanted and s.state == "running"]
        for seen in found:
            seen.abort.set()
        self.aborts += len(found)
        return as_json(200, {"aborted": bool(found)})

    async def _drain(self, request: web.Request) -> web.Response:
        self.state = "draining"
        return as_json(202, {})

    async def _usage(self, request: web.Request) -> web.Response:
        after, limit = int(request.query.get("after") or 0), int(request.query.get("limit") or 100)
        wanted = request.query.get("request_id")
        records = [
            record
            for record in self.journal[after : after + limit]
            if wanted is None or record["request_id"] == wanted
        ]
        cursor = min(len(self.journal), after + limit)
        return as_json(
            200, {"records": records, "cursor": str(cursor), "complete": cursor >= len(self.journal)}
        )

    def _end(self, seen: Seen) -> None:
        self.running -= 1
        if seen.state == "running":
            seen.state = "died"
        self._record(seen, "end")
        self._tick()

    def _record(self, seen: Seen, kind: str) -> None:
        self.journal.append(record_of(seen, kind, self.epoch))

    def _tick(self) -> None:
        self._changed.set()

    def _authorised(self, request: web.Request) -> bool:
        return self.api_key is None or request.headers.get("authorization") == f"Bearer {self.api_key}"

    async def _stamp(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers["x-engine-epoch"] = self.epoch
        response.headers["x-engine-running"] = str(self.running)
        response.headers["x-engine-waiting"] = str(self.reported_waiting)
        response.headers["x-engine-kv-usage"] = str(self.reported_kv_usage)
        response.headers["x-engine-predicted-delay-ms"] = "0"
        response.headers["x-engine-predicted-ttft-ms"] = "50"
        response.headers["x-engine-queue-ms"] = "7"
        response.headers["x-tollway-ignored"] = ""
        response.headers["x-request-id"] = request.headers.get("x-request-id", f"req-{next(self._ids)}")
