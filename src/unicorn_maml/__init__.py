"""MAML and UNICORN-MAML for few-shot image classification.

Nothing is imported here, so that `unicorn-maml --help` answers at once; import from the rooms:
`unicorn_maml.data`, `models`, `adaptation`, `methods`, `training`, `evaluation`, `studies`.
"""

__version__ = "0.1.0"
