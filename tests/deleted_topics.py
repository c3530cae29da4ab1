"""Topics that are gone for everybody: the controller has deleted them at once, a broker tells of it a little later."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from infra.clock import Clock, Deadline


def delete_topics(admin: AdminClient, *topics: str) -> None:
    """Delete them, and return when nobody sees them any more."""
    clock = Clock()
    for done in admin.delete_topics(list(topics)).values():
        done.result(30)
    deadline = Deadline.after(clock, 30_000)
    while set(topics) & admin.list_topics(timeout=10).topics.keys():
        assert not deadline.passed, f"{topics} are still listed"
        clock.sleep(50)
