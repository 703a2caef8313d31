"""The reader of safetensors files accepts and refuses what the reference implementation does.

Run by ctest with the program that prints all cases as TOST_PROBE.
"""

import os
import subprocess

import pytest
import safetensors

PROGRAM = os.environ.get("TOST_PROBE", "")
if not PROGRAM:
    pytest.skip("TOST_PROBE is not set", allow_module_level=True)

# Refused here and accepted there, as safetensors_header.h says.
STRICTER = {
    "leading_space",
    "value_list",
    "unknown_field",
    "name_twice",
    "name_twice_escaped",
    "metadata_key_twice",
    "shape_65_dimensions",
    # Types that are not read.
    "dtype_4_bit",
    "dtype_6_bit",
    "dtype_exponent",
    "dtype_complex",
}


def cases():
    lines = subprocess.run([PROGRAM], capture_output=True, check=True, text=True).stdout.splitlines()
    return [(line.split(" ") + [""])[:3] for line in lines]


def reference(file):
    try:
        safetensors.deserialize(file)
    except safetensors.SafetensorError:
        return "refused"
    return "valid"


@pytest.mark.parametrize("name,verdict,file", [pytest.param(*case, id=case[0]) for case in cases()])
def test_verdict(name, verdict, file):
    expected = reference(bytes.fromhex(file))
    if name in STRICTER:
        assert (verdict, expected) == ("refused", "valid")
    else:
        assert verdict == expected


def test_there_are_enough_cases():
    names = [name for name, _, _ in cases()]
    assert len(names) >= 60 and len(set(names)) == len(names)
    assert STRICTER <= set(names)
