"""What flows and how it moves.

errors        the exception families of this package
strict        how every configuration dataclass is validated
events/       event schema, columns of events, decoding (pure)
files/        logs in files, line by line, in event-time order
ikjt/         jagged rows and InverseKeyedJaggedTensors (pure, usable alone)
stage         how much was known of a sample's labels when it left
minibatch     session-clustered samples with their lineage (pure)
exchange/     whole mini-batches for other tools: Arrow, Parquet, NumPy, records (pure but for Parquet's files)
reshape       joins, cuts and splits mini-batches (pure)
routing/      where routed records go, and in which order (pure)
inputs        what a join task reads, and positions in it (pure)
unaligned     64 bits from any byte (pure, compiled)
clock_mark    what the wall clock decided, written down (pure)
wire          mini-batches as bytes, versioned (pure)
advisor/      what deduplication gains on a sample, and which features to group (pure)
metrics       names, units and meanings of everything that is reported
kafka/        clients, topics, dead letters, ingest, route, lag
"""
