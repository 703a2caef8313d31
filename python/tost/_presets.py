"""The program's presets of image models: sizes of the paper and its code, then small ones of ours."""

# Width, depth, heads, LayerScale at the start, stochastic depth, sides of a patch.
LARGE = {
    "cab_tiny_12": (192, 12, 4, 1.0, 0.0, (16, 8)),
    "cab_tiny_24": (192, 24, 4, 1e-5, 0.0, (16, 8)),
    "cab_small_12": (384, 12, 8, 1.0, 0.05, (16, 8)),
    "cab_small_24": (384, 24, 8, 1e-5, 0.05, (16, 8)),
    "cab_medium_12": (512, 12, 8, 1.0, 0.15, (16,)),
    "cab_medium_24": (512, 24, 8, 1e-5, 0.15, (16, 8)),
    "cab_large_24": (768, 24, 16, 1e-5, 0.0, (16, 8)),
}
SMALL = {"nano": (64, 6, 4, 1.0, 0.0, (4, 2)), "micro": (128, 8, 8, 1.0, 0.0, (4, 2))}
FAMILIES = {"tost": "tssa", "xcit": "xca", "vit": "softmax"}


def find(name):
    """Settings of the preset `name` as in a model file, without what follows the data; None if there is no such."""
    family, _, rest = name.partition("_")
    size, _, patch = rest.rpartition("_p")
    if family not in FAMILIES or size not in {**LARGE, **SMALL} or not patch.isdigit():
        return None
    dim, depth, heads, layer_scale, drop_path, patches = {**LARGE, **SMALL}[size]
    if int(patch) not in patches:
        return None
    return {
        "name": name,
        "mixer": FAMILIES[family],
        "dim": dim,
        "depth": depth,
        "heads": heads,
        "layer_scale": layer_scale,
        "drop_path": drop_path,
        "patch": int(patch),
    }
