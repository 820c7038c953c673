"""State in and out of a root: as tables of plain columns, in Parquet files, and from the checkpoint of a Spark query."""
