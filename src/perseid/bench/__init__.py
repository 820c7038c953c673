"""Benchmarks, one module each: ``perseid bench NAME`` runs ``perseid.bench.NAME``.

The first line of a module's docstring says what it measures. It has one entry:
``run(quick: bool, json_path: Path | None, plot_path: Path | None) -> None``.
"""
