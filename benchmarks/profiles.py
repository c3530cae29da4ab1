"""What a user costs: bytes of a profile in the changelog, in Redis, and in the sessionizer's memory and cut.

    python -m benchmarks.profiles --redis redis://127.0.0.1:6379/0 [--users 100000]

Users with one history of 50 items, drawn from 100,000, an hour apart on average, of a topic with a million records an
hour. Writes a shelf of its own and removes it. The core is fed everything, cut, and told to keep a thousand users.
One result a line, as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import numpy as np

from infra.clock import Clock
from sessionizer.config import BatchConfig, ProfilesConfig, SessionConfig
from sessionizer.core import PartitionCore
from state.profiles import Profiles, encode, histories_fingerprint
from state.redis import RedisConfig, RedisServer
from state.redis_profiles import RedisProfiles
from state.store import MISSING
from streams.events.roles import Roles
from streams.events.schema import EventSchema, History, Label

LENGTH, ITEMS, HOUR_MS, RECORDS_AN_HOUR = 50, 100_000, 3_600_000, 1_000_000
SHELF = "recd/benchmark-of-profiles"
READ = 10_000
SCHEMA = EventSchema(
    roles=Roles(event_id=("id",), user="user", item="item", time="time"),
    labels=(Label(name="liked", field="liked"),),
    histories=(History(name="liked", table="items", last=LENGTH, label="liked"),),
)


def drawn(num_users: int) -> Profiles:
    """Full histories."""
    rng = np.random.default_rng(7)
    hours = np.cumsum(rng.exponential(1.0, (num_users, LENGTH)), axis=1)
    return Profiles(
        user=np.arange(num_users),
        total_UH=np.full((num_users, 1), 3 * LENGTH),
        visible_UH=np.full((num_users, 1), 3 * LENGTH - 1),
        lengths_UH=np.full((num_users, 1), LENGTH),
        item=rng.integers(0, ITEMS, num_users * LENGTH),
        time_ms=(1_700_000_000_000 + hours * HOUR_MS).astype(np.int64).ravel(),
        offset=(hours * RECORDS_AN_HOUR).astype(np.int64).ravel(),
    )


def of_redis(url: str, values: Sequence[bytes]) -> dict[str, float]:
    """Memory of the server and time of the client, a user."""
    server, store, clock = RedisServer(RedisConfig(url=url)), RedisProfiles(RedisConfig(url=url)), Clock()
    server.client.delete(SHELF)
    before = int(server.client.info("memory")["used_memory"])
    begun = clock.monotonic_ms()
    store.write(SHELF, dict(enumerate(values)), MISSING, b"tag")
    wrote = clock.monotonic_ms() - begun
    memory = int(server.client.info("memory")["used_memory"]) - before
    begun = clock.monotonic_ms()
    for start in range(0, len(values) - READ + 1, READ):
        store.read(SHELF, range(start, start + READ))
    read = clock.monotonic_ms() - begun
    server.client.delete(SHELF)
    n = len(values)
    return {"redis_bytes": memory / n, "write_us": 1000 * wrote / n, "read_us": 1000 * read / (n // READ * READ)}


def of_core(users: Sequence[int], values: Sequence[bytes], store: ProfilesConfig) -> dict[str, float]:
    """Bytes of a cut and users in memory."""
    core = PartitionCore(SCHEMA, SessionConfig(), BatchConfig(), 0, profiles=store)
    core.load_profiles(np.array(users), list(values))
    cut = core.cut()
    core.evict()
    return {"cut_bytes": len(cut) / len(users), "users_in_memory": core.num_users}


def main() -> None:
    """Print the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--redis", required=True)
    parser.add_argument("--users", type=int, default=100_000)
    arguments = parser.parse_args()
    profiles = drawn(arguments.users)
    values = encode(profiles, histories_fingerprint(SCHEMA.histories), 0)
    told = {"users": len(values), "entries": LENGTH, "profile_bytes": sum(map(len, values)) / len(values)}
    told |= of_redis(arguments.redis, values)
    for store in ("cuts", "redis"):
        config = ProfilesConfig(store=store, max_users_in_memory=1000)
        told |= {f"{store}_{name}": value for name, value in of_core(range(len(values)), values, config).items()}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
