"""``perseid linear-road``: make traffic, answer it, and check the answers (S7)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perseid.cli.report import reporting
from perseid.cli.run import Scheme, run_and_watch, start_settings
from perseid.errors import PerseidError, SettingsError

if TYPE_CHECKING:
    from perseid.apps.linear_road.generate import Traffic

linear_road = typer.Typer(
    name="linear-road",
    help="The Linear Road benchmark: tolls, accidents and balances on expressways."
    " Example: [bold]perseid linear-road generate --xways 1 --seconds 300 traffic/[/bold]",
    rich_markup_mode="rich",
    no_args_is_help=True,
)

Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


class Format(StrEnum):
    """How traffic is written."""

    parquet = "parquet"
    csv = "csv"


@linear_road.command()
def generate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write.")],
    xways: Annotated[int, typer.Option(min=1, help="Expressways (the benchmark's L).")] = 1,
    seconds: Annotated[int, typer.Option(min=1, help="How long; the load rises to the peak over this time.")] = 10_800,
    peak: Annotated[float, typer.Option(help="Reports a second and expressway at the end.")] = 1_700.0,
    first: Annotated[float, typer.Option(help="Reports a second and expressway at the beginning.")] = 15.0,
    peak_seconds: Annotated[int, typer.Option(min=0, help="How many of the seconds, at the end, the peak lasts.")] = 0,
    crash_every: Annotated[float, typer.Option(metavar="SECONDS", help="Seconds between two crashes, each way.")] = 600,
    seed: Annotated[int, typer.Option(help="The same seed makes the same traffic.")] = 0,
    format: Annotated[Format, typer.Option(help="parquet: a feed; csv: the benchmark's own lines.")] = Format.parquet,
    debug: Debug = False,
) -> None:
    """Make traffic: cars, accidents and queries.

    Example: [bold]perseid linear-road generate --xways 2 --seconds 600 traffic/[/bold]
    """
    with reporting(debug=debug):
        from perseid.apps.linear_road.generate import Traffic

        if out.exists() and any(out.iterdir()):
            raise SettingsError(f"{out}: expected a folder that is empty or not there; choose another or remove it")
        traffic = Traffic(xways, seconds, seed, min(first, peak), peak, crash_every, peak_s=peak_seconds)
        rows = _write_feed(traffic, out) if format is Format.parquet else _write_lines(traffic, out)
        print(f"{rows:,} lines of {seconds:,} seconds on {xways} expressways in {out}")


@linear_road.command()
def run(
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="A feed, a file of lines, or a folder with input.dat.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where answers, malformed lines and the root go.")],
    history: Annotated[
        Path | None, typer.Option(help="Toll history: vid,day,xway,toll.", show_default="beside INPUT")
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(help="1: the pace of the road; 10: ten times as fast.", show_default="as fast as it goes"),
    ] = None,
    shards: Annotated[int, typer.Option(min=1, help="Shards of each operator.")] = 2,
    hosts: Annotated[int, typer.Option(min=1, help="How many hosts keep the state.")] = 2,
    spares: Annotated[int, typer.Option(min=0, help="Ready hosts that take over.")] = 1,
    seven: Annotated[bool, typer.Option("--seven", help="Every operator of the paper as a node of its own.")] = False,
    master: Annotated[str | None, typer.Option(help="Spark master URL.", show_default="local")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 10.0,
    max_rows_per_epoch: Annotated[int | None, typer.Option(min=1, help="Admit at most so many rows per epoch.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a second.")] = False,
    debug: Debug = False,
) -> None:
    """Answer traffic until its end; run again with the same OUT, it goes on where it was.

    Example: [bold]perseid linear-road run traffic/ answers/ --speed 10[/bold]
    """
    with reporting(debug=debug, as_json=as_json):
        from perseid.apps.linear_road.feed import Feed, feed_of
        from perseid.apps.linear_road.graph import linear_road as application

        feed = Feed(feed_of(source, out / "feed", history=history, least_rows=2_000 if speed is None else 1), speed)
        app = application(feed, str(out / "answers"), shards=shards, seven=seven, malformed=str(out / "malformed"))
        settings = start_settings(hosts, spares, checkpoint_seconds, Scheme.parallel, False, max_rows_per_epoch)
        run_and_watch(app, str(out / "root"), master, settings, as_json=as_json)
        if speed is not None and feed.began_ms is not None and not as_json:
            from perseid.apps.linear_road.latency import latency_of

            print(latency_of(out / "answers", feed.began_ms, speed) or "no answers yet")


@linear_road.command()
def check(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The OUT of a run.")],
    expected: Annotated[
        Path,
        typer.Argument(
            metavar="EXPECTED", help="A folder with expected_toll.csv(.gz) and so on, or the INPUT of the run."
        ),
    ],
    oracle: Annotated[
        bool, typer.Option("--oracle", help="EXPECTED is the input: work its answers out, slowly.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Compare the answers of a run with expected files, or with the oracle's. Exit code 1 if they differ.

    Example: [bold]perseid linear-road check answers/ traffic/ --oracle[/bold]
    """
    with reporting(debug=debug):
        from perseid.apps.linear_road import results

        came = results.of_output(out / "answers")
        wanted = results.of_oracle(_lines_of(expected))[0] if oracle else results.of_expected(expected)
        found = results.differences(came, wanted)
        print(*found, sep="\n")
        aside = sum(len(file.read_text().splitlines()) for file in out.glob("malformed/epoch=*/part-*.json"))
        if aside:
            print(f"{aside} malformed lines were put aside in {out / 'malformed'}")
        if not all(difference.same for difference in found):
            raise PerseidError(f"{out}: the answers are not those expected")


def _write_feed(traffic: Traffic, out: Path) -> int:
    from perseid.apps.linear_road import generate as making
    from perseid.apps.linear_road.feed import write_tables

    return write_tables(out, enumerate(making.seconds(traffic), start=-1))  # the history, then one file for each second


def _write_lines(traffic: Traffic, out: Path) -> int:
    from perseid.apps.linear_road import generate as making

    out.mkdir(parents=True, exist_ok=True)
    tables = making.seconds(traffic)
    history = next(tables)
    rows = 0
    with (out / "tollhistory.csv").open("w") as file:
        columns = (history[name].to_pylist() for name in ("vid", "day", "xway", "qid"))
        file.writelines(f"{vid},{day},{xway},{toll}\n" for vid, day, xway, toll in zip(*columns, strict=True))
    with (out / "input.dat").open("w") as file:
        for table in tables:
            file.writelines(f"{line}\n" for line in making.as_lines(table))
            rows += table.num_rows
    return rows


def _lines_of(path: Path) -> Iterator[str]:
    """The lines of an input, whatever it is, with its history before them."""
    import tempfile

    from perseid.apps.linear_road.feed import Feed, feed_of
    from perseid.apps.linear_road.generate import as_lines
    from perseid.apps.linear_road.results import text_lines

    with tempfile.TemporaryDirectory() as folder:
        feed = Feed(feed_of(path, Path(folder)))
        for one in feed.slices:
            file = feed.folder / one.file
            if feed.format == "text":
                yield from text_lines(file)
            else:
                import pyarrow.parquet as pq

                yield from as_lines(pq.ParquetFile(file).read())
