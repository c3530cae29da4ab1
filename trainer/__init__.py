"""Trainer: from mini-batches to a trained model. Predict, score, then learn.

config      the frozen configuration of model, optimizers and run
ids         feature ids to table rows, once per distinct row
tensors     mini-batches to the tensors of one step: bags of all features in one lookup, inverses per group
tables      the embedding tables: the only lookup, and its update inside backward
jagged_ops  jagged and padded rows, by fbgemm and in plain torch
attention   self-attention encoder over the rows of a sequence feature
net         the dense side of the DLRM: pooling, towers on unique rows, interaction, over MLP
model       tables, net and optimizer under one flat state
optimizer   the dense optimizer, which a flag on the device can veto
step        predict, score, learn; a non-finite batch changes nothing
guards      how many skipped steps in a row are too many
evaluate    progressive metrics: normalized entropy, AUC, calibration
auc         tie-safe AUC in bounded memory
oracle      the same architecture in plain float64 torch, sample by sample
parity      the proof that deduplication changes nothing
baseline    online logistic regression on the same batches
source      the mini-batch topic as decoded batches
ledger      which mini-batches were trained, in which step
checkpoint  weights, optimizer, metrics and next offsets as one atomic unit
loop        source to step to checkpoint, for ever
build       configuration to a running trainer
"""
