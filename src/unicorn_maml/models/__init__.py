"""Backbones turn images into features, heads turn features into logits.

A backbone is any `nn.Module` that maps images `(B, C, H, W)` to features `(B, D)`. One that also
has `widen(tasks)`, returning T copies of its architecture as one network (see ConvNet4), runs T
tasks at once.
"""
