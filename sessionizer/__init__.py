"""From events to mini-batches.

Pure:
config       gap, lateness, caps, batch size
effects      what the core orders its shell to do
account      what became of every event
arrivals     lateness, duplicates, and back into event-time order
windower     sessions of one partition
history      each user's last items, point in time
payload      the columns of held samples
packer       closed sessions to mini-batches
core         events and marks in, effects out
cut          snapshots of a core as bytes

Shell:
faust_seam   whole fetched batches out of Faust: the only file that knows its private names
emit         effects to Kafka, in one transaction with the cut
recovery     cuts and marks back from Kafka
job          the Faust app: decode, call the core, run the effects
"""
