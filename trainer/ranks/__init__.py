"""Several processes that train one model: `torchrun --nproc-per-node N recd trainer`. The first of them leads.

Rank 0 has the lease, the ledger, the metrics and the checkpoints, and runs the ordinary loop. The others follow its
commands. Every rank reads, decodes and trains the partitions that are its own; a step is one list of mini-batches,
the same for any number of ranks.

place           which rank this process is, from the launcher's environment
channel         bytes between the ranks, for one thread of each
messages        what the ranks say to each other (pure)
merged          what waits on all ranks, as one view (pure)
part            a rank's share of a step, and the whole that rank 0 scores and accounts for
composer        the leader's thread: gathers what waits, decides, tells
follower_composer   the followers' threads: tell what waits, and make their share of what was decided
sharded_tables  the tables, sharded by TorchRec
step            one step on all ranks
feed            the leader's end of reading
follower        what a follower does: commands of rank 0, one after the other
build           configuration to running ranks
"""
