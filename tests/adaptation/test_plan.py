"""How many tasks run at once."""

import pytest
import torch

from tasks import MLP
from unicorn_maml.adaptation import plan
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.resnet12 import ResNet12


def images(count: int, size: int, channels: int = 3) -> torch.Tensor:
    return torch.empty(1, count, channels, size, size)


def test_a_cpu_takes_small_images_together_and_large_ones_alone():
    assert plan.tasks_at_once(ConvNet4(channels=1, size=28, width=32), images(5, 28, 1)) == 8
    assert plan.tasks_at_once(ConvNet4(), images(5, 84)) == 1
    assert plan.tasks_at_once(ResNet12(), images(25, 84)) == 1


def test_a_foreign_module_runs_one_task_at_a_time():
    assert plan.tasks_at_once(MLP(), images(1, 16)) == 1
    assert plan.lane_width(MLP(), images(1, 16)) == 1


def test_the_estimate_counts_outputs_and_parameters():
    # conv, norm (width maps of s x s), pool, relu (a quarter of that), for s = 16, 8, 4, 2
    width, sides = 4, [16, 8, 4, 2]
    outputs = sum(2 * width * s * s + 2 * width * (s // 2) ** 2 for s in sides)
    network = ConvNet4(channels=1, size=16, width=width)
    parameters = sum(p.numel() for p in network.parameters())
    expected = (10 * outputs * 3 + parameters * 4) * 4
    assert plan.bytes_per_task(network, torch.Size((1, 16, 16)), 10) == expected


@pytest.mark.parametrize(
    ("lanes", "kept", "measured"),
    [
        ([(8, 5, True)], 64, 4.45),  # adaptation
        ([(8, 5, True), (8, 75, False)], 64, 5.13),  # evaluation
        ([(1, 5, True), (1, 75, True)], 0, 2.51),  # meta-training, one task per update
    ],
)
def test_the_plan_covers_what_was_measured_on_an_h200_without_wasting_half(lanes, kept, measured):
    # Peaks in GiB of `bench --backbone resnet12 --method unicorn --shot 1 --inner-steps 5`.
    network = ResNet12()
    size = torch.Size((3, 84, 84))
    planned = sum(
        count * plan.bytes_per_task(network, size, images, precision="bfloat16", backward=backward)
        for count, images, backward in lanes
    )
    planned += kept * sum(4 * value.numel() for value in network.parameters())
    assert measured < planned / 2**30 < 2 * measured


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("network", [ConvNet4, ResNet12])
def test_a_gpu_stays_within_its_memory_limit(network):
    from unicorn_maml.data.batches import TaskBatch
    from unicorn_maml.methods.maml import MAML
    from unicorn_maml.models.heads import ZeroHead
    from unicorn_maml.settings import AdaptationSettings

    backbone = network().cuda()
    limit = 8 * 2**30
    support, query = images(5, 84).cuda(), images(75, 84).cuda()
    tasks = plan.tasks_at_once(backbone, support, more_images=75, memory_limit=limit)
    labels = torch.arange(5, device="cuda")
    batch = TaskBatch(
        support.expand(tasks, -1, -1, -1, -1),
        labels.repeat(tasks, 1),
        query.expand(tasks, -1, -1, -1, -1),
        labels.repeat(tasks, 15),
        5,
    )
    method = MAML(backbone, ZeroHead(backbone.feature_width).cuda(), AdaptationSettings())
    torch.cuda.reset_peak_memory_stats()
    method.train()(batch).logits.sum().backward()
    assert torch.cuda.max_memory_allocated() < limit
