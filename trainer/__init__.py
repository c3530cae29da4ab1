"""Trainer: from mini-batches to a trained model. Predict, score, then learn.

config      the frozen configuration of model, optimizers and run
transforms  what happens to a feature's ids before its table: the frozen configuration
ids         feature ids to table rows, once per distinct row
dense_input the dense columns of samples and groups, in the schema's order
tensors     mini-batches to the tensors of one step: bags of all features in one lookup, inverses per group
row_uses    where a step uses each row: the occurrences of every distinct row together (pure)
row_update  the update of those rows, in compiled loops (pure)
arena       all tables in one tensor, and their names
tables      the embedding tables: the only lookup, and the update of what it touched
host_tables the tables on a CPU: every distinct row updated in one pass
cache/      tables larger than memory: hot rows over a file
host_threads  compiled loops over parts of their work
window_rows   rows that are windows of shared buffers
window_sums   sums of windows as differences of running sums, and back
jagged_ops  jagged and padded rows, by fbgemm and in plain torch
attention   self-attention encoder over the rows of a sequence feature
attention_plan    which samples ask which history, in blocks of like size (pure)
target_attention  a candidate's attention to the history of its user, keys and values computed once
net         the dense side of the DLRM: pooling, towers on unique rows, interaction, over MLP
model       tables, net and optimizer under one flat state
optimizer   the dense optimizer, which a flag on the device can veto
step        predict, score, learn; a non-finite batch changes nothing
kept        mini-batches of steps that were not finite, for a person
stall       whether labels still come, or learning has to pause (pure)
guards      how many skipped steps in a row are too many
labelling   loss of samples whose labels may turn, and of streams whose negatives were sampled
evaluate    progressive metrics: normalized entropy, AUC, calibration
auc         tie-safe AUC in bounded memory
oracle      the same architecture in plain float64 torch, sample by sample
parity      the proof that deduplication changes nothing
baseline    online logistic regression on the same batches

Several processes, one model:
ranks/      tables sharded by TorchRec, partitions shared out, rank 0 leads

The stream behind the model:
source_config  bounds of what waits in memory
topic          the mini-batch topic at start: where to begin, and what is refused
source         the reader's thread: whole fetched batches, decoded; commits for observers
intake         the sequence rule and the end of an epoch (pure)
buffer         what waits, bounded in bytes and number, a queue a partition
order          which mini-batches a step takes: the ledger's, then a merge (pure)
ready          steps between that thread and the loop
prefetch       the composer's thread: steps as tensors, ahead
feed           the three above under one handle
ledger         which mini-batches each step trained on: lines, positions, lineage (pure)
ledger_file    the ledger on disk: segments, torn tails
lineage        step, positions and account as they move
lease          one writer a directory, with a rising epoch
checkpoint/    weights, optimizer, metrics and next offsets as one atomic unit
migrate/       a checkpoint carried over to other features, tables or tasks
learner        model, step and evaluation with their state
account        what became of every sample; freshness
summary        what a run says of itself
drain          signals as a wish to stop
crash          named places where a test lets the process die
durable        bytes and directories that must be on the disk
ports          the clock, as a protocol
watcher        who looks on, as a protocol
loop           source to step to checkpoint, for ever; the commit order
run_config     the whole configuration of a trainer, and the names of its folders
past           what an earlier trainer left, taken over under a lease
build          configuration to a running trainer
"""
