"""What outlives a process, and what other processes may read.

store      the protocol: bytes under keys, absence, compare-and-set by version
memory     a store inside this process
redis      the store that processes share
profiles   what is remembered of users: columns, and each profile as bytes
profile_bytes  the compiled half of that
profile_store  the protocol for working copies of profiles, and their tag
memory_profiles, redis_profiles  two of them: inside this process, and shared
progress   where each process stands, for people and for lag

Everything here can be rebuilt from Kafka and the last checkpoint: losing it costs time, never correctness.
"""
