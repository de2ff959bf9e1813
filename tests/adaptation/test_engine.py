"""The inner loop against plain loops written here with ordinary modules and optimisers."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks import MLP, SIZE, random_tasks
from unicorn_maml.adaptation import pooled_block
from unicorn_maml.adaptation.engine import adapt
from unicorn_maml.data.batches import TaskBatch
from unicorn_maml.errors import DivergedError, UsageError
from unicorn_maml.methods.maml import MAML
from unicorn_maml.methods.scoring import predict
from unicorn_maml.models.convnet4 import ConvNet4
from unicorn_maml.models.dropblock import DropBlock
from unicorn_maml.models.heads import AverageHead, Head, PerSlotHead, SharedHead, ZeroHead
from unicorn_maml.models.resnet12 import ResNet12
from unicorn_maml.settings import AdaptationSettings

POLICIES = ["batch", "support", "mixed", "frozen"]
TEMPERATURE = 0.5


@pytest.fixture(params=["pooled blocks", "layers"])
def _both_ways(request, monkeypatch):
    if request.param == "pooled blocks":  # however few their outputs
        monkeypatch.setattr(pooled_block, "_FEWEST", 0)


both_ways = pytest.mark.usefixtures("_both_ways")


def convnet(seed: int = 0) -> ConvNet4:
    torch.manual_seed(seed)
    return with_running_averages(ConvNet4(channels=2, size=SIZE, width=4).double())


def mlp(seed: int = 0) -> MLP:
    torch.manual_seed(seed)
    return MLP().double()


def with_running_averages(backbone: nn.Module) -> nn.Module:
    """Running averages that differ from their first values, as after training."""
    for module in backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return backbone


def make(backbone: nn.Module, way: int = 3, **settings) -> MAML:
    torch.manual_seed(1)
    head = PerSlotHead(backbone.feature_width, way).double()
    chosen = {"inner_steps": 3, "inner_lr": 0.2, "normalization": "batch", **settings}
    return MAML(backbone, head, AdaptationSettings(**chosen))


def query_loss(method: MAML, tasks: TaskBatch) -> Tensor:
    logits = method(tasks).logits
    return F.cross_entropy(logits.flatten(0, 1) / TEMPERATURE, tasks.query_labels.flatten())


def meta_gradients(method: MAML, tasks: TaskBatch) -> dict[str, Tensor]:
    method.zero_grad()
    query_loss(method, tasks).backward()
    return {name: value.grad.clone() for name, value in method.named_parameters()}


class NaiveTask:
    """One task adapted by torch.optim.SGD on a copy of an ordinary network."""

    def __init__(self, method: MAML, tasks: TaskBatch, number: int):
        settings = method.adaptation
        self.backbone = copy.deepcopy(method.backbone)
        self.head = nn.Linear(method.head.weight.shape[1], len(method.head.bias)).double()
        self.head.load_state_dict(method.head.state_dict())
        self.support, self.labels = tasks.support_images[number], tasks.support_labels[number]
        self.query, self.query_labels = tasks.query_images[number], tasks.query_labels[number]
        self.set_norms_training(settings.normalization != "frozen")
        parameters = [*self.backbone.parameters(), *self.head.parameters()]
        sgd = torch.optim.SGD(parameters, lr=settings.inner_lr)
        for _ in range(settings.inner_steps):
            sgd.zero_grad()
            F.cross_entropy(self.logits(self.support), self.labels).backward()
            sgd.step()
        sgd.zero_grad()

    def set_norms_training(self, training: bool) -> None:
        for module in self.backbone.modules():
            module.train(training and isinstance(module, nn.BatchNorm2d))

    def logits(self, images: Tensor) -> Tensor:
        return self.head(self.backbone(images))

    def use_support_moments(self) -> None:
        """Make the support set's moments, layer by layer, the running averages."""

        def remember(module: nn.BatchNorm2d, inputs: tuple[Tensor]) -> None:
            moments = inputs[0].mean((0, 2, 3)), inputs[0].var((0, 2, 3), correction=0)
            module.moments = moments

        norms = [m for m in self.backbone.modules() if isinstance(m, nn.BatchNorm2d)]
        handles = [norm.register_forward_pre_hook(remember) for norm in norms]
        self.set_norms_training(True)
        self.logits(self.support)
        for norm, handle in zip(norms, handles, strict=True):
            handle.remove()
            norm.running_mean.copy_(norm.moments[0])
            norm.running_var.copy_(norm.moments[1])


@both_ways
@pytest.mark.parametrize("policy", POLICIES)
def test_evaluation_equals_a_plain_loop_over_tasks(policy):
    tasks = random_tasks()
    method = make(convnet(), normalization=policy).eval()
    with torch.no_grad():
        logits = method(tasks).logits
    for number in range(len(tasks)):
        naive = NaiveTask(method, tasks, number)
        with torch.no_grad():
            if policy == "support":
                naive.use_support_moments()
            naive.set_norms_training(policy == "batch")
            torch.testing.assert_close(logits[number], naive.logits(naive.query))


@both_ways
@pytest.mark.parametrize("backbone", [convnet, mlp])
def test_first_order_meta_gradients_equal_those_of_a_naive_loop(backbone):
    tasks = random_tasks(1)
    method = make(backbone()).train()
    ours = meta_gradients(method, tasks)
    naive = NaiveTask(method, tasks, 0)
    F.cross_entropy(naive.logits(naive.query) / TEMPERATURE, naive.query_labels).backward()
    for name, value in naive.backbone.named_parameters():
        torch.testing.assert_close(ours[f"backbone.{name}"], value.grad)
    torch.testing.assert_close(ours["head.weight"], naive.head.weight.grad)
    torch.testing.assert_close(ours["head.bias"], naive.head.bias.grad)


@both_ways
@pytest.mark.parametrize(
    ("backbone", "policy"),
    [*((convnet, policy) for policy in POLICIES), (mlp, "batch")],
)
@pytest.mark.parametrize("adapt_what", ["all", "head"])
def test_second_order_meta_gradients_equal_finite_differences(backbone, policy, adapt_what):
    tasks = random_tasks(1)
    method = make(backbone(), order=2, normalization=policy, adapt=adapt_what).train()
    gradients = meta_gradients(method, tasks)
    random = torch.Generator().manual_seed(3)
    direction = {
        name: torch.randn(value.shape, generator=random, dtype=torch.float64)
        for name, value in method.named_parameters()
    }
    expected = sum((gradients[name] * direction[name]).sum() for name in direction)
    step = 1e-6

    def loss_at(distance: float) -> Tensor:
        moved = copy.deepcopy(method)
        with torch.no_grad():
            for name, value in moved.named_parameters():
                value += distance * direction[name]
        return query_loss(moved, tasks).detach()

    difference = (loss_at(step) - loss_at(-step)) / (2 * step)
    torch.testing.assert_close(difference, expected, rtol=1e-6, atol=1e-8)


def test_first_and_second_order_differ():
    tasks = random_tasks(1)
    first = meta_gradients(make(convnet(), order=1).train(), tasks)["backbone.blocks.0.0.weight"]
    second = meta_gradients(make(convnet(), order=2).train(), tasks)["backbone.blocks.0.0.weight"]
    assert (first - second).norm() > 1e-3 * first.norm()


def heads(width: int, way: int) -> list[Head]:
    torch.manual_seed(2)
    made = [PerSlotHead(width, way), SharedHead(width), ZeroHead(width), AverageHead(width, way)]
    return [head.double() for head in made]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", range(4), ids=["per-slot", "shared", "zero", "average"])
@pytest.mark.parametrize("network", [ConvNet4, ResNet12])
def test_a_batch_of_tasks_gives_the_results_of_single_tasks(network, kind, training, policy):
    tasks = random_tasks(2, shot=1, query=1)
    torch.manual_seed(0)
    small = {"width": 4} if network is ConvNet4 else {}
    backbone = with_running_averages(network(channels=2, size=SIZE, **small).double())
    settings = AdaptationSettings(inner_steps=2, inner_lr=0.05, normalization=policy)
    head = heads(backbone.feature_width, tasks.way)[kind]
    method = MAML(backbone, head, settings).train(training)
    with torch.set_grad_enabled(training):
        together = method(tasks)
        alone = [method(tasks[i : i + 1]) for i in range(len(tasks))]
    torch.testing.assert_close(together.logits, torch.cat([one.logits for one in alone]))
    for name, value in together.statistics.items():
        torch.testing.assert_close(value, torch.cat([one.statistics[name] for one in alone]))


@both_ways
@pytest.mark.parametrize("order", [1, 2])
def test_the_meta_gradient_of_a_batch_is_the_mean_of_its_tasks(order):
    tasks = random_tasks(3)
    method = make(convnet(), order=order).train()
    together = meta_gradients(method, tasks)
    alone = [meta_gradients(method, tasks[i : i + 1]) for i in range(3)]
    for name, value in together.items():
        torch.testing.assert_close(value, sum(one[name] for one in alone) / 3)


def test_mixed_moves_the_running_averages_with_momentum_through_the_support_passes():
    tasks = random_tasks(2)
    method = make(convnet(), normalization="mixed", inner_steps=4).eval()
    before = {name: value.clone() for name, value in method.backbone.named_buffers()}
    batches = []  # the first layer's support activations before each step, from the naive loop
    for number in range(2):
        naive = NaiveTask(make(convnet(), inner_steps=0, normalization="mixed"), tasks, number)
        sgd = torch.optim.SGD([*naive.backbone.parameters(), *naive.head.parameters()], lr=0.2)
        mean = before["blocks.0.1.running_mean"].clone()
        variance = before["blocks.0.1.running_var"].clone()
        for _ in range(4):
            values = naive.backbone.blocks[0][0](naive.support).detach()
            mean = 0.9 * mean + 0.1 * values.mean((0, 2, 3))
            variance = 0.9 * variance + 0.1 * values.var((0, 2, 3), correction=1)
            sgd.zero_grad()
            F.cross_entropy(naive.logits(naive.support), naive.labels).backward()
            sgd.step()
        batches.append((mean, variance))
    with torch.no_grad():
        left = method(tasks).statistics
    torch.testing.assert_close(left["blocks.0.1.running_mean"], torch.cat([b[0] for b in batches]))
    torch.testing.assert_close(left["blocks.0.1.running_var"], torch.cat([b[1] for b in batches]))
    for name, value in method.backbone.named_buffers():
        assert torch.equal(value, before[name]), "the averages of a task must not outlive it"


def test_mixed_normalises_queries_by_the_batch_in_meta_training_only():
    tasks = random_tasks()
    mixed = make(convnet(), normalization="mixed")
    batch = make(convnet(), normalization="batch")
    assert torch.equal(mixed.train()(tasks).logits, batch.train()(tasks).logits)
    with torch.no_grad():
        assert not torch.allclose(mixed.eval()(tasks).logits, batch.eval()(tasks).logits)


def test_under_batch_a_query_depends_on_the_other_queries_and_under_the_others_it_does_not():
    tasks = random_tasks(1)
    fewer = TaskBatch(
        tasks.support_images,
        tasks.support_labels,
        tasks.query_images[:, :3],
        tasks.query_labels[:, :3],
        tasks.way,
    )
    for policy in POLICIES:
        method = make(convnet(), normalization=policy).eval()
        with torch.no_grad():
            same = torch.allclose(method(tasks).logits[:, :3], method(fewer).logits)
        assert same == (policy != "batch")


def test_adapting_the_head_alone_is_gradient_descent_on_fixed_features():
    tasks = random_tasks(2)
    method = make(convnet(), adapt="head", normalization="frozen", inner_steps=4).eval()
    with torch.no_grad():
        logits = method(tasks).logits
        backbone = copy.deepcopy(method.backbone).eval()
        for number in range(2):
            features = backbone(tasks.support_images[number])
            onehot = F.one_hot(tasks.support_labels[number]).double()
            weight, bias = method.head.weight.clone(), method.head.bias.clone()
            for _ in range(4):
                error = (features @ weight.T + bias).softmax(1) - onehot
                weight = weight - 0.2 * error.T @ features / len(features)
                bias = bias - 0.2 * error.mean(0)
            expected = backbone(tasks.query_images[number]) @ weight.T + bias
            torch.testing.assert_close(logits[number], expected)


@pytest.mark.parametrize("order", [1, 2])
def test_with_the_head_alone_adapting_the_backbone_still_gets_a_meta_gradient(order):
    tasks = random_tasks(1)
    method = make(convnet(), adapt="head", order=order, normalization="frozen").train()
    ours = meta_gradients(method, tasks)
    naive = copy.deepcopy(method)
    naive.backbone.eval()
    start = [value.detach() for value in naive.head.parameters()]
    weight, bias = (value.clone().requires_grad_() for value in start)
    support = naive.backbone(tasks.support_images[0])
    fixed = support if order == 2 else support.detach()
    current = (weight, bias)
    for _ in range(3):
        loss = F.cross_entropy(fixed @ current[0].T + current[1], tasks.support_labels[0])
        gradients = torch.autograd.grad(loss, current, create_graph=order == 2)
        current = tuple(v - 0.2 * g for v, g in zip(current, gradients, strict=True))
    query = naive.backbone(tasks.query_images[0]) @ current[0].T + current[1]
    naive.zero_grad()
    F.cross_entropy(query / TEMPERATURE, tasks.query_labels[0]).backward()
    for name, value in naive.backbone.named_parameters():
        torch.testing.assert_close(ours[f"backbone.{name}"], value.grad)
    torch.testing.assert_close(ours["head.weight"], weight.grad)


def adapted_with(method: MAML, head: tuple[Tensor, Tensor], tasks: TaskBatch) -> list[Tensor]:
    with torch.no_grad():
        adapted = adapt(
            method.backbone,
            head,
            tasks.support_images,
            tasks.support_labels,
            method.adaptation,
        )
    return [*adapted.values.values(), *adapted.statistics.values(), adapted.support_losses]


@both_ways
@pytest.mark.parametrize("policy", POLICIES)
def test_leaving_out_the_backbone_in_the_first_step_of_equal_slots_changes_nothing(policy):
    tasks, method = random_tasks(2), make(convnet(), normalization=policy)
    shared = SharedHead(method.backbone.feature_width).double()(3)
    copied = (shared[0].clone(), shared[1].clone())  # equal slots, but not known to be
    pairs = zip(
        adapted_with(method, shared, tasks), adapted_with(method, copied, tasks), strict=True
    )
    for skipped, whole in pairs:
        torch.testing.assert_close(skipped, whole, rtol=1e-9, atol=1e-12)


def test_the_backbone_has_one_backward_pass_less_where_slots_start_alike():
    tasks, passes = random_tasks(1), []

    class Watched(MLP):
        def forward(self, images: Tensor) -> Tensor:
            features = super().forward(images)
            if features.requires_grad:
                features.register_hook(lambda _: passes.append(1))
            return features

    method = make(Watched().double(), inner_steps=4)
    adapted_with(method, method.head(3), tasks)
    assert len(passes) == 4
    passes.clear()
    adapted_with(method, SharedHead(method.backbone.feature_width).double()(3), tasks)
    assert len(passes) == 3


def test_drop_layers_act_during_adaptation_only_when_told_to():
    torch.manual_seed(0)
    backbone = with_running_averages(ResNet12(channels=2, size=SIZE).double())
    for module in backbone.modules():
        if isinstance(module, DropBlock):
            module.calls.fill_(40_000)
    tasks = random_tasks(1)
    for drop in (False, True):
        method = make(backbone, drop=drop, normalization="frozen").eval()
        first, second = (predict(method, tasks) for _ in range(2))
        assert torch.equal(first, second) is not drop
    assert {int(m.calls) for m in backbone.modules() if isinstance(m, DropBlock)} == {40_000}


def test_at_meta_test_drop_layers_rest_in_the_query_pass():
    torch.manual_seed(0)
    method = make(with_running_averages(ResNet12(channels=2, size=SIZE).double()), drop=True)
    tasks = random_tasks(1)
    with torch.no_grad():
        adapted = adapt(
            method.backbone,
            method.head(3),
            tasks.support_images,
            tasks.support_labels,
            method.adaptation,
        )
        first, second = (adapted.logits(tasks.query_images) for _ in range(2))
        assert torch.equal(first, second)
        third = adapted.logits(tasks.query_images, meta_training=True)
        fourth = adapted.logits(tasks.query_images, meta_training=True)
        assert not torch.equal(third, fourth)


def test_looking_at_a_step_changes_nothing():
    tasks = random_tasks(2)
    for policy in POLICIES:
        method = make(convnet(), normalization=policy)
        results, modes = [], []

        def look(_step, state, modes=modes):
            modes.append(torch.is_grad_enabled())
            state.logits(tasks.query_images)

        for on_step in (None, look):
            with torch.no_grad():
                adapted = adapt(
                    method.backbone,
                    method.head(3),
                    tasks.support_images,
                    tasks.support_labels,
                    method.adaptation,
                    on_step=on_step,
                )
            results.append([*adapted.values.values(), *adapted.statistics.values()])
        assert modes == [False] * 4
        for first, second in zip(*results, strict=True):
            assert torch.equal(first, second)


def test_every_step_is_seen_from_zero_to_the_last():
    tasks = random_tasks(2)
    method = make(convnet(), inner_steps=3)
    seen = {}
    with torch.no_grad():
        adapted = adapt(
            method.backbone,
            method.head(3),
            tasks.support_images,
            tasks.support_labels,
            method.adaptation,
            on_step=lambda step, state: seen.update({step: state.logits(tasks.query_images)}),
        )
        assert list(seen) == [0, 1, 2, 3]
        for steps, logits in seen.items():
            fewer = make(convnet(), inner_steps=steps).eval()
            torch.testing.assert_close(logits, fewer(tasks).logits)
    assert adapted.support_losses.shape == (3, 2)
    assert (adapted.support_losses[0] > adapted.support_losses[-1]).all()


def test_adaptation_leaves_the_backbone_as_it_was():
    method = make(convnet())
    before = {name: value.clone() for name, value in method.state_dict().items()}
    method.eval()(random_tasks())
    for name, value in method.state_dict().items():
        assert torch.equal(value, before[name])
    assert sum(isinstance(m, nn.BatchNorm2d) for m in method.backbone.modules()) == 4


class Awkward(nn.Module):
    """Shared weights; an unused, a frozen and a scalar parameter; batch norm over (B, C)."""

    feature_width = 6

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2 * SIZE * SIZE, 6)
        self.norm = nn.BatchNorm1d(6)
        self.again = nn.Linear(6, 6)
        self.tied = nn.Linear(6, 6)
        self.tied.weight = self.again.weight
        self.unused = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.full((6,), 0.5), requires_grad=False)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, images: Tensor) -> Tensor:
        values = torch.tanh(self.norm(self.first(images.flatten(1))))
        return self.scale * self.tied(torch.tanh(self.again(values))) * self.frozen


def test_an_awkward_module_is_adapted_like_by_an_ordinary_optimiser():
    torch.manual_seed(0)
    tasks = random_tasks(1)
    method = make(Awkward().double(), normalization="batch").train()
    query_loss(method, tasks).backward()
    naive = copy.deepcopy(method)
    for value in naive.parameters():
        value.grad = None
    sgd = torch.optim.SGD([p for p in naive.parameters() if p.requires_grad], lr=0.2)
    for _ in range(3):
        sgd.zero_grad()
        features = naive.backbone(tasks.support_images[0])
        logits = features @ naive.head.weight.T + naive.head.bias
        F.cross_entropy(logits, tasks.support_labels[0]).backward()
        sgd.step()
    sgd.zero_grad()
    features = naive.backbone(tasks.query_images[0])
    logits = features @ naive.head.weight.T + naive.head.bias
    F.cross_entropy(logits / TEMPERATURE, tasks.query_labels[0]).backward()
    assert method.backbone.unused.grad is None or not method.backbone.unused.grad.any()
    assert method.backbone.frozen.grad is None
    for name in ("first.weight", "again.weight", "tied.bias", "scale", "norm.weight"):
        ours = method.backbone.get_parameter(name).grad
        torch.testing.assert_close(ours, naive.backbone.get_parameter(name).grad)


def test_a_batch_norm_layer_without_running_averages_is_refused_with_a_sentence():
    class NoAverages(nn.Module):
        feature_width = 2

        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(2, track_running_stats=False)

        def forward(self, images: Tensor) -> Tensor:
            return self.norm(images).mean((2, 3))

    with pytest.raises(UsageError, match="track_running_stats=True"):
        make(NoAverages().double()).eval()(random_tasks(1))


def test_a_diverging_rate_is_reported_with_its_step_and_a_smaller_rate():
    method = make(mlp(), inner_lr=1e200, inner_steps=5).eval()
    with pytest.raises(DivergedError, match=r"after [1-5] inner steps.*such as 1e\+199"):
        predict(method, random_tasks(1))


def test_weights_that_are_not_finite_are_not_blamed_on_the_inner_rate():
    method = make(mlp()).eval()
    with torch.no_grad():
        method.backbone.hidden.weight.fill_(float("nan"))
    with pytest.raises(DivergedError, match=r"before the first inner step.*--outer-lr"):
        predict(method, random_tasks(1))


def test_bfloat16_stays_near_float32():
    tasks = random_tasks(2)
    tasks = TaskBatch(
        tasks.support_images.float(),
        tasks.support_labels,
        tasks.query_images.float(),
        tasks.query_labels,
        tasks.way,
    )
    backbone = convnet().float()
    results = {}
    for precision in ("float32", "bfloat16"):
        # Frozen, because normalising six random values by their own moments amplifies rounding.
        method = make(backbone, precision=precision, normalization="frozen").float().eval()
        results[precision] = method(tasks).logits
    assert results["bfloat16"].dtype == torch.float32
    difference = (results["bfloat16"] - results["float32"]).norm() / results["float32"].norm()
    assert 0 < difference < 0.01
