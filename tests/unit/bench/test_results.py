from perseid.bench.measuring.results import Results


def test_a_number_is_the_median_of_its_samples():
    results = Results(lambda _: None)
    for seconds in (3.0, 1.0, 9.0):
        results.sample("recovery_s", seconds, unit="s")
    assert results.numbers == {"recovery_s": 3.0}
    assert results.samples == {"recovery_s": [3.0, 1.0, 9.0]}


def test_every_measurement_is_told():
    told: list[str] = []
    results = Results(told.append)
    results.sample("native_rows_per_s", 512_345.6, unit="rows/s")
    results.number("longest_stall_ms", 12.5, "ms")
    assert told == ["native: 512,346 rows/s", "longest stall: 12.50 ms"]
