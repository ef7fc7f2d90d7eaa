"""The protocols of the papers: one for each paper and data set.

They come from the papers. What a paper does not state comes from the authors' public code.
"""

from dataclasses import replace

from calibkit_companion.experiments.protocol import Protocol

# ConfidNet, public code: its head learns for up to 500 epochs.
CONFIDNET_EPOCHS = 500

# fmfp, section 4 and supplement: CIFAR, 200 epochs, steps after 80, 130, 170; averaging from 120.
FMFP_CIFAR = Protocol(
    epochs=200,
    milestones=(80, 130, 170),
    swa_start=120,
    validation=5000,
    split_seed=42,
    snapshots=(20, 80, 140),
    evaluate_every=5,
)
# fmfp, supplement: Tiny-ImageNet, 90 epochs, steps after 40 and 70; averaging from 50.
FMFP_TINY = Protocol(
    epochs=90, milestones=(40, 70), swa_start=50, snapshots=(9, 36, 63), evaluate_every=3
)
# fmfp uses ImageNet but does not describe the training. The usual protocol is our choice.
FMFP_IMAGENET = Protocol(
    epochs=90,
    batch_size=256,
    weight_decay=1e-4,
    milestones=(30, 60),
    swa_start=50,
    validation=10_000,
    snapshots=(9, 30, 60),
    evaluate_every=5,
)
# darkside, supplement A.3: CIFAR, 300 epochs, steps after 150 and 225 (divided by 5 for
# cross-entropy, entropy regularisation and mixup, by 10 for label smoothing and focal loss).
DARKSIDE_CIFAR = Protocol(
    epochs=300,
    milestones=(150, 225),
    decay=0.2,
    swa_start=180,
    snapshots=(30, 150, 225),
    evaluate_every=5,
)
DARKSIDE_DECAY = (("label_smoothing", (("decay", 0.1),)), ("focal", (("decay", 0.1),)))
# darkside, supplement A.3: ImageNet, 100 epochs, divided by 10 after 30, 60, 90; temperature 1.1.
# The paper does not state batch size and weight decay; these are the usual ones.
DARKSIDE_IMAGENET = replace(
    FMFP_IMAGENET,
    epochs=100,
    milestones=(30, 60, 90),
    swa_start=60,
    snapshots=(10, 30, 60),
    shifted=10_000,
    temperature=1.1,
)
# darkside, supplement A.2: the public code of ConfidNet, whose networks for CIFAR-10 start from
# ImageNet weights and those for CIFAR-100 do not.
CONFIDNET_CIFAR10 = Protocol(
    epochs=250,
    learning_rate=0.001,
    validation=5000,
    split_seed=42,
    swa_start=150,
    snapshots=(25, 100, 175),
    evaluate_every=5,
    feature_scores=CONFIDNET_EPOCHS,
)
CONFIDNET_CIFAR100 = replace(
    CONFIDNET_CIFAR10,
    epochs=170,
    learning_rate=0.1,
    weight_decay=1e-4,
    milestones=(90, 135),
    swa_start=100,
    snapshots=(17, 68, 119),
)
# overconf, public code: 200 epochs of batches of 512, steps after 100 and 150.
OVERCONF_CIFAR = Protocol(
    epochs=200,
    batch_size=512,
    weight_decay=1e-4,
    milestones=(100, 150),
    swa_start=120,
    validation=5000,
    split_seed=101,
    snapshots=(20, 100, 150),
    evaluate_every=5,
)
# overconf, 20 Newsgroups: the protocol is in an appendix that we do not have, and in no public
# code. According to the text on figure 4 the learning rate drops first after epoch 50. Everything
# else is as for images, except for smaller batches, because there are few samples.
OVERCONF_TEXTS = replace(
    OVERCONF_CIFAR,
    epochs=100,
    batch_size=64,
    milestones=(50, 75),
    swa_start=60,
    snapshots=(10, 50, 75),
    augment=False,
    validation=1000,
)
# mixup, public code, and bsce, section 5: 350 epochs, steps after 150 and 250.
_LONG_CIFAR = Protocol(
    epochs=350,
    milestones=(150, 250),
    swa_start=210,
    validation=5000,
    snapshots=(50, 150, 250),
    evaluate_every=5,
)
MIXUP_CIFAR = replace(_LONG_CIFAR, weight_decay=1e-4, split_seed=101)
# bsce's public code sums the loss over the batch and clips the gradient to norm 2, which the paper
# does not say.
BSCE_CIFAR = replace(_LONG_CIFAR, reduction="sum", clip_norm=2.0, split_seed=1)
BSCE_TINY = replace(
    BSCE_CIFAR,
    epochs=100,
    milestones=(40, 60),
    swa_start=60,
    snapshots=(14, 43, 71),
    validation="test",
)
# bsce, section 16: a ViT is fine-tuned for 50 epochs; the learning rate is that of the guide that
# the paper follows.
BSCE_VIT = replace(
    BSCE_CIFAR,
    epochs=50,
    milestones=(),
    learning_rate=5e-5,
    weight_decay=0.0,
    swa_start=30,
    snapshots=(7, 21, 36),
    optimizer="adam",
)
# bsce, section 17: a ResNet-50 is fine-tuned on ImageNet for 90 epochs, with Adam and a cosine. The
# paper does not state the learning rate.
BSCE_IMAGENET = replace(
    BSCE_CIFAR,
    epochs=90,
    milestones=(),
    learning_rate=1e-4,
    weight_decay=0.0,
    validation=10_000,
    split_seed=None,
    swa_start=54,
    snapshots=(13, 39, 64),
    optimizer="adam",
    schedule="cosine",
)
# bsce, section 4.3: five epochs on five Gaussians; the paper says nothing else.
BSCE_TOY = Protocol(epochs=5, swa_start=3, swa_anneal=1, augment=False, tracked=1000)
