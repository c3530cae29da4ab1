"""The guide for other formats, run as it stands: its producers, under the other guide's configuration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from google.protobuf import descriptor_pb2

from infra.services.stack import Addresses
from streams.clock_mark import ClockMark, MarkKind
from streams.kafka import client, topics
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig
from tests.end_to_end.test_your_own_topic import EACH, USERS, block, log
from tests.streams.kafka.registry_server import RegistryServer, registry_server

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

GUIDE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
PARTITIONS = 4
_TYPES = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
}


def fenced(info: str) -> str:
    """The guide's only block of that kind."""
    (found,) = re.findall(rf"```{info}\n(.*?)```", GUIDE, re.DOTALL)
    return str(found)


def compiled(proto: str) -> str:
    """What protoc makes of the guide's file, in short: its descriptor, and a class a message."""
    file = descriptor_pb2.FileDescriptorProto(name="seen.proto", syntax="proto3")
    for name, body in re.findall(r"message (\w+) \{(.*?)\}", proto, re.DOTALL):
        message = file.message_type.add(name=name)
        for label, kind, field, number in re.findall(r"(optional |repeated )?(\w+) (\w+) = (\d+);", body):
            one = message.field.add(name=field, number=int(number), label=3 if label == "repeated " else 1)
            if kind in _TYPES:
                one.type = _TYPES[kind]
            else:
                one.type, one.type_name = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE, f".{kind}"
            if label == "optional ":
                one.proto3_optional, one.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field}")
    return (
        "from google.protobuf import descriptor_pb2, descriptor_pool, message_factory\n"
        f"file = descriptor_pb2.FileDescriptorProto.FromString({file.SerializeToString()!r})\n"
        "pool = descriptor_pool.Default()\n"
        "pool.Add(file)\n"
        "Seen = message_factory.GetMessageClass(pool.FindMessageTypeByName('Seen'))\n"
    )


def recd(directory: Path, settings: list[str], services: Addresses, *words: str) -> dict[str, Any]:
    addresses = {"RECD__KAFKA__BOOTSTRAP": services.kafka, "RECD__REDIS__URL": services.redis}
    flags = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "infra.cli", *words, *flags, "--json"]
    ran = subprocess.run(
        command, cwd=directory, env=os.environ | addresses, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def ended(kafka: KafkaConfig, config: TopicsConfig) -> None:
    """Nothing more comes, in any partition."""
    reader = client.consumer(kafka, group="formats-guide")
    marker = client.producer(kafka, client_id="formats-guide")
    for partition in range(PARTITIONS):
        _, end = reader.get_watermark_offsets(TopicPartition(config.interactions, partition), 10)
        mark = ClockMark(partition=partition, after_offset=end, kind=MarkKind.END)
        marker.produce(config.clock, mark.encode(), None, partition)
    reader.close()
    assert marker.flush(30) == 0


@pytest.mark.parametrize("name", ["avro", "protobuf", "arrow"])
def test_the_producers_of_the_guide_work_as_they_stand(name: str, services: Addresses, tmp_path: Path) -> None:
    with registry_server() as registry:
        run(name, services, tmp_path, registry)


def run(name: str, services: Addresses, directory: Path, registry: RegistryServer) -> None:
    (directory / "recd.toml").write_text(block("toml"))
    (directory / "seen_pb2.py").write_text(compiled(fenced("proto")))
    (directory / "produce.py").write_text(fenced(f"python {name}"))
    topic = f"guide-{name}"
    config = TopicsConfig(interactions=topic, minibatches=f"{topic}-batches", partitions=PARTITIONS)
    topics.ensure(client.admin(KafkaConfig(bootstrap=services.kafka)), config)
    settings = [
        f'topics.interactions="{topic}"', f'topics.minibatches="{topic}-batches"', f'worker.app="{topic}"',
        f'format.name="{name}"',
    ]  # fmt: skip
    settings += [] if name == "arrow" else [f'format.registry="{registry.url}"']
    where = [services.kafka, topic, str(PARTITIONS)] if name == "arrow" else [services.kafka, registry.url, topic]
    # In the order of their times, as what happens comes; `recd ingest` would sort it.
    lines = sorted(log(json.loads(block("json"))).splitlines(), key=lambda line: json.loads(line)["at"])
    produced = subprocess.run(
        [sys.executable, "produce.py", *where], cwd=directory, input="\n".join(lines), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert produced.returncode == 0, produced.stderr
    ended(KafkaConfig(bootstrap=services.kafka), config)
    account = recd(directory, settings, services, "sessionizer", "--exit-at-end")["account"]
    assert (account["emitted"], account["dead_lettered"], account["late"]) == (USERS * EACH, 0, 0)
