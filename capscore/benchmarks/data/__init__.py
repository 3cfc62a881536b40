"""A benchmark's official files → rows: the builder, file readers, loading, checking, export."""
