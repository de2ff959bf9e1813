"""Glyphs: an embedded data set of drawn characters for few-shot classification.

A class is a random stroke program: two to four strokes (lines, arcs or corners), often attached
to an earlier stroke. An image is one drawing of that program by an unsteady hand: its points
wobble, and the whole is rotated, scaled, sheared, shifted and drawn with a thicker or thinner
pen. Base, validation and novel classes are different programs.

The images are bit-identical on every machine and numpy version, so that results can be compared
without a download. Two rules give this: random numbers come only from the raw 64-bit output of
the counter-based Philox generator (Generator methods may change between versions), and floats
see only operations that IEEE 754 rounds in one way (+ - * / sqrt, minimum, maximum, comparison).
No sine, exponential or sum reduction is used, since these depend on the library and the CPU.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from unicorn_maml.errors import UsageError

__all__ = ["CLASSES_PER_SPLIT", "IMAGES_PER_CLASS", "VERSION", "draw_glyphs"]

VERSION = 1  # of the drawings: a change to any of them needs a new number, and a new cache
CLASSES_PER_SPLIT = {"base": 200, "validation": 50, "novel": 100}
IMAGES_PER_CLASS = 40
SMALLEST_SIZE, LARGEST_SIZE = 16, 256

Floats = NDArray[np.float64]
Point = tuple[float, float]
Stroke = tuple[Floats, Floats]  # knots (3, 2), and their weights (samples, 3) along the stroke

_SEED = 20201
_STROKES = (2, 4)
_STRAIGHT_CHANCE = 0.3
_CORNER_CHANCE = 0.3
_ATTACH_CHANCE = 0.6
_BENDS = (0.3, 0.7)  # how far a stroke leaves the straight line, as a fraction of its length
_CANDIDATES = 4
_CURVE_SEGMENTS = 8

# Lengths are fractions of the image side. Shift, rotation and pen width are large because they
# defeat a comparison of raw pixels, yet leave the structure that tells the classes apart.
_EXTENT = 0.66
_WOBBLE = 0.05
_SHIFT = 0.085
_HALF_TURN = 0.14  # tan(angle / 2): 16 degrees
_SHEAR = 0.1
_SCALES = (0.85, 1.1)
_PEN_RADII = (0.022, 0.046)

# A gap between the two ranges keeps the contrast in every colour channel.
_INK_LEVELS = (0.0, 0.4)
_PAPER_LEVELS = (0.65, 1.0)

# Every class sets aside as many uniforms as the largest program takes. Those of an image have
# fixed columns, colours included, so that the drawing is the same for any size and channels.
_UNIFORMS_PER_PROGRAM = 1 + _STROKES[1] * (5 + 2 * 2 * _CANDIDATES)
_POSE, _INK, _PAPER, _TREMOR = slice(0, 7), slice(7, 10), slice(10, 13), slice(13, None)
_UNIFORMS_PER_IMAGE = 13 + 2 * _STROKES[1] * 3 * 2
_PIXELS_PER_BATCH = 32_768  # few enough for the temporaries to stay in the CPU cache


def draw_glyphs(
    *, size: int = 28, channels: int = 1
) -> tuple[NDArray[np.uint8], list[tuple[str, str]]]:
    """Draw the whole data set at the given resolution.

    Returns the images (classes * IMAGES_PER_CLASS, size, size, channels), grouped by class in
    order, and (class name, split) for each class. One channel gives black ink on white paper;
    three give every image its own ink and paper colours, which say nothing about the class.
    """
    if channels not in (1, 3):
        raise UsageError(f"Glyphs have 1 or 3 channels, not {channels}.")
    if not SMALLEST_SIZE <= size <= LARGEST_SIZE:
        raise UsageError(f"Glyphs have {SMALLEST_SIZE} to {LARGEST_SIZE} pixels, not {size}.")
    classes = [
        (f"{split}_{number:03d}", split)
        for split, count in CLASSES_PER_SPLIT.items()
        for number in range(count)
    ]
    images = np.empty((len(classes), IMAGES_PER_CLASS, size, size, channels), np.uint8)
    batch = max(1, _PIXELS_PER_BATCH // (size * size))
    for class_number, class_images in enumerate(images):
        uniforms = _uniforms(class_number)
        strokes = _stroke_program(iter(uniforms[:_UNIFORMS_PER_PROGRAM].tolist()))
        per_image = uniforms[_UNIFORMS_PER_PROGRAM:].reshape(IMAGES_PER_CLASS, -1)
        for start in range(0, IMAGES_PER_CLASS, batch):
            chosen = per_image[start : start + batch]
            coverage = _ink_coverage(strokes, chosen, size)
            class_images[start : start + batch] = _colour(coverage, chosen, channels)
    return images.reshape(-1, size, size, channels), classes


def _uniforms(class_number: int) -> Floats:
    """All the random numbers in [0, 1) of one class: its program's, then each image's."""
    generator = np.random.Philox(key=np.array([_SEED, class_number], np.uint64))
    raw = generator.random_raw(_UNIFORMS_PER_PROGRAM + IMAGES_PER_CLASS * _UNIFORMS_PER_IMAGE)
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _stroke_program(uniform: Iterator[float]) -> list[Stroke]:
    """The strokes of one class, centred on the origin and scaled to the common extent."""
    corner, curve = np.eye(3), _curve_weights()
    earlier: list[Point] = []
    weights: list[Floats] = []
    for _ in range(_STROKES[0] + int(next(uniform) * (_STROKES[1] - _STROKES[0] + 1))):
        kind, bend, side, attach, which = (next(uniform) for _ in range(5))
        start = _spread_point(earlier, uniform)
        if earlier and attach < _ATTACH_CHANCE:
            start = earlier[int(which * len(earlier))]
        end = _spread_point([*earlier, start], uniform)
        bend = 0.0 if kind < _STRAIGHT_CHANCE else _BENDS[0] + (_BENDS[1] - _BENDS[0]) * bend
        across = bend if side < 0.5 else -bend
        middle = (
            (start[0] + end[0]) / 2 + across * (end[1] - start[1]),
            (start[1] + end[1]) / 2 - across * (end[0] - start[0]),
        )
        weights.append(corner if kind >= 1 - _CORNER_CHANCE else curve)
        earlier += [start, middle, end]
    knots = np.array(earlier).reshape(-1, 3, 2)
    outline = np.concatenate([_path(k, w) for k, w in zip(knots, weights, strict=True)])
    low, high = outline.min(axis=0), outline.max(axis=0)
    # A common extent keeps mere size from telling classes apart, and small shapes from blurring.
    knots = (knots - (low + high) / 2) * (_EXTENT / (high - low).max())
    return list(zip(knots, weights, strict=True))


def _spread_point(earlier: list[Point], uniform: Iterator[float]) -> Point:
    """The candidate farthest from all earlier points: clumps would make glyphs look alike."""

    def clearance(point: Point) -> float:
        gaps = ((point[0] - x, point[1] - y) for x, y in earlier)
        return min((dx * dx + dy * dy for dx, dy in gaps), default=0.0)

    return max([(next(uniform), next(uniform)) for _ in range(_CANDIDATES)], key=clearance)


def _curve_weights() -> Floats:
    """Weights that sample the parabola (a quadratic Bezier curve) through three knots."""
    t = np.arange(_CURVE_SEGMENTS + 1) / _CURVE_SEGMENTS
    return np.stack([(1 - t) * (1 - 2 * t), 4 * t * (1 - t), t * (2 * t - 1)], axis=1)


def _path(knots: Floats, weights: Floats) -> Floats:
    """The polyline weights @ knots (..., samples, 2), added in a fixed order unlike a matmul."""
    terms = [weights[:, k, None] * knots[..., k, None, :] for k in range(3)]
    return terms[0] + terms[1] + terms[2]


def _between(low: float, high: float, uniforms: Floats) -> Floats:
    return low + (high - low) * uniforms


def _ink_coverage(strokes: list[Stroke], uniforms: Floats, size: int) -> Floats:
    """Draw one image for each row of uniforms: the share of every pixel that ink covers."""
    turn, shear, scale_x, scale_y, shift_x, shift_y, pen = uniforms[:, _POSE].T[..., None]
    # A rational parametrisation of the circle stands in for sine and cosine.
    turn = _between(-_HALF_TURN, _HALF_TURN, turn)
    cos, sin = (1 - turn * turn) / (1 + turn * turn), 2 * turn / (1 + turn * turn)
    shear = _between(-_SHEAR, _SHEAR, shear)
    scale_x, scale_y = _between(*_SCALES, scale_x), _between(*_SCALES, scale_y)
    shift_x, shift_y = _between(-_SHIFT, _SHIFT, shift_x), _between(-_SHIFT, _SHIFT, shift_y)
    # The sum of two uniforms favours small wobbles, as a hand does.
    tremor = uniforms[:, _TREMOR].reshape(len(uniforms), 2, _STROKES[1], 3, 2)
    tremor = (tremor[:, 0] + tremor[:, 1] - 1) * _WOBBLE

    centres = (np.arange(size) + 0.5) / size - 0.5
    column, row = centres[None, None, :], centres[None, :, None]
    nearest = np.full((len(uniforms), size, size), 4.0)  # squared, and beyond any real distance
    for number, (knots, weights) in enumerate(strokes):
        path = _path(knots + tremor[:, number], weights)
        x = (path[..., 0] + shear * path[..., 1]) * scale_x
        y = path[..., 1] * scale_y
        drawn_x = (cos * x - sin * y + shift_x)[..., None, None]
        drawn_y = (sin * x + cos * y + shift_y)[..., None, None]
        for k in range(len(weights) - 1):
            along_x, along_y = drawn_x[:, k + 1] - drawn_x[:, k], drawn_y[:, k + 1] - drawn_y[:, k]
            squared_length = along_x * along_x + along_y * along_y
            dx, dy = column - drawn_x[:, k], row - drawn_y[:, k]
            t = dx * (along_x / squared_length) + dy * (along_y / squared_length)
            t = np.minimum(np.maximum(t, 0.0), 1.0)
            off_x, off_y = dx - t * along_x, dy - t * along_y
            nearest = np.minimum(nearest, off_x * off_x + off_y * off_y)
    # The edge of the ink fades over one pixel: the linear ramp of anti-aliasing.
    ramp = (_between(*_PEN_RADII, pen)[..., None] - np.sqrt(nearest)) * size + 0.5
    coverage: Floats = np.minimum(np.maximum(ramp, 0.0), 1.0)
    return coverage


def _colour(coverage: Floats, uniforms: Floats, channels: int) -> NDArray[np.uint8]:
    """Blend from paper to ink by the coverage, and round to bytes."""
    ink, paper = np.zeros((len(uniforms), 1)), np.ones((len(uniforms), 1))
    if channels == 3:
        ink = _between(*_INK_LEVELS, uniforms[:, _INK])
        paper = _between(*_PAPER_LEVELS, uniforms[:, _PAPER])
    ink, paper = ink[:, None, None, :], paper[:, None, None, :]
    blend = paper + (ink - paper) * coverage[..., None]
    return (blend * 255 + 0.5).astype(np.uint8)
