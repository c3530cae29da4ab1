"""Jagged rows and InverseKeyedJaggedTensors: every distinct row once, and which one each sample uses.

jagged     rows of different lengths as values and offsets
ikjt       the type of one feature group, and its reference implementation
dedup      finds equal rows, exactly, in one pass
partial    measures rows that are windows of one buffer
kernels    the compiled loops
torchrec   to and from KeyedJaggedTensor; the only module that knows torch, imported late
"""
