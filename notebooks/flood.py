import torch.nn.functional as F


def flooded(logits, targets, floor=0.1):
    loss = F.cross_entropy(logits, targets, reduction="none")
    return (loss - floor).abs() + floor
