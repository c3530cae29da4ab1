"""Events: what the user's messages mean, and batches of them as columns.

schema    roles, labels, features and groups: the frozen configuration of an event stream
event     EventBatch, the columns of one partition's consecutive events
ids       strings to stable 64-bit ids
decode    record bytes to an EventBatch and its rejected records
"""
