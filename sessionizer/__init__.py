"""From events to mini-batches.

Pure:
config         gap, lateness, caps, batch size
worker_config  the worker's process: cadence, queues, time-outs
effects        what the core orders its shell to do
account        what became of every event
hash_table     open addressing over 64-bit keys, for compiled kernels
arrivals       lateness, duplicates, and back into event-time order
merge          the inputs of a join task as one sequence
erasures       when a tombstone takes effect
intake         all that waits for its turn
rows           held events under small integer names
history        each user's last items, point in time
measures       how many entries a sample sees, and how old the newest is
residents      users whose profiles come into a core, and leave it
join           outcomes to the impressions they belong to
corrections    samples that have left and may still be corrected, and what corrects them
waiting        closed sessions that wait for their labels
sessions       the compiled rules of sessions
windower       sessions of one partition
sampling       which negative samples are trained
shedding       which sessions are left out while the trainer is too far behind
leaving        what leaves in one call, as samples in packing order
packer         closed sessions to mini-batches
core           events and marks in, effects out
cut            snapshots of a core as bytes
compatible     whether a configuration may go on from a cut
marks          when a clock mark takes effect
steering       how long samples may wait, so that they arrive in time
freshness      how long what may leave waits for its mini-batch to fill, and is on its way
backlog        decoded polls of an input that wait
progress       what a partition has made visible, as bytes
profile_copy   the working copy of profiles: believed, read, written, repaired
ahead          bytes of mini-batches that wait for the trainer
shed_steps     how large a share of the sessions is left out while they are too many
gate           output waits, or sessions are shed, while they are too many
handler        the protocol between the seam to Faust and who gets the records
outlet         the protocols between a partition and Kafka
reporting      a partition's metrics
makers         what a partition is made of
starting       where a recovered partition reads on
summary        what a worker leaves behind
partition      one partition from its recovery to its last cut

Shell:
fetched        records as the client's parser leaves them
faust_seam     whole fetched batches out of Faust: the only file that knows its private names
emit           outlets on Kafka, with and without transactions
changelog      the truth about profiles on Kafka, read back
recovery       the journal on Kafka: progress, cuts and marks read back
trainer_place  the trainer's committed offsets and the sizes of what follows them
pressure       what waits for the trainer and what is shed, for whoever asks
refusals       partitions that a worker cannot work on
garbage        how often Python looks for garbage
allocator      how the C library keeps memory
wiring         what a worker is made of
job            the process: partitions in threads of their own behind the Faust worker
"""
