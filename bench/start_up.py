"""From nothing to the first prediction: `tost predict` with the tiny preset on one picture.

    bench/start_up.py [TOST] [REPEAT]

For comparison `tost --version`, which loads the same libraries and computes nothing.
"""

import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib


def png(side):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + bytes((x * y + c * 80) % 256 for x in range(side) for c in range(3))
                    for y in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


def seconds(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main():
    tost = sys.argv[1] if len(sys.argv) > 1 else "build/release/tost"
    repeat = int(sys.argv[2]) if len(sys.argv) > 2 else 21
    with tempfile.TemporaryDirectory() as folder:
        model, picture = os.path.join(folder, "tiny.safetensors"), os.path.join(folder, "one.png")
        subprocess.run([tost, "bench", "model", "--model", "tost_cab_tiny_12_p16",
                        "--save-weights", model], check=True)
        with open(picture, "wb") as file:
            file.write(png(256))
        commands = {"tost predict, tiny model, one picture": [tost, "predict", model, picture],
                    "tost --version": [tost, "--version"]}
        times = {name: [] for name in commands}
        for _ in range(repeat):
            for name, command in commands.items():
                times[name].append(seconds(command))
    print("| | seconds [quartiles] |\n|---|--:|")
    for name, values in times.items():
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        print(f"| {name} | {median:.3f} [{low:.3f}, {high:.3f}] |")


if __name__ == "__main__":
    main()
