"""What deduplication gains in training: the same model on the same batches, as IKJT and as plain KJT rows.

attention   target attention alone, on ragged sessions
streams     mini-batches of rm1-small, rm2 and rm3 at an exact dedup factor, and their models
run         `recd bench trainer`
"""
