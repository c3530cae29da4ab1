"""`recd demo`: a log through Kafka, the sessionizer and the trainer, checked and pictured.

`movielens`, `synthetic` the two logs · `inputs` a log with its configuration and what it must come out as · `paths`
where a demo keeps things · `child`, `supervisor` the two processes · `progress` what is read while they run ·
`screen` shows it · `replay` the finished batches read once more · `account` the checks · `summary` the last object ·
`run` the whole.
"""
