"""The seam to Faust: whole fetched batches of the inputs go to a handler, past Faust's one-coroutine-per-event path.

Owns every use of Faust's private names (faust-streaming 0.15.3, pinned exactly) and all that a Faust worker means
here: group membership, assignment, rebalancing, timers, web, signals. Never decodes, never decides, never keeps an
offset: positions come from the handler, which has them from its cuts.

What differs from a stock worker, and where:
    fetching    `_drain_messages` asks the handler which partitions may be fetched and hands over record lists; aiokafka
                makes no object of its own for each record (`fetched`)
    positions   `perform_seek` does nothing; the handler's `starts` name the offsets, once a partition has recovered;
                an offset that is not in the topic is `lost`, and never replaced by the earliest or latest
    commits     `_commit_tps` commits what the handler has finished, for observers only; a failure is counted and
                superseded by the next commit, and never stops the worker (faust-streaming #611, #318)
    consumer    `_create_worker_consumer` gives it our security settings, committed reads and an even assignment; it
                does not make a topic by asking for it
    producer    not started: what is emitted goes through the partitions' own transactional producers
    shutdown    `on_stop` drains the handler while the group still counts us in; a second signal quits at once

Clock marks are read by each partition itself. With two inputs, partition p of both must go to one worker: the range
assignor divides each topic alike, round-robin does not when the workers do not divide the partitions.
"""

# Faust's methods are overridden with the signatures they have: loosely typed, and reaching for private names.
# ruff: noqa: ANN401, SLF001

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import aiokafka
import faust
from aiokafka import client, conn
from aiokafka.consumer import fetcher
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.app.base import BootStrategy
from faust.transport.drivers import aiokafka as driver
from faust.types import AppT
from faust.worker import Worker
from mode import Service

from sessionizer.fetched import Fetched, MessagesOnly
from sessionizer.handler import BulkHandler, Lane
from sessionizer.worker_config import WorkerConfig
from streams.events.record import Message
from streams.inputs import Input
from streams.kafka.client import KafkaConfig

INTERRUPTED = 130
_POLL_S = 0.2
_PAUSED_S = 0.02
_WATCH_S = 1.0
MAX_POLL_MS = 300_000
_READ_AHEAD_BYTES = 4 << 20
"""Of a broker's answer, read before the socket is paused; aiokafka would pause sixty times in a fetch."""
_HEARTBEATS = 3
"""Heartbeats per session timeout."""


def _bulk(app: AppT) -> BulkApp:
    """Faust passes its own base type around; the app is always ours."""
    assert isinstance(app, BulkApp)
    return app


class BulkConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's consumer thread around a consumer with our settings."""

    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:  # noqa: ARG002  (Faust's signature)
        app = _bulk(self.app)
        config = app.worker_config
        self._assignor = RoundRobinPartitionAssignor if len(app.bulk_topics) == 1 else RangePartitionAssignor
        fetcher.PartitionRecords = MessagesOnly
        conn.READER_LIMIT = _READ_AHEAD_BYTES
        client.MetadataRequest = partial(MetadataRequest, allow_auto_topic_creation=False)
        return aiokafka.AIOKafkaConsumer(
            **app.kafka.aiokafka(),
            client_id=f"{config.app}-{config.instance or os.getpid()}",
            group_id=config.app,
            group_instance_id=config.instance,
            partition_assignment_strategy=[self._assignor],
            enable_auto_commit=False,
            # The handler names every position. One that is gone is told to it, never replaced by another.
            auto_offset_reset="none",
            # How long it takes at most until new partitions are noticed.
            metadata_max_age_ms=3 * config.session_timeout_ms,
            isolation_level="read_uncommitted" if app.kafka.plain else "read_committed",
            max_poll_records=config.max_poll_records,
            max_partition_fetch_bytes=config.max_fetch_bytes,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.session_timeout_ms // _HEARTBEATS,
            rebalance_timeout_ms=max(config.session_timeout_ms, 2 * config.drain_ms),
            max_poll_interval_ms=max(MAX_POLL_MS, 4 * config.drain_ms),
        )


class BulkConsumer(driver.Consumer):
    """Hands `{partition: records}` to the app's handler."""

    def _new_consumer_thread(self) -> BulkConsumerThread:
        return BulkConsumerThread(self, loop=self.loop, beacon=self.beacon)

    @Service.task
    async def _watch_group(self) -> None:
        # A refused member is never assigned anything, so nothing else would ever look at its coordinator.
        while not self.should_stop:
            await self.sleep(_WATCH_S)
            consumer = self._thread._consumer
            if consumer is not None and consumer._fetcher is not None and consumer._fetcher.error_future.done():
                # What broke there is in the log already. Without this it would look like a topic without records.
                consumer._fetcher.error_future.result()
            try:
                if consumer is not None and consumer._coordinator is not None:
                    consumer._coordinator.check_errors()
            except KafkaError as error:
                _bulk(self.app).handler.group_failed(error)
                _bulk(self.app).request_stop()
                return

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        # Eager rebalancing: whatever is revoked, all of it is. Flow stops first, so nothing is handed over meanwhile.
        self.stop_flow()
        await _bulk(self.app).handler.revoked()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[Any], generation_id: int = 0) -> None:
        await super().on_partitions_assigned(assigned, generation_id)
        app = _bulk(self.app)
        of_each = [{tp.partition for tp in assigned if tp.topic == topic} for topic in app.bulk_topics]
        if torn := set.union(*of_each) - set.intersection(*of_each):
            app.handler.torn(torn)
            app.request_stop()
        app.handler.assigned(set.intersection(*of_each))

    async def perform_seek(self) -> None:
        """Faust would go to the group's commits, perhaps after the handler has named a position."""

    def verify_event_path(self, now: float, tp: Any) -> None:
        """Faust looks at its streams, which see none of our records; lag and liveness are the handler's."""

    async def _drain_messages(self, fetcher: Any) -> None:
        handler: BulkHandler = _bulk(self.app).handler
        stopped: tuple[type[BaseException], ...] = (*self.consumer_stopped_errors, asyncio.CancelledError)
        try:
            while not (self._stopped.is_set() or fetcher._stopped.is_set()):
                if not self.flow_active:
                    await self.wait(self.can_resume_flow.wait())
                    continue
                self._seek_to(handler.starts())
                active = self._tps(handler.wants())
                if handler.done():
                    _bulk(self.app).request_stop()
                if active:
                    self._hand_over(await self._fetch(active), active)
                    await asyncio.sleep(0)
                else:
                    # To the client this is a fetch that finds nothing: else it would leave the group after a while.
                    with self._thread._ensure_consumer()._subscription.fetch_context():
                        await asyncio.sleep(_PAUSED_S)
        except stopped:
            if not self.app.should_stop:
                raise

    async def _fetch(self, active: set[Any]) -> Mapping[Any, Sequence[Message]]:
        try:
            return await self._getmany(active, _POLL_S)
        except OffsetOutOfRangeError as error:
            _bulk(self.app).handler.lost({tp.partition for tp in error.args[0]})
            return {}

    def _hand_over(self, records: Mapping[Any, Sequence[Message]], active: set[Any]) -> None:
        handler: BulkHandler = _bulk(self.app).handler
        if not self.flow_active:
            return
        # A partition that asked for another position meanwhile gets nothing from the old one.
        moved = handler.starts()
        self._seek_to(moved)
        for tp in active:
            found, position = records.get(tp, ()), self._position(tp)
            # One that has become full meanwhile takes it all the same: the client never fetches it again.
            if self._lane(tp) not in moved and (found or position is not None):
                handler.take(self._lane(tp), Fetched(tp.topic, tp.partition, found), position or 0)
        handler.caught_up({self._lane(tp): lag for tp in active if (lag := self._lag(tp)) is not None})

    def _seek_to(self, positions: Mapping[Lane, int]) -> None:
        assigned = self.assignment()
        for lane, offset in positions.items():
            tp = self._tp(lane)
            if tp in assigned:
                self._thread.seek(tp, offset)

    def _tp(self, lane: Lane) -> Any:
        source, partition = lane
        return TopicPartition(_bulk(self.app).bulk_topics[source], partition)

    def _lane(self, tp: Any) -> Lane:
        return Input(_bulk(self.app).bulk_topics.index(tp.topic)), tp.partition

    def _tps(self, lanes: set[Lane]) -> set[Any]:
        return {self._tp(lane) for lane in lanes} & self.assignment()

    def _state(self, tp: Any) -> Any:
        """What the client knows of one of our partitions, None without a position."""
        subscription = self._thread._ensure_consumer()._subscription.subscription
        assignment = subscription.assignment if subscription else None
        if assignment is None or tp not in assignment.tps:
            return None
        state = assignment.state_value(tp)
        return state if state.has_valid_position else None

    def _position(self, tp: Any) -> int | None:
        """Where the client fetches next: it moves by seeks and by what is handed over, also past what nobody reads."""
        state = self._state(tp)
        return None if state is None else int(state.position)

    def _lag(self, tp: Any) -> int | None:
        """Records after the position; None before the first fetch has told where the partition ends."""
        state = self._state(tp)
        if state is None:
            return None
        end = state.highwater if _bulk(self.app).kafka.plain else state.lso
        return None if end is None else max(0, end - state.position)

    async def _commit_tps(self, tps: Any, start_new_transaction: bool) -> bool:  # noqa: ARG002, FBT001  (Faust's signature)
        assigned = self.assignment()
        offsets = {self._tp(lane): offset for lane, offset in _bulk(self.app).handler.finished().items()}
        new = {tp: o for tp, o in offsets.items() if tp in assigned and (self._committed_offset[tp] or 0) < o}
        if not new or self.app.rebalancing:
            return False
        try:
            wrapped = {tp: OffsetAndMetadata(offset, "") for tp, offset in new.items()}
            await self._thread.call_thread(self._thread._ensure_consumer().commit, wrapped)
        except KafkaError as error:
            _bulk(self.app).handler.commit_failed(error)
            return False
        self._committed_offset.update(new)
        return True


class BulkTransport(driver.Transport):
    """Makes our consumer."""

    Consumer: ClassVar[Any] = BulkConsumer


class BulkBoot(BootStrategy):
    """Starts everything but Faust's own producer."""

    enable_kafka_producer = False


class BulkApp(faust.App):
    """A Faust app that reads its input topics in bulk."""

    BootStrategy = BulkBoot

    handler: BulkHandler
    kafka: KafkaConfig
    worker_config: WorkerConfig
    bulk_topics: tuple[str, ...]
    worker: BulkWorker | None = None

    def _new_transport(self) -> BulkTransport:
        return BulkTransport(self.conf.broker_consumer, self, loop=self.loop)

    async def on_stop(self) -> None:
        # The group still counts us in: nobody else starts on these partitions before they are finished.
        self.consumer.stop_flow()
        await self.handler.revoked()
        await super().on_stop()

    def request_stop(self) -> None:
        """Stop the worker as a signal would."""
        if self.worker is not None:
            self.worker.stop_soon()


class BulkWorker(Worker):
    """Leaves logging and stdout alone; a second signal quits."""

    interrupted = False

    def stop_soon(self) -> None:
        """Drain and stop; once."""
        if not self._signal_stop_time:
            self._signal_stop_time = self.loop.time()
            self._signal_stop_future = asyncio.ensure_future(self.stop())

    def _on_sigterm(self) -> None:
        self._quit_or_stop()

    def _on_sigint(self) -> None:
        self.interrupted = True
        self._quit_or_stop()

    def _quit_or_stop(self) -> None:
        if self._signal_stop_time:
            # Nothing is lost: what is not committed is made again.
            os._exit(INTERRUPTED)
        self.stop_soon()


def build_app(
    handler: BulkHandler,
    kafka: KafkaConfig,
    topics: tuple[str, ...],
    config: WorkerConfig,
    *,
    directory: Path,
    web_port: int = 0,
) -> BulkApp:
    """The app that gives `handler` the records of `topics`, in the order of `Input`. `web_port` 0: no web server.

    Makes the event loop of this thread: Faust's services bind themselves to the one they find when they are made.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    app = BulkApp(
        config.app,
        loop=loop,
        broker="kafka://" + kafka.bootstrap,
        datadir=directory,
        web_enabled=web_port > 0,
        web_port=web_port or None,
        web_bind="127.0.0.1",
        # No topics of Faust's own: no leader, no tables, nothing declared.
        topic_disable_leader=True,
        topic_allow_declare=False,
        table_standby_replicas=0,
        stream_wait_empty=False,
        stream_recovery_delay=0.0,
        broker_commit_interval=max(0.5, config.commit_every_ms / 1000),
        broker_session_timeout=config.session_timeout_ms / 1000,
        broker_heartbeat_interval=config.session_timeout_ms / 1000 / _HEARTBEATS,
        autodiscover=False,
    )
    app.handler, app.kafka, app.worker_config, app.bulk_topics = handler, kafka, config, topics
    source = app.topic(*topics, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")

    async def subscription(stream: Any) -> None:
        # Keeps the topics subscribed. Their records go to the handler, so this stream stays empty.
        async for _ in stream:
            raise AssertionError("a record took the way past the handler")

    app.agent(source, name="bulk")(subscription)
    app.finalize()
    return app


def run_worker(app: BulkApp) -> bool:
    """Run until a signal or the handler's `done`; True if somebody interrupted it. Raises what made it crash."""
    worker = BulkWorker(
        app,
        loop=app.loop,
        quiet=True,
        stdout=sys.stderr,
        stderr=sys.stderr,
        redirect_stdouts=False,
        override_logging=False,
    )
    worker.spinner = None
    app.worker = worker
    try:
        worker.execute_from_commandline()
    except SystemExit as exit_:
        # Mode raises what made it crash from itself: the chain of causes may be a circle.
        causes: list[BaseException] = [exit_]
        while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
            causes.append(cause)
        for cause in causes:
            if isinstance(cause, OSError):
                raise cause from None
        if exit_.code:
            raise RuntimeError("the Faust worker failed; its log has the reason") from (exit_.__cause__ or exit_)
    return worker.interrupted
