"""Several processes that train one model: `torchrun --nproc-per-node N recd trainer`. The first of them leads.

Rank 0 has the lease, the ledger, the metrics and the checkpoints, and runs the ordinary loop. The others follow its
commands. Every rank reads, decodes and trains the partitions that are its own; a step is one list of mini-batches,
the same for any number of ranks.

place             which rank this process is, from the launcher's environment
group             the process group, joined and left
channel           bytes between the ranks, for one thread of each
messages          what the ranks say to each other (pure)
merged            what waits on all ranks, as one view (pure)
part              a rank's share of a step, and the whole that rank 0 scores and accounts for (pure)
local             a rank's own mini-batches: what waits, and its part of a step
composer          the threads that agree on the next step and make its tensors
reading           a rank's own partitions of the topic
sharded_tables    the tables, sharded by TorchRec
dense             what every rank has whole
step              one step on all ranks
commands          rank 0's loop says what is next
feed              rank 0's end of the composers
follower          what every other rank does: commands, one after the other
build             configuration to running ranks
"""
