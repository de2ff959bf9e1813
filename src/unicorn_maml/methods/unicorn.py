"""UNICORN-MAML: MAML whose slots all start from one meta-learned vector.

Ye & Chao, "How to Train Your MAML to Excel in Few-Shot Classification", ICLR 2022. One vector for
all classes makes the method indifferent to which class gets which slot, and lets it serve any
number of ways. With a linear softmax head the vector itself has no effect: adding v to every class
weight adds the same number to all logits of an image, so neither the inner gradients nor the query
loss depend on it, and its meta-gradient is zero. The method equals MAML with a head reset to zero.
"""

from unicorn_maml.methods.maml import MAML
from unicorn_maml.settings import HeadKind

__all__ = ["UnicornMAML"]


class UnicornMAML(MAML):
    """MAML with a SharedHead."""

    trained_head: HeadKind = "shared"
