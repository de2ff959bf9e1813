"""Which inner loop a classifier takes where its user leaves that open."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from photos import photos
from unicorn_maml import FewShotClassifier
from unicorn_maml.classifier import inner_loop
from unicorn_maml.settings import PhotoSettings, TrainSettings
from unicorn_maml.training.meta_train import meta_train


def meta_trained(store, folder, **options):
    settings = TrainSettings(
        store=str(store.folder),
        out=folder,
        device="cpu",
        **{
            "width": 8,
            "way": 4,
            "query": 3,
            "inner_steps": 3,
            "inner_lr": 0.07,
            "epochs": 1,
            "tasks_per_epoch": 2,
            "validation_tasks": 2,
            **options,
        },
    )
    meta_train(settings)
    return str(folder)


@pytest.mark.parametrize(
    ("method", "policy", "taken"),
    [("unicorn", "mixed", "mixed"), ("maml", "support", "support"), ("maml", "batch", "support")],
)
def test_a_meta_trained_model_adapts_as_it_was_trained_to(
    small_store, tmp_path, method, policy, taken
):
    model = meta_trained(small_store, tmp_path / "run", method=method, normalization=policy)
    made = FewShotClassifier(model, device="cpu").fit(*photos(2))  # three ways, trained with four
    assert (made.adapt_, made.inner_steps_, made.inner_lr_) == ("all", 3, 0.07)
    assert made.normalization_ == taken
    assert made.predict_proba(photos(1)[0]).shape == (3, 3)


def test_the_order_of_the_labels_does_not_matter_even_to_a_head_with_slots(small_store, tmp_path):
    model = meta_trained(small_store, tmp_path / "run", method="maml", way=3)
    images, labels = photos(1)
    made = FewShotClassifier(model, device="cpu").fit(images, labels)
    renamed = {"red": "a", "green": "b", "blue": "c"}  # the other way round
    again = FewShotClassifier(model, device="cpu").fit(images, [renamed[name] for name in labels])
    order = [again.classes_.tolist().index(renamed[name]) for name in made.classes_]
    queries = photos(3)[0]
    found, wanted = again.predict_proba(queries)[:, order], made.predict_proba(queries)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_auto_says_so_where_all_parameters_would_take_too_long(small_store, tmp_path, monkeypatch):
    model = meta_trained(small_store, tmp_path / "run")
    monkeypatch.setattr(inner_loop, "_estimate_seconds", lambda *_: 21.0)
    with pytest.warns(UserWarning, match="about 21 s"):
        made = FewShotClassifier(model, device="cpu").fit(*photos(1))
    assert (made.adapt_, made.inner_steps_, made.normalization_) == ("head", 100, "frozen")
    made = FewShotClassifier(model, adapt="all", device="cpu").fit(*photos(1))
    assert made.adapt_ == "all"


@pytest.mark.parametrize(("photos_per_class", "steps"), [(1, 100), (10, 100), (15, 150), (30, 200)])
def test_without_meta_training_more_photos_bear_more_steps(photos_per_class, steps):
    model = inner_loop.PhotoModel(None, {}, None, None, (), (), None)
    features = torch.ones(3 * photos_per_class, 5)
    taken = inner_loop.inner_loop_of(PhotoSettings(), "head", model, features, way=3)
    assert (taken.inner_steps, taken.inner_lr) == (steps, 3 / 6)


def test_what_the_user_gives_wins(small_store, tmp_path):
    model = meta_trained(small_store, tmp_path / "run")
    asked = {"inner_steps": 1, "inner_lr": 0.5, "normalization": "frozen"}
    made = FewShotClassifier(model, device="cpu", **asked).fit(*photos(1))
    assert (made.inner_steps_, made.inner_lr_, made.normalization_) == (1, 0.5, "frozen")


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, unicorn_maml, unicorn_maml.cli.main; "
    code += "print([name for name in ('torch', 'sklearn', 'PIL') if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert printed.stdout.decode().strip() == "[]"
