"""The same small application under both checkpoint schemes, and what its checkpoint root holds afterwards."""

import json
import tempfile
from pathlib import Path

import pyarrow as pa

import perseid
from perseid import App, Operator, every, state


class Highest(Operator):
    highest: dict[str, float] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            self.highest[row["sensor"]] = max(row["value"], self.highest.get(row["sensor"], float("-inf")))


def build(folder: Path) -> App:
    app = App("highest")
    values = app.source(
        "values", perseid.sources.files(str(folder / "in"), format="json", schema="sensor string, value double")
    )
    highest = values.stateful("highest", Highest(), key="sensor", shards=2, output="sensor string, value double")
    highest.sink("out", perseid.sinks.noop())
    return app


def main() -> None:
    for scheme in (perseid.checkpoints.parallel(every(seconds=1)), perseid.checkpoints.source(every(seconds=1))):
        folder = Path(tempfile.mkdtemp(prefix="perseid-schemes-"))
        (folder / "in").mkdir()
        running = build(folder).start(root=str(folder / "root"), hosts=1, checkpoint=scheme)
        try:
            number = 0
            while running.progress().checkpoints < 2 and not running.wait(timeout_s=0.2):
                number += 1
                values = [{"sensor": f"s{i % 10}", "value": float(i * number % 97)} for i in range(100)]
                (folder / "in" / f"{number:06d}.json").write_text("".join(json.dumps(value) + "\n" for value in values))
        finally:
            running.stop()
        taken = running.progress().checkpoints
        print(f"{scheme.name}: {taken} checkpoints; look at them with: perseid inspect {folder / 'root'}")


if __name__ == "__main__":
    main()
