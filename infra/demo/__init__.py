"""`recd demo`: a log through Kafka, the sessionizer and the trainer, checked and pictured.

`options` what may be chosen · `movielens`, `synthetic` the two logs · `inputs` a log with its configuration ·
`paths` where a demo keeps things · `run` the whole · `live` its processes, with `supervisor`, `progress`, `screen` ·
`finish` after them, with `outputs` their summaries, `readback` the mini-batches once more, `measure` figures from
them, `account` the checks, `summary` the last object.
"""
