"""One file a command; the function has the command's name, and `infra.cli` loads it when it is called.

`demo` · `init`, `config` · `up`, `down`, `status` (with `services_output`) · `ingest`, `route`, `advise`, `lag` ·
`sessionizer` · `trainer`, `inspect` · `options` what commands share.
"""
