"""What methods and backbones are called in tables and figures."""

__all__ = ["BACKBONE_NAMES", "METHOD_NAMES"]

METHOD_NAMES = {"maml": "MAML", "unicorn": "UNICORN-MAML", "pretrained": "nearest centroid"}
BACKBONE_NAMES = {"convnet4": "ConvNet-4", "resnet12": "ResNet-12"}
