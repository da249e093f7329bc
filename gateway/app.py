"""create_app(settings): the only composition root of the data plane.

Makes every part once, connects them, starts them with the server and ends them in the opposite order. It
holds no rule of its own; what a request does is pipeline.py's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from gateway.alerts.mail import MailChannel
from gateway.alerts.webhooks.guard import Guard
from gateway.alerts.webhooks.sender import Sender
from gateway.alerts.webhooks.service import EndpointService, WebhookParts
from gateway.alerts.webhooks.vault import Vault
from gateway.audit.repository import AuditRepository
from gateway.batches.files import FileStore
from gateway.batches.parts import Parts as BatchParts
from gateway.batches.parts import Terms
from gateway.batches.runner import BatchRunner
from gateway.batches.service import BatchService
from gateway.blobs import open_blobs
from gateway.cache import create_cache
from gateway.clock import Clock, SystemClock
from gateway.db import Database
from gateway.exchange import Attempts, Closer, Pseudonyms, UpstreamCalls
from gateway.exports.destination import configured_store
from gateway.http.admin.app import AdminParts, create_admin
from gateway.http.auth import Authenticator
from gateway.http.batch_routes import BatchRoutes
from gateway.http.call import Receive, Scope, Send
from gateway.http.file_routes import FileRoutes
from gateway.http.middleware import Edge
from gateway.http.openai_routes import OpenAIRoutes
from gateway.http.ops_routes import OpsRoutes
from gateway.http.playground_routes import PlaygroundRoutes
from gateway.http.router import Router
from gateway.http.webhook_routes import WebhookRoutes
from gateway.idempotency import Idempotency
from gateway.ids import Entropy, GatewayId, IdSource
from gateway.keyring import SecretBox
from gateway.ledger import Ledger
from gateway.ledger.notebook import Notebook
from gateway.ledger.spool import Spool
from gateway.limits import Limiter, TokenEstimator
from gateway.migrate import SchemaGuard
from gateway.obs.logging import get_logger
from gateway.obs.metrics import Children, Metrics
from gateway.obs.tracing import open_traces
from gateway.pipeline import Parts, Pipeline
from gateway.pool.access import EngineAccess, PoolAccess
from gateway.routing import Catalogue, Replicas
from gateway.routing.target import ReplicaRow
from gateway.sessions import SessionDirectory, SessionService
from gateway.sessions.invitations import Invitations
from gateway.sessions.oidc import OidcService
from gateway.sessions.resets import PasswordResets
from gateway.settings import Settings
from gateway.slo.promises import Promises
from gateway.tenancy import KeyDirectory, Peppers, RevisionFeed, TenancyService, default_limits
from gateway.tenancy.keys import master_ring
from gateway.tenancy.people.service import PeopleService
from gateway.tenancy.projects.service import ProjectService
from gateway.tenancy.repository import TenancyRepository
from gateway.upstream import GenericDialect, NativeDialect, Timeouts, UpstreamClient, poll_others, poll_status
from gateway.wire.load import EngineStatus

__all__ = ["GatewayApp", "create_app"]

POLL_TIMEOUT_S = 1.0
OWN_ENGINE = "tollway"
DRAW_BYTES = 8

_log = get_logger(__name__)


class GatewayApp:
    """The ASGI application: lifespan here, everything else through the edge."""

    def __init__(self, settings: Settings, clock: Clock, entropy: Entropy) -> None:
        self.settings = settings
        self.clock = clock
        self.entropy = entropy
        self.ids = IdSource(clock, entropy)
        self.metrics = Metrics()
        self.is_draining = False
        self.database = Database.of(
            settings.database, name="tollway-gateway", pool_size=settings.database.pool_size, checked=True
        )
        self.feed_database = Database.of(settings.database, name="tollway-feed", pool_size=1)
        self.schema = SchemaGuard(self.database)
        self.feed = RevisionFeed(self.feed_database, clock, self.metrics)
        self.peppers = Peppers.from_settings(settings.security)
        self.master = master_ring(settings.security)
        self.directory = KeyDirectory(
            self.database,
            self.feed,
            self.peppers,
            clock,
            self.metrics,
            load_timeout_s=settings.database.connect_timeout_s,
        )
        self.cache = create_cache(settings.cache)
        self.engine_key = settings.upstream.engine_key()
        self.access = PoolAccess(lambda: self.master, entropy)
        self.catalogue = Catalogue(self.database, clock, self.access)
        self.promises = Promises(self.database)
        self.replicas = Replicas(clock, self.metrics, _draw(entropy))
        self.client = UpstreamClient(settings.upstream)
        self.blobs = open_blobs(settings.server.files, settings.exports.s3_credentials_file)
        self.batch_terms = Terms()
        self.webhooks = self._webhook_parts()
        self.endpoints = EndpointService(self.webhooks)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Parts that need the running loop are made here; a database that is away delays readiness only, one with
        an older schema ends the start."""
        await self.schema.check()
        await self.client.start()
        await self.webhooks.sender.start()
        self.limiter = Limiter(
            self.cache, self.clock, self.metrics, self.entropy, self.settings.limits.lease_ttl_s
        )
        self.limiter.start()
        self.ledger = Ledger(
            self.settings.database,
            gateway_id=GatewayId(self.settings.server.gateway_id),
            settings=self.settings.ledger,
            clock=self.clock,
            ids=self.ids,
            metrics=self.metrics,
        )
        self.notebook = Notebook(
            self.database,
            Spool(self.settings.ledger.spool_dir, f"{self.settings.server.gateway_id}.notes"),
            gateway_id=self.settings.server.gateway_id,
            clock=self.clock,
            ids=self.ids,
            metrics=self.metrics,
        )
        self.idempotency = Idempotency(
            self.database,
            SecretBox(self.master, "idempotency", self.entropy),
            self.ledger.instance_id,
            self.clock,
            self.metrics,
        )
        self.traces = open_traces(os.environ, self.settings.server.gateway_id)
        self.closer = Closer(self.client, self.ledger, self.replicas, self.clock)
        self.pipeline = Pipeline(self._parts())
        self.edge = self._edge()
        self.batches = BatchRunner(self._batch_parts(), self.ledger.instance_id)
        self.feed.subscribe(("routing", "tenancy"), self._load_catalogue)
        await self.feed.start()
        await self.ledger.start()
        await self.notebook.start()
        self.batches.start()
        self._tasks = [
            asyncio.create_task(self.replicas.poll_forever(self.ask_status)),
            asyncio.create_task(self.schema.wait()),
            asyncio.create_task(self.directory.last_used.write_forever()),
        ]

    async def stop(self) -> None:
        """Called when no request is in flight: settles what they left, then lets go of everything."""
        self.is_draining = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.batches.stop()
        await self.closer.drain()
        if self.traces is not None:
            await self.traces.close()
        await self.idempotency.drain()
        await self.directory.close()
        await self.limiter.stop()
        await self.ledger.drain()
        await self.notebook.close()
        await self.feed.stop()
        await self.webhooks.sender.close()
        await self.client.close()
        await self.cache.aclose()
        await self.feed_database.close()
        await self.database.close()

    def why_not_ready(self) -> str | None:
        if self.is_draining:
            return "draining"
        if self.schema.problem is not None:
            return self.schema.problem
        if not self.catalogue.is_loaded:
            return "routes are not loaded yet"
        if not self.ledger.is_running:
            return "the ledger has stopped"
        return None if self.ledger.is_ready else "the spool of an earlier run is not applied yet"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self.edge(scope, receive, send)

    def _edge(self) -> Edge:
        settings = self.settings
        auth = self._authenticator()
        openai = OpenAIRoutes(
            auth,
            self.pipeline,
            self.catalogue,
            self.notebook,
            self.idempotency,
            settings.server.max_body_bytes,
        )
        ops = OpsRoutes(auth, self.metrics, self.why_not_ready)
        files = FileRoutes(auth, FileStore(self.database, self.blobs, self.clock, self.ids))
        batches = BatchRoutes(auth, BatchService(self.database, self.clock, self.ids))
        webhooks = WebhookRoutes(auth, self.webhooks, self.endpoints)
        self.admin = self.admin_parts(auth)
        playground = PlaygroundRoutes(self.admin, self.directory, openai)
        router = Router(openai, files, batches, webhooks, ops, create_admin(self.admin), playground)
        return Edge(router, self.ids, self.clock, self.metrics)

    def _parts(self) -> Parts:
        pseudonyms = Pseudonyms(self.master.keys.derived_root())
        return Parts(
            catalogue=self.catalogue,
            promises=self.promises,
            replicas=self.replicas,
            limiter=self.limiter,
            estimator=TokenEstimator(),
            ledger=self.ledger,
            notebook=self.notebook,
            attempts=self._attempts(pseudonyms),
            closer=self.closer,
            pseudonyms=pseudonyms,
            clock=self.clock,
            entropy=self.entropy,
            metrics=self.metrics,
            traces=self.traces,
        )

    def _attempts(self, pseudonyms: Pseudonyms) -> Attempts:
        return Attempts(
            replicas=self.replicas,
            calls=UpstreamCalls(self.client, self.replicas, pseudonyms, self.clock),
            closer=self.closer,
            dialects={
                OWN_ENGINE: NativeDialect(),
                "vllm": GenericDialect(takes_salt=True),
                "openai": GenericDialect(),
            },
            engine_key=self.engine_key,
            timeouts=Timeouts.of(self.settings.upstream),
            clock=self.clock,
            metrics=self.metrics,
            outcomes=Children(self.metrics.upstream_attempts),
        )

    def _batch_parts(self) -> BatchParts:
        return BatchParts(
            database=self.database,
            blobs=self.blobs,
            requests=self.pipeline,
            holds=self.ledger,
            standing=self.directory,
            clock=self.clock,
            metrics=self.metrics,
            terms=self.batch_terms,
        )

    def _webhook_parts(self) -> WebhookParts:
        guard = Guard(self.settings.security.webhook_allowed_cidrs)
        return WebhookParts(
            database=self.database,
            sender=Sender(guard, self.clock),
            vault=Vault(self.master, self.entropy),
            guard=guard,
            audit=AuditRepository(self.clock, self.ids),
            clock=self.clock,
            ids=self.ids,
            entropy=self.entropy,
        )

    def _authenticator(self) -> Authenticator:
        return Authenticator(self.directory, self.settings.server.trusted_proxy_cidrs)

    def admin_parts(self, auth: Authenticator | None = None) -> AdminParts:
        audit = AuditRepository(self.clock, self.ids)
        limits = default_limits(self.settings.limits)
        tenancy = TenancyService(
            TenancyRepository(),
            audit,
            self.peppers,
            self.clock,
            self.ids,
            self.entropy,
            limits,
            self.settings.limits.visible_models,
        )
        people = PeopleService(audit, self.peppers, self.clock, self.ids, self.entropy)
        sessions = SessionService(
            self.database, audit, self.master, self.clock, self.ids, self.entropy, self.metrics
        )
        return AdminParts(
            auth=auth or self._authenticator(),
            database=self.database,
            tenancy=tenancy,
            projects=ProjectService(audit, self.clock),
            people=people,
            sessions=sessions,
            invitations=Invitations(self.database, people, sessions, audit, self.clock, self.entropy),
            resets=PasswordResets(self.database, people.repository, sessions, audit, self.master, self.clock),
            oidc=OidcService(self.database, people, sessions, audit, self.master, self.clock, self.entropy),
            directory=SessionDirectory(self.database, self.feed, sessions.access, self.clock),
            mail=MailChannel(self.settings.mail) if self.settings.mail.host is not None else None,
            audit=audit,
            ids=self.ids,
            clock=self.clock,
            body_bytes_max=self.settings.server.max_body_bytes,
            pool_access=self.access,
            exports=configured_store(self.settings.exports),
            load_of=self.replicas.load_of,
            endpoints=self.endpoints,
        )

    async def _load_catalogue(self) -> None:
        await self.catalogue.load()
        await self.promises.load()
        self.replicas.update(self.catalogue.replicas)
        for name in self.catalogue.label_values():
            self.metrics.labels.register("model", name)
        for tenant in self.catalogue.tenants:
            self.metrics.labels.register("tenant", tenant)

    async def ask_status(self, row: ReplicaRow) -> EngineStatus | None:
        if row.engine_kind != OWN_ENGINE:
            access = row.access or EngineAccess()
            # An engine that somebody else runs must never see the key of ours.
            key = self.engine_key if row.engine_kind != "external" else access.api_key
            return await poll_others(self.client, row.url, key, POLL_TIMEOUT_S, access.tls)
        return await poll_status(self.client, row.url, self.engine_key, POLL_TIMEOUT_S)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.start()
        except Exception as error:  # the server must be told, or it would wait for ever
            _log.exception("the gateway could not start")
            await send({"type": "lifespan.startup.failed", "message": repr(error)})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})


def create_app(settings: Settings, clock: Clock | None = None, entropy: Entropy = os.urandom) -> GatewayApp:
    """For a server with lifespan support, or `start()` and `stop()` by hand."""
    return GatewayApp(settings, clock or SystemClock(), entropy)


def _draw(entropy: Entropy) -> Callable[[int], int]:
    return lambda bound: int.from_bytes(entropy(DRAW_BYTES), "big") % bound
