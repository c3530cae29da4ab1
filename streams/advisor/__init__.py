"""The advisor: what deduplication gains on a stream, measured on a sample of it, and which features to group.

gather      mini-batches of one feature a group to a sample: start here
sample      the columns of a sample
neighbours  a sample beside the one before it in its session: S, d, the rate
hold        the batches that a hold time gives, and the model of their sessions
measure     values and bytes that are left in those batches, by the real engine
grouping    which features change together
towers      what is left of the gain where groups are mixed
advice      what is found, as plain figures
advise      sample in, advice out
verdict     the advice in one sentence
"""

from streams.advisor.advice import Advice
from streams.advisor.advise import advise
from streams.advisor.gather import Gatherer

__all__ = ["Advice", "Gatherer", "advise"]
