"""What decides where a routed record goes; pure. The stage itself is `streams.kafka.route`.

murmur2       where Kafka's own clients put a key
addresses     records of any topic to the partitions, keys and times that they need: start here
splitting     an Arrow message of many users as one message a partition
alignment     in which order the records of several partitions are written
origin        the headers that say where a record came from
"""
