"""Pre-training: augmentation, schedules, selection, resuming, and the start it gives."""

import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from conftest import make_store
from unicorn_maml.errors import DivergedError, UsageError
from unicorn_maml.evaluation.results import evaluate
from unicorn_maml.reporting.progress import progress_bar
from unicorn_maml.settings import EvaluateSettings, PretrainSettings, TrainSettings
from unicorn_maml.training import pretrain as pretraining
from unicorn_maml.training.augmentation import augment, four_rotations
from unicorn_maml.training.checkpoint import export_checkpoint, load_checkpoint
from unicorn_maml.training.classifier import (
    Classifier,
    direction_loss,
    mixed_with_neighbours,
    rotation_loss,
    target_shares,
)
from unicorn_maml.training.meta_train import meta_train
from unicorn_maml.training.optimizer import share_of_rate
from unicorn_maml.training.pretrain import pretrain
from unicorn_maml.training.teacher import Teacher


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("stores") / "for-pretraining", smallest=20)


@pytest.fixture
def settings(store, tmp_path) -> PretrainSettings:
    return PretrainSettings(
        store=str(store.folder),
        out=tmp_path / "run",
        width=8,
        epochs=4,
        batch_size=16,
        lr=0.05,
        crop="padded",
        select_every=2,
        select_tasks=10,
        mixup=0.2,
        rotation=0.5,
        label_smoothing=0.1,
    )


def weights(folder):
    return load_checkpoint(folder).weights


def test_pretraining_learns_the_base_classes_and_is_judged_on_validation_tasks(settings):
    plain = replace(settings, mixup=0.0, rotation=0.0, label_smoothing=0.0, crop="none", epochs=8)
    result = pretrain(replace(plain, flip=False))
    log = [json.loads(line) for line in (settings.out / "log.jsonl").read_text().splitlines()]
    assert log[-1]["accuracy"] > 90 > 50 > log[0]["accuracy"]
    judged = [entry for entry in log if "validation_accuracy" in entry]
    assert [entry["epoch"] for entry in judged] == [2, 4, 6, 8]
    best = max(judged, key=lambda entry: entry["validation_accuracy"])
    assert result.best_epoch == best["epoch"]
    assert result.validation_accuracy > 3 * 100 / 8, "eight ways, well above chance"
    names = load_checkpoint(settings.out).weights
    assert all(name.startswith("backbone.") for name in names), "the classifier is not kept"


@pytest.mark.parametrize("changed", [{}, {"average": 0.8}, {"teacher_features": 2.0}])
def test_a_resumed_pretraining_ends_with_the_same_weights(settings, tmp_path, monkeypatch, changed):
    if "teacher_features" in changed:
        changed = {**changed, "teacher": tmp_path / "teacher"}
        pretrain(replace(settings, out=changed["teacher"], epochs=1))
    settings = replace(settings, **changed)
    pretrain(settings)
    stopped = replace(settings, out=tmp_path / "stopped")
    train_epoch, epochs = pretraining._Trainer._train_epoch, []

    def stop_once_in_the_third(self, epoch, *arguments):
        epochs.append(epoch)
        if epochs == [1, 2, 3]:
            raise KeyboardInterrupt
        return train_epoch(self, epoch, *arguments)

    monkeypatch.setattr(pretraining._Trainer, "_train_epoch", stop_once_in_the_third)
    with pytest.raises(KeyboardInterrupt):
        pretrain(stopped)
    pretrain(replace(stopped, resume=True))
    assert epochs == [1, 2, 3, 3, 4]
    for name, value in weights(settings.out / "last").items():
        assert torch.equal(value, weights(stopped.out / "last")[name]), name


def test_the_kept_weights_are_the_running_average_of_all_updates(settings, monkeypatch):
    seen = []
    update = pretraining._Trainer._update

    def watch(self, rows):
        if not seen:
            seen.append({k: v.double() for k, v in self.averaged.state_dict().items()})
        result = update(self, rows)
        seen.append({k: v.double() for k, v in self.model.backbone.state_dict().items()})
        return result

    monkeypatch.setattr(pretraining._Trainer, "_update", watch)
    pretrain(replace(settings, average=0.7, epochs=1))
    kept = weights(settings.out / "last")
    for name, value in seen[0].items():
        for later in seen[1:]:
            value = 0.7 * value + 0.3 * later[name]
        if name.endswith("num_batches_tracked"):
            value = seen[-1][name]
        torch.testing.assert_close(kept[f"backbone.{name}"].double(), value, rtol=1e-5, atol=1e-6)


def test_pretraining_can_start_from_a_backbone_and_refuses_one_of_another_kind(settings, tmp_path):
    pretrain(settings)
    still = replace(
        settings, init=settings.out, out=tmp_path / "more", epochs=1, lr=1e-30, weight_decay=0.0
    )
    pretrain(still)
    for name, value in weights(still.out).items():
        if name.endswith((".weight", ".bias")):
            torch.testing.assert_close(value, weights(settings.out)[name])
    with pytest.raises(UsageError, match="has width 8, but this run needs 16"):
        pretrain(replace(still, width=16, out=tmp_path / "other"))


def test_a_teacher_may_be_of_another_backbone_but_not_of_another_image_size(settings, tmp_path):
    pretrain(settings)
    alone = replace(settings, width=12, out=tmp_path / "alone", epochs=1)
    student = replace(alone, teacher=settings.out, out=tmp_path / "student")
    pretrain(alone)
    pretrain(student)
    first = "backbone.blocks.0.0.weight"
    assert not torch.equal(weights(alone.out)[first], weights(student.out)[first])
    unheard = replace(student, teacher_weight=0.0, out=tmp_path / "unheard")
    pretrain(unheard)
    assert torch.equal(weights(alone.out)[first], weights(unheard.out)[first])
    larger = make_store(tmp_path / "larger", smallest=20, size=20)
    with pytest.raises(UsageError, match="choose another --teacher"):
        pretrain(replace(student, store=str(larger.folder), out=tmp_path / "other"))


@pytest.mark.parametrize("changed", [{}, {"mixup": 0.0, "rotation": 0.0}])
def test_a_student_learns_to_tell_the_features_of_its_teacher(settings, tmp_path, changed):
    pretrain(settings)
    student = replace(
        settings, width=12, teacher=settings.out, teacher_weight=0.0, out=tmp_path / "student"
    )
    student = replace(student, teacher_features=5.0, epochs=6, **changed)
    losses = []
    measure = pretraining.direction_loss

    def watched(told, truth):
        assert len(told) == len(truth) == settings.batch_size
        loss = measure(told, truth)
        losses.append(float(loss.detach()))
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretraining, "direction_loss", watched)
        pretrain(student)
    assert sum(losses[-10:]) / 10 < losses[0] / 2
    assert all(name.startswith("backbone.") for name in weights(student.out))


def test_teacher_features_are_told_of_upright_images(settings, tmp_path, monkeypatch):
    pretrain(settings)
    turn, measure = pretraining.four_rotations, pretraining.direction_loss

    def blank_when_turned(images):
        views = turn(images)
        views[len(images) :] = 0
        return views

    def watched(told, truth):
        assert not torch.allclose(told, told[:1]), "images that are blank are told alike"
        return measure(told, truth)

    monkeypatch.setattr(pretraining, "four_rotations", blank_when_turned)
    monkeypatch.setattr(pretraining, "direction_loss", watched)
    student = replace(settings, teacher=settings.out, teacher_features=1.0, epochs=1)
    pretrain(replace(student, out=tmp_path / "student"))


def test_teacher_features_are_mixed_as_their_images_are(settings, tmp_path, monkeypatch):
    pretrain(settings)
    seen = []
    mix = pretraining.mixed_with_neighbours

    def watched(values, share, views):
        seen.append((tuple(values.shape[1:]), share, views))
        return mix(values, share, views)

    monkeypatch.setattr(pretraining, "mixed_with_neighbours", watched)
    student = replace(settings, teacher=settings.out, teacher_features=1.0, epochs=1)
    pretrain(replace(student, out=tmp_path / "student"))
    images, targets, directions = seen[:3]
    assert images[1] == targets[1] == directions[1]
    assert (images[2], directions[2]) == (4, 1)
    assert directions[0] == (8,)


def test_teacher_features_need_a_teacher():
    with pytest.raises(UsageError, match="--teacher-features needs a --teacher"):
        PretrainSettings(teacher_features=1.0)


def test_directions_are_judged_by_their_cosine():
    told, truth = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    cosines = [float(a @ b / (a.norm() * b.norm())) for a, b in zip(told, truth, strict=True)]
    assert float(direction_loss(told, truth)) == pytest.approx(1 - sum(cosines) / 4, abs=1e-6)


def test_soft_labels_are_the_softmax_of_cosines_to_the_class_centroids(settings, store):
    pretrain(settings)
    checkpoint = load_checkpoint(settings.out)
    teacher = Teacher(checkpoint, store, "float32", torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(6, store.channels, store.size, store.size, generator=generator)
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    teacher.see(lambda rows: images[rows], labels)
    backbone = checkpoint.method().backbone.double().eval()
    mean, std = (torch.tensor(each).double().view(-1, 1, 1) for each in pixel_moments(checkpoint))
    features = backbone((images.double() - mean) / std).detach()
    lesson = teacher.teach(images)
    for row, shares in zip(features, lesson.soft_labels, strict=True):
        cosines = torch.stack(
            [torch.cosine_similarity(row, features[labels == c].mean(0), dim=0) for c in range(3)]
        )
        expected = (cosines / 0.05).exp() / (cosines / 0.05).exp().sum()
        torch.testing.assert_close(shares.double(), expected, rtol=1e-3, atol=1e-4)
    for row, direction in zip(features, lesson.directions, strict=True):
        seen = row - sum(features) / len(features)
        torch.testing.assert_close(direction.double(), seen / seen.norm(), rtol=1e-3, atol=1e-4)


def pixel_moments(checkpoint):
    return checkpoint.pixel_mean, checkpoint.pixel_std


def test_targets_mix_true_soft_and_even_shares():
    labels = torch.tensor([2, 0])
    logits = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    smoothed = torch.nn.functional.cross_entropy(logits, target_shares(labels, 4, smoothing=0.2))
    torch.testing.assert_close(
        smoothed, torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.2)
    )
    soft = torch.tensor([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    mixed = target_shares(labels, 4, soft_labels=soft, soft_weight=0.25)
    expected = torch.tensor([[0.1, 0.075, 0.8, 0.025], [0.775, 0.05, 0.075, 0.1]])
    torch.testing.assert_close(mixed, expected)


def test_mixup_mixes_an_image_with_the_one_before_it_in_the_same_rotation():
    rows = torch.arange(6.0).view(6, 1)  # two rotations of three images
    mixed = mixed_with_neighbours(rows, 0.75, views=2).flatten()
    assert mixed.tolist() == [0.5, 0.75, 1.75, 3.5, 3.75, 4.75]


def test_small_validation_classes_are_judged_with_fewer_queries(settings, tmp_path):
    store = make_store(tmp_path / "small", smallest=6)
    result = pretrain(replace(settings, store=str(store.folder), epochs=2))
    assert result.validation_accuracy > 0


def test_a_time_budget_ends_the_training_whatever_the_epochs(settings):
    result = pretrain(replace(settings, epochs=10**6, minutes=0.02))
    assert 1 <= result.epochs < 10**4
    assert result.seconds > 1.2


def test_schedules_are_functions_of_the_share_that_is_done():
    drops = [0.5, 0.75]
    assert [share_of_rate("step", done, drops, 0.1) for done in (0, 0.5, 0.8)] == pytest.approx(
        [1, 0.1, 0.01]
    )
    assert share_of_rate("cosine", 0.5, [], 0.1) == pytest.approx(0.5)
    assert share_of_rate("constant", 0.9, drops, 0.1) == 1


def test_meta_training_starts_from_a_pretrained_backbone_and_refuses_another(settings, tmp_path):
    pretrain(settings)
    train = TrainSettings(
        store=settings.store,
        out=tmp_path / "meta",
        init=settings.out,
        match_statistics=False,
        width=8,
        way=3,
        query=3,
        epochs=1,
        tasks_per_epoch=1,
        validation_tasks=1,
        outer_lr=1e-30,
        weight_decay=0.0,
        normalization="frozen",
    )
    meta_train(train)
    start = weights(settings.out)
    for name, value in weights(train.out).items():
        if name.startswith("backbone."):
            torch.testing.assert_close(value, start[name])
    with pytest.raises(UsageError, match="has width 8, but this run needs 16"):
        meta_train(replace(train, width=16, out=tmp_path / "other"))


def test_evaluating_a_pretrained_checkpoint_reports_nearest_centroid(settings):
    pretrain(settings)
    asked = EvaluateSettings(checkpoint=settings.out, tasks=10, query=3)
    result = evaluate(asked)
    assert (result["head"], result["inner_steps"], result["adapt"]) == ("cosine", 0, "nothing")
    assert result["accuracy"] > 40
    assert evaluate(replace(asked, head="euclidean"))["head"] == "euclidean"
    adapted = evaluate(replace(asked, head="zero", inner_steps=2))
    assert adapted["inner_steps"] == 2


def test_a_diverging_rate_is_reported(settings):
    with pytest.raises(DivergedError, match="try a smaller --lr"):
        pretrain(replace(settings, lr=1e25))


def test_a_diverging_loss_is_reported_as_soon_as_it_is_to_be_shown(settings, capsys):
    shown = []

    def show(_done, _total, figures):
        shown.append(figures["loss"])

    with (
        pytest.raises(DivergedError, match="try a smaller --lr"),
        progress_bar("pre-training", Console(stderr=True)) as update,
    ):
        pretrain(
            replace(settings, lr=1e25, batch_size=1),
            lambda *progress: (show(*progress), update(*progress)),
        )
    assert not shown
    assert not (settings.out / "config.json").exists()
    with progress_bar("any", Console(stderr=True)) as update:  # no number is too odd to be shown
        update(1, 2, {"a": float("nan"), "b": float("inf"), "c": 3.0, "d": 0.25})
    assert "a nan  b inf  c 3  d 0.25" in capsys.readouterr().err


def test_a_very_large_seed_serves(settings):
    pretrain(replace(settings, seed=2**61, epochs=1))


@pytest.mark.parametrize("shares", ["70,80", "0.5,nan", "0", "half"])
def test_the_rate_drops_at_shares_of_the_training(shares):
    with pytest.raises(UsageError, match=r"--decay-at takes shares such as 0\.7,0\.9"):
        PretrainSettings(decay_at=shares)


def test_augmentation_keeps_shapes_and_range_and_varies_every_image():
    torch.manual_seed(0)
    images = torch.rand(1, 3, 32, 32).expand(8, -1, -1, -1)
    for crop in ("resized", "padded", "none"):
        varied = augment(images, PretrainSettings(crop=crop))
        assert varied.shape == images.shape
        assert 0 <= varied.min() <= varied.max() <= 1
        assert len({round(float(image.sum()), 3) for image in varied}) == 8


def test_without_crop_and_jitter_an_image_stays_or_is_mirrored():
    torch.manual_seed(0)
    images = torch.rand(32, 1, 16, 16)
    mirrored = augment(images, PretrainSettings(crop="none", jitter=0.0))
    same = [torch.allclose(a, b, atol=1e-5) for a, b in zip(images, mirrored, strict=True)]
    flipped = [
        torch.allclose(a, b.flip(2), atol=1e-5) for a, b in zip(images, mirrored, strict=True)
    ]
    assert all(a != b for a, b in zip(same, flipped, strict=True))
    assert 5 < sum(flipped) < 27
    untouched = augment(images, PretrainSettings(crop="none", jitter=0.0, flip=False))
    assert torch.equal(untouched, images)


def test_a_resized_crop_shows_a_part_of_the_image_enlarged():
    torch.manual_seed(0)
    ramp = torch.linspace(0, 1, 64).expand(256, 1, 64, 64)
    crops = augment(ramp, PretrainSettings(jitter=0.0, flip=False, smallest_crop=0.25))
    spans = crops[:, 0, 32].amax(1) - crops[:, 0, 32].amin(1)
    # area 0.25..1 and aspect 3/4..4/3 make widths from sqrt(0.25 * 3/4) to 1
    assert spans.min() > 0.4
    assert spans.min() < 0.55
    assert spans.max() > 0.95


def test_a_padded_crop_moves_an_image_by_whole_pixels():
    torch.manual_seed(0)
    images = torch.rand(1, 1, 24, 24).expand(64, -1, -1, -1)
    crops = augment(images, PretrainSettings(crop="padded", jitter=0.0, flip=False))
    padded = torch.nn.functional.pad(images[0, 0], [8] * 4)
    windows = padded.unfold(0, 24, 1).unfold(1, 24, 1)  # (17, 17, 24, 24)
    distances = (windows[None] - crops[:, :, None]).abs().amax((3, 4)).flatten(1)
    assert distances.amin(1).max() < 1e-4
    assert len(set(distances.argmin(1).tolist())) > 40


def test_rotations_are_told_from_the_logits_of_the_classes():
    torch.manual_seed(0)
    model = Classifier(torch.nn.Flatten(), 16, classes=3)
    logits, turns, nothing = model(torch.rand(8, 1, 4, 4))
    assert nothing is None
    torch.testing.assert_close(turns, model.turns(logits))
    taught = Classifier(torch.nn.Flatten(), 16, classes=3, teacher_width=5)
    with torch.autocast("cpu", torch.bfloat16):
        coarse = taught(torch.rand(8, 1, 4, 4).bfloat16())
    assert [(each.dtype, each.shape[1]) for each in coarse] == [
        (torch.float32, width) for width in (3, 4, 5)
    ]
    chances = turns.sigmoid()
    told = [
        -(chances[row, turn].log() if turn == row // 2 else (1 - chances[row, turn]).log())
        for row in range(8)
        for turn in range(4)
    ]
    torch.testing.assert_close(rotation_loss(turns), torch.stack(told).mean())


def test_four_rotations_are_quarter_turns_one_after_the_other():
    images = torch.rand(2, 1, 4, 4)
    turned = four_rotations(images)
    assert turned.shape == (8, 1, 4, 4)
    assert torch.equal(turned[:2], images)
    assert torch.equal(turned[4:6], images.flip((2, 3)))
    assert torch.equal(turned[2:4].rot90(3, (2, 3)), images)


def test_an_exported_checkpoint_is_small_and_names_no_folder(settings, tmp_path):
    pretrain(settings)
    out = tmp_path / "small"
    export_checkpoint(settings.out, out)
    assert str(tmp_path) not in (out / "checkpoint.json").read_text()
    original, copy = weights(settings.out), weights(out)
    assert original.keys() == copy.keys()
    for name, value in original.items():
        torch.testing.assert_close(copy[name], value, rtol=0, atol=float(value.abs().max()) / 250)
    with pytest.raises(UsageError, match="exists already"):
        export_checkpoint(settings.out, out)
