"""Local Kafka and Redis: the real ones, on free loopback ports, in one directory.

`stack`          up, down and status of a directory: what everybody else calls
`fleet`          the processes behind a record, started and stopped together
`plan`           ports and programs chosen, and chosen again on a conflict
`record`         `stack.json`
`status`         what runs and answers
`kafka`          settings, storage and process of one broker
`redis`          settings and process of the Redis server
`memory_broker`  the stand-in for machines without a JDK
`process`        one detached child with a pid file that survives recycled pids
`lock`           one command at a time in a directory
`ports`          free loopback ports
`toolchain`      java, jars, redis-server: found, or named with the remedy
`errors`         what happened, the last log lines, what to do next
"""
