"""`recd demo`: the main job end to end.

Owns: the command's options and output. Never: how a demo runs (infra/demo).
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from infra.clock import Clock
from infra.commands.options import JsonOption
from infra.demo.finish import Finished
from infra.demo.options import DemoOptions
from infra.demo.paths import DemoPaths
from infra.demo.run import run_demo
from infra.demo.screen import chosen, put

FAILED, INTERRUPTED = 1, 130

SyntheticOption = Annotated[
    int | None, typer.Option("--synthetic", metavar="N", help="N samples of known laws instead of MovieLens-100K.")
]
ParityOption = Annotated[
    bool, typer.Option("--parity", help="Compare 200 steps with the plain model. Default: a slice of 40.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Decides every initial weight, and the synthetic log.")]
BatchOption = Annotated[int, typer.Option("--batch", help="Samples in a mini-batch and in a step.")]
DirectoryOption = Annotated[Path, typer.Option("--dir", help="Cache, services and this run's files.")]
ReportOption = Annotated[Path, typer.Option("--report", help="Where picture, page and summary go.")]
RateOption = Annotated[
    float | None, typer.Option("--rate", min=1, help="Send so many events a second, to watch it. Default: flat out.")
]
KeepOption = Annotated[bool, typer.Option("--keep", help="Leave Kafka and Redis running, with what is in them.")]
MemoryOption = Annotated[bool, typer.Option("--memory", help="The in-memory stand-in even where Kafka could run.")]


def demo(
    *,
    samples: SyntheticOption = None,
    parity: ParityOption = False,
    seed: SeedOption = 0,
    batch: BatchOption = 256,
    as_json: JsonOption = False,
    directory: DirectoryOption = Path(".recd/demo"),
    report: ReportOption = Path("demo-report"),
    rate: RateOption = None,
    keep: KeepOption = False,
    memory: MemoryOption = False,
) -> None:
    """Turn a real interaction log into a continuously trained model, through real Kafka, and check every event.

    MovieLens-100K is downloaded once, as data (terms are shown). Without a JDK an in-memory broker stands in.

    Examples:

        recd demo

        recd demo --synthetic 50000 --parity

        recd demo --json | tail -1
    """
    options = DemoOptions(
        samples=samples, batch=batch, seed=seed, full_parity=parity, keep=keep, memory=memory, rate=rate
    )
    paths = DemoPaths.under(directory, report)
    signal.signal(signal.SIGTERM, _interrupt)  # So that a terminated demo cleans up as an interrupted one does.
    try:
        with chosen(as_json=as_json) as screen:
            finished = run_demo(options, paths, Clock(), screen)
    except KeyboardInterrupt as interrupt:
        sys.stderr.write("interrupted; every process of the demo has been stopped\n")
        if as_json:
            put({"event": "summary", "ok": False, "exit_reason": "interrupted"})
        raise typer.Exit(INTERRUPTED) from interrupt
    if as_json:
        for check in finished.checks:
            sys.stderr.write(f"{check}\n")
        put(finished.summary.as_json())
    else:
        _show(finished, paths)
    if finished.broken:
        broken = "\n".join(str(check) for check in finished.broken)
        sys.stderr.write(f"error: the demo ran to its end, but not everything holds:\n{broken}\n")
        raise typer.Exit(FAILED)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _show(finished: Finished, paths: DemoPaths) -> None:
    console = Console(file=sys.stdout, highlight=False)
    table = Table(title=f"recd demo: {finished.title}", title_justify="left", show_header=False, box=None)
    table.add_column(style="dim")
    table.add_column()
    for name, value in finished.summary.rows().items():
        table.add_row(name, value)
    console.print(table, soft_wrap=True)
    for check in finished.checks:
        console.print(str(check), style=None if check.holds else "bold red", soft_wrap=True)
    for note in finished.notes:
        console.print(note, style="dim", soft_wrap=True)
    console.print(f"report: {paths.report / 'report.html'}", soft_wrap=True)
