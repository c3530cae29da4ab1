"""Events: what the user's messages mean, and batches of them as columns.

roles     which of the user's fields plays which role, in each topic
schema    roles, labels, features and groups: the frozen configuration of an event stream
event     EventBatch, the columns of one partition's consecutive events
record    what a decoder is given and gives back
decode    record bytes to an EventBatch and its rejected records: start here
outcomes_topic  what messages mean in a topic of outcomes alone
messages  parsed messages of a poll, and the protocol of formats
formats/  JSON, Avro, Protobuf and Arrow behind that protocol
fields    the fields that a schema asks for, and how JSON's are decoded in C
reader    columns of those fields, by rule
values    the values of one field, in the form their format has them
interpret roles, labels and features of a schema as columns
ids       the 64-bit numbers behind users, items and events
times     event times of any unit to milliseconds
lists     distinct lists, each decoded once
columns   one column, and the verdicts on its values
diagnosis why a message could not be decoded
"""
