"""Pictures: decoding, resizing and the operations of RandAugment agree with Pillow.

Run by ctest with the probe program as TOST_PROBE; skipped where Pillow cannot be imported.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
from PIL import ImageEnhance, ImageOps  # noqa: E402

PROBE = os.environ.get("TOST_PROBE", "")
if not PROBE:
    pytest.skip("TOST_PROBE is not set", allow_module_level=True)


def picture(width, height, mode="RGB", seed=0):
    """Smooth colour fields, edges and noise."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    field = np.stack([np.sin(x / 9 + c) * np.cos(y / (7 + c)) for c in range(3)], -1) * 90 + 128
    field[(x // 11 + y // 13) % 3 == 0] += 60
    field += random.normal(0, 12, field.shape)
    return Image.fromarray(np.clip(field, 0, 255).astype(np.uint8)).convert(mode)


def probe(tmp_path, image, op, *numbers):
    """The probe's result for a Pillow image or a file."""
    source = image
    if not isinstance(image, (str, os.PathLike)):
        source = tmp_path / "in.png"
        image.save(source)
    target = tmp_path / "out.png"
    command = [PROBE, op, str(source), str(target), *map(str, numbers)]
    subprocess.run(command, check=True)
    return np.asarray(Image.open(target)).astype(int)


def assert_close(ours, theirs, tolerance=1):
    theirs = np.asarray(theirs).astype(int)
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= tolerance


FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("size", [(32, 32), (7, 90), (224, 224), (99, 77), (1, 1), (50, 77)])
def test_resize(tmp_path, name, mode, size):
    image = picture(99, 77, mode)
    ours = probe(tmp_path, image, "resize", name, *size, 0, 0, 99, 77)
    assert_close(ours, image.resize(size, FILTERS[name]), 0)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("box", [(3, 5, 40, 60), (0, 0, 1, 1), (98, 0, 1, 77), (20, 10, 79, 67)])
def test_resize_of_a_part(tmp_path, name, box):
    image = picture(99, 77)
    x, y, width, height = box
    ours = probe(tmp_path, image, "resize", name, 48, 40, *box)
    part = image.crop((x, y, x + width, y + height))
    assert_close(ours, part.resize((48, 40), FILTERS[name]), 0)


ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "color": ImageEnhance.Color,
    "sharpness": ImageEnhance.Sharpness,
}


@pytest.mark.parametrize("name", ENHANCERS)
@pytest.mark.parametrize("factor", [0.1, 0.65, 1.0, 1.37, 1.9])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_enhance(tmp_path, name, factor, mode):
    image = picture(41, 30, mode)
    assert_close(probe(tmp_path, image, name, factor), ENHANCERS[name](image).enhance(factor))


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_point_operations(tmp_path, mode):
    image = picture(41, 30, mode).point(lambda v: v // 2 + 40)
    assert_close(probe(tmp_path, image, "autocontrast"), ImageOps.autocontrast(image))
    assert_close(probe(tmp_path, image, "equalize"), ImageOps.equalize(image), 0)
    assert_close(probe(tmp_path, image, "invert"), ImageOps.invert(image), 0)
    assert_close(probe(tmp_path, image, "posterize", 3), ImageOps.posterize(image, 3), 0)
    assert_close(probe(tmp_path, image, "solarize", 97), ImageOps.solarize(image, 97), 0)
    assert_close(probe(tmp_path, picture(41, 30), "grey"), picture(41, 30).convert("L"), 0)


@pytest.mark.parametrize("name", FILTERS)
def test_geometry(tmp_path, name):
    image = picture(41, 30)
    fill = (9, 99, 199)
    for degrees in (-30, 7.5, 22):
        ours = probe(tmp_path, image, "rotate", name, degrees)
        assert_close(ours, image.rotate(degrees, FILTERS[name], fillcolor=fill))
    for op, matrix in (("shear", (1, 0.27, 0, 0, 1, 0)), ("translate", (1, 0, -9.3, 0, 1, 0))):
        ours = probe(tmp_path, image, op, name, matrix[1] if op == "shear" else matrix[2])
        theirs = image.transform(image.size, Image.Transform.AFFINE, matrix, FILTERS[name],
                                 fillcolor=fill)
        assert_close(ours, theirs)


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0, "quality": 95}])
def test_jpeg(tmp_path, mode, options):
    path = tmp_path / "in.jpg"
    picture(61, 45).convert(mode).save(path, **options)
    theirs = Image.open(path)
    theirs = theirs if mode == "L" else theirs.convert("RGB")
    # Two versions of libjpeg-turbo may round differently by one.
    assert_close(probe(tmp_path, path, "decode"), theirs)


def test_png_kinds(tmp_path):
    base = picture(45, 33)
    alpha = base.convert("RGBA")
    alpha.putalpha(picture(45, 33, "L", 1))
    grey_alpha = alpha.convert("LA")
    palette = base.quantize(37)
    bits = base.convert("1")
    for image in (base, alpha, palette, base.convert("L"), grey_alpha, bits):
        path = tmp_path / "in.png"
        image.save(path)
        grey = image.mode in ("L", "LA", "1")
        assert_close(probe(tmp_path, path, "decode"), image.convert("L" if grey else "RGB"), 0)
    palette.save(path, transparency=3)
    assert_close(probe(tmp_path, path, "decode"), palette.convert("RGB"), 0)
    # 16-bit grey keeps its high byte; Pillow itself would clip at 255.
    deep = (np.arange(45 * 33, dtype=np.uint32).reshape(33, 45) * 44).astype(np.uint16)
    Image.fromarray(deep).save(path)
    assert_close(probe(tmp_path, path, "decode"), deep >> 8, 0)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q"]))
