"""Spark's own tests of transformWithState, aimed at Perseid.

    git clone --depth 1 --branch branch-4.3 https://github.com/apache/spark /tmp/spark  # or the tag of the release
    SPARK_CHECKOUT=/tmp/spark python tests/spark_own/run.py              # all
    SPARK_CHECKOUT=/tmp/spark python tests/spark_own/run.py -k init_state --variant pandas

The tests are not in the wheel of PySpark, and nothing of them is here: they are imported from the checkout, with
``GroupedData.transformWithState`` and ``transformWithStateInPandas`` replaced by Perseid's functions. Those that cannot pass are in
``EXPECTED`` with the reason; the exit code says whether all others pass and none of those does.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import unittest
from pathlib import Path

METADATA = "reads Spark's state data sources from the checkpoint"
EXPECTED = {
    "test_transform_with_state_query_restarts": "reads the files of the sink without the column `epoch`",
    "test_transform_with_state_chaining_ops": "an aggregation of Spark's behind the processor",
    "test_transform_with_list_state_metadata": METADATA,
    "test_transform_with_value_state_metadata": METADATA,
    "test_transform_with_state_restart_with_multiple_rows_init_state": METADATA,
}
"""Tests that fail, and why. `docs/spark-processors.md` lists them."""
ALSO_EXPECTED = {
    "StateVariable.test_transform_with_state_with_timers_single_partition": METADATA,
}
"""The same, where two classes have a test of one name."""


def suites(variant: str) -> list[type[unittest.TestCase]]:
    """The classes of one variant, from the checkout."""
    checkout = Path(os.environ.get("SPARK_CHECKOUT", ""), "python", "pyspark")
    if not (checkout / "sql" / "tests").is_dir():
        sys.exit("SPARK_CHECKOUT: expected a checkout of apache/spark")
    import pyspark.sql
    from pyspark import cloudpickle
    from pyspark.sql import GroupedData

    import perseid

    pyspark.sql.__path__.append(str(checkout / "sql"))
    from pyspark.sql.tests.pandas.helper import helper_pandas_transform_with_state as helper
    from pyspark.sql.tests.pandas.streaming import (
        test_pandas_transform_with_state as pandas_tests,
    )
    from pyspark.sql.tests.pandas.streaming import (
        test_pandas_transform_with_state_state_variable as pandas_variables,
    )
    from pyspark.sql.tests.pandas.streaming import test_transform_with_state as row_tests
    from pyspark.sql.tests.pandas.streaming import (
        test_transform_with_state_state_variable as row_variables,
    )

    for module in (helper, pandas_tests, pandas_variables):
        cloudpickle.register_pickle_by_value(module)  # workers have no checkout
    GroupedData.transformWithState = perseid.transform_with_state
    GroupedData.transformWithStateInPandas = perseid.transform_with_state_in_pandas
    if variant == "row":
        return [
            row_tests.TransformWithStateInPySparkTests,
            row_variables.TransformWithStateInPySparkStateVariableTests,
        ]
    return [
        pandas_tests.TransformWithStateInPandasTests,
        pandas_variables.TransformWithStateInPandasStateVariableTests,
    ]


def expected(test: unittest.TestCase) -> str | None:
    """Why a test cannot pass; None if it has to."""
    name = test.id().rsplit(".", 1)[-1]
    if name in EXPECTED:
        return EXPECTED[name]
    part = "StateVariable." if "StateVariable" in type(test).__name__ else ""
    return ALSO_EXPECTED.get(part + name)


class Told(unittest.TextTestResult):
    """Counts what passed."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.outcome: dict[str, str] = {}
        self.wrong: list[str] = []

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.began = time.monotonic()

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        if test.id().endswith("test_assert_classic_mode"):
            return  # of Spark's test case, not of these tests
        bad = [t for t, _ in (*self.failures, *self.errors) if t is test]
        skipped = [t for t, _ in self.skipped if t is test]
        outcome = "skipped" if skipped else "failed" if bad else "passed"
        self.outcome[test.id()] = outcome
        why = expected(test)
        if (outcome == "failed" and why is None) or (outcome == "passed" and why is not None):
            self.wrong.append(test.id())
        print(f"  {outcome} in {time.monotonic() - self.began:.1f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", choices=("row", "pandas"), default="row", help="of the two APIs")
    parser.add_argument("-k", action="append", help="only tests whose names have this in them")
    given = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{part}*" for part in given.k] if given.k else None
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in suites(given.variant))
    result = unittest.TextTestRunner(verbosity=2, resultclass=Told, stream=sys.stdout).run(suite)
    assert isinstance(result, Told)
    counts = {kind: list(result.outcome.values()).count(kind) for kind in ("passed", "failed", "skipped")}
    print(
        f"{given.variant}: {counts['passed']} of {len(result.outcome)} pass, {counts['failed']} fail, {counts['skipped']} are skipped"
    )
    for name in result.wrong:
        print(f"  not as expected: {name}")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
