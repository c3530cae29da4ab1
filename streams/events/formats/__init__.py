"""How bytes become the fields of events: one module a format, all behind `streams.events.messages`.

config        which format, and where schemas are found: the frozen configuration
choose        the format of a configuration: start here
json_objects  one JSON object a message, by compiled kernels or by msgspec
json_tokens   compiled: where tokens end, and which number one is
json_scan     compiled: the fields that are asked for, out of a whole poll
json_columns  what a scan has found, as values
json_rows     compiled: lists of integers, each text decoded once while it is remembered
framed        messages that name their schema in a registry, grouped by it
schemas       what a registry knows of a schema, as a protocol
avro          how a message of an Avro schema is read
avro_bounds   what an Avro schema lets a few bytes do
protobuf      how a message of a Protobuf schema is read
arrow         many events a message, as columns
arrow_values  Arrow columns to values
arrow_lists   Arrow lists to distinct rows
"""
