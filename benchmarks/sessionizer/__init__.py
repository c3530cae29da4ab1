"""What the sessionizer costs, against what others cost on the same topic.

stream            events as JSON, drawn with a seed, and the label that each impression must get
arrow_stream      the same, many events in an Arrow message
setup             the worker's configuration, and topics filled with a stream
child             a program run to its end: what it printed, and what it used
worker            `recd sessionizer` on a filled topic, up to its last commit
emitted           the mini-batches of a run, against the truth of its stream
confluent_decode  a program: fetch and decode, nothing else
by_event          recd's rules event by event, in dictionaries
by_event_batches  its sessions as mini-batches, by the same library
faust_agent       a program: a Faust agent, event by event
bytewax_window    a program: bytewax's session window
contest           these in turns: CPU time an event
decoding_worker   a program: recd's worker, but with every list decoded
flat              one worker under more sessions, longer ones, more partitions
core_alone        the core without Kafka and decoding
run               every line of `recd bench sessionizer`
"""
