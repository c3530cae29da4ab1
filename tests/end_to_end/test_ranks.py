"""`torchrun … recd trainer` over real Kafka: two ranks, a rank that is killed, and the samples of the topic once each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.clock import Clock
from tests.fault.trainer_process import TrainerHome, make_home
from tests.trainer.kafka_kit import MiniBatchTopic, audit, make_topic, write_log
from tests.trainer.lineage_kit import topic
