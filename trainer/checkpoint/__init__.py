"""Checkpoints: everything a trainer needs to go on, in one atomic unit.

config    directory, cadence, how many are kept
manifest  the readable file that makes a directory a checkpoint: its layout and its text
plan      which tensor rows go into which file (pure)
stage     tensors off the device, and apart from what the next step changes
touched   which table rows steps have used since the last copy
store     files to the disk, the manifest last, one rename; prune
load      the newest checkpoint that verifies; refusals in words
prune     what may go by a person's wish: never the newest that verifies
saver     when one is due, at most one in flight
"""
