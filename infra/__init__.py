"""Running it: the only place that wires things together.

`cli` the command `recd` · `commands/` one file a command · `config` one TOML file from the parts' dataclasses, with
`config_layers` flags over environment over file, `config_errors` what a refusal says, `config_file` writing it ·
`presets` configurations to start from · `logging` · `metrics` Prometheus · `clock` the one reader of time ·
`trainer_watch` who looks on while it trains · `concerns` scores that deserve a word · `reference` what is
generated in docs/, with `reference_api` the page of streams.ikjt and `ikjt_drawing` its picture ·
`services/` local Kafka and Redis · `kafka/` the jars · `demo/` the main job end to end · `report/` its pictures ·
`advise/` what `recd advise` does around the advisor.
"""
