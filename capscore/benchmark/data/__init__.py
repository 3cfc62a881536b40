"""Official files of benchmarks → rows: the builder, file readers, loading, checking, export."""
