#!/usr/bin/env python3
"""Training in several processes: the same results as in one, from checkpoints of any number, through faults.

usage: cli_distributed_test.py TOST [unittest arguments]; needs only Python's standard library. Processes meet on the
loopback device. cli_faults_test.py starts them by torchrun.
"""
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import cli_test

STEPS = 50
EVERY_STEP = ["--log-every", 1, "--threads", 1, "--quiet"]
PICTURES = ["--data", "shapes", "--train-size", 208, "--test-size", 70, "--data-side", 16, "--model", "tost_nano_p4",
            "--model-options", '{"dim": 16, "depth": 1, "heads": 2, "class_blocks": 1}', "--batch", 8, "--mixup", 0.8,
            "--workers", 1, "--ema-decay", 0.9, "--eval-batch", 16, "--max-steps", STEPS, "--epochs", 10]
SMALL = ["--dim", 16, "--heads", 2, "--max-steps", STEPS, "--warmup-steps", 5, "--evaluate-every-steps", 25]
TEXT = ["--model", "tost_gpt_char", "--block", 16, "--depth", 1, "--batch", 4, "--eval-batches", 5,
        "--sample-every-steps", 0, "--clip", 1.0, *SMALL]
SEQUENCES = ["--recipe", "seq", "--data", "listops", "--epochs", 10, "--min-tokens", 10, "--max-tokens", 40, "--train-size", 230, "--test-size", 50,
             "--batch", 6, "--eval-batch", 8, "--dim", 16, "--depth", 1, "--heads", 2, "--max-steps", STEPS]
ANSWERS = ["--batch", 4, "--eval-samples", 20, *SMALL]


def reserved_port():
    """A socket that is bound and does not listen: until it is closed nobody is given its port, and a store that asks for
    the port by its number gets it."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))
    return held


def log(folder, kind="train"):
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind]


def losses(folder):
    return {line["step"]: line["loss"] for line in log(folder)}


def checkpoint(folder):
    return folder / "checkpoints" / (folder / "checkpoints/latest").read_text().strip()


def tensors(file):
    """Type, shape and bytes of all tensors of a safetensors file, by name."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    return {name: (of["dtype"], of["shape"], data[slice(*of["data_offsets"])]) for name, of in header.items()
            if name != "__metadata__"}


def optimizer(folder):
    """The same of the optimiser of a checkpoint, one file or shards of several processes."""
    index = folder / "optimizer.safetensors.index.json"
    if not index.exists():
        return tensors(folder / "optimizer.safetensors")
    places = json.loads(index.read_text())["weight_map"]
    shards = {shard: tensors(folder / shard) for shard in set(places.values())}
    return {name: shards[shard][name] for name, shard in places.items()}


def wait_until(reached, seconds=900):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = reached()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"nothing happened within {seconds} s")


def without_facts(messages):
    return [line for line in messages.splitlines() if "The optimizer's state takes" not in line]


class Case(cli_test.Case):
    def start(self, ranks, *args, env=None, apart=None, before=None):
        """`ranks` processes as torchrun would start them; of a rank, `apart`: further arguments, `before`: a function
        that its process calls first."""
        held = reserved_port()
        self.addCleanup(held.close)
        port = held.getsockname()[1]
        processes = []
        for rank in range(ranks):
            variables = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
                             MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1", **(env or {}))
            words = [cli_test.TOST, *map(str, args), *map(str, (apart or {}).get(rank, []))]
            processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                              env=variables, preexec_fn=(before or {}).get(rank)))
        self.addCleanup(lambda: [p.kill() for p in processes if p.poll() is None])
        return processes

    def end(self, processes, expect=0, timeout=900):
        """Waits; the outputs and messages of all. `expect`: of every rank, or a list."""
        done = [p.communicate(timeout=timeout) for p in processes]
        codes = [p.returncode for p in processes]
        self.assertEqual(codes, expect if isinstance(expect, list) else [expect] * len(processes), done)
        return [out for out, _ in done], [err for _, err in done]

    def train(self, ranks, name, *args, expect=0, **options):
        """A run of one process is started as ever, without a launcher."""
        words = ["train", *args, *EVERY_STEP, "--out", self.dir / name]
        if ranks == 1:
            return cli_test.run(*words, expect=expect)
        return self.end(self.start(ranks, *words, **options), expect)

    def same_losses(self, a, b, note=""):
        a, b = losses(self.dir / a), losses(self.dir / b)
        self.assertEqual(a.keys(), b.keys(), note)
        worst = max(abs(a[step] - b[step]) for step in a)
        self.assertLessEqual(worst, 1e-5, note)

    def same_bits(self, a, b):
        for part in ("model.safetensors", "state.json"):
            one, other = (checkpoint(self.dir / name) / part for name in (a, b))
            self.assertEqual(one.read_bytes(), other.read_bytes(), part)
        one, other = (optimizer(checkpoint(self.dir / name)) for name in (a, b))
        self.assertEqual(one.keys(), other.keys())
        self.assertEqual([name for name in one if one[name] != other[name]], [])

    def saving(self, ranks, *args, out):
        """The processes of a run that has saved a checkpoint."""
        processes = self.start(ranks, "train", *args, *EVERY_STEP, "--out", self.dir / out)
        wait_until(lambda: (self.dir / out / "checkpoints/latest").exists() or processes[0].poll() is not None)
        return processes

    def interrupted(self, ranks, name, asked, *args):
        """SIGTERM to rank `asked` in the middle of a run: all save and leave."""
        for _ in range(10):
            processes = self.saving(ranks, *args, "--checkpoint-every-steps", 5, out=name)
            processes[asked].send_signal(signal.SIGTERM)
            out, err = [], []
            for process in processes:
                said = process.communicate(timeout=900)
                out.append(said[0])
                err.append(said[1])
            if [p.returncode for p in processes] != [0] * ranks:
                break
            shutil.rmtree(self.dir / name)  # it was done before the signal came
        self.assertEqual([p.returncode for p in processes], [130] * ranks, err)
        self.assertIn("--resume", out[0])
        self.assertEqual(out[1:], [""] * (ranks - 1))
        self.assertEqual(without_facts("".join(err)), [])

    def task(self):
        return ["--data", cli_test.token_task(self.dir / "task", [16, 24], samples=40)]

    def text(self):
        return self.file("a.txt", b"the cat sees the dog and the bird .\nthe bird sees no cat .\n" * 60)


class Refusals(Case):
    def test_minutes_are_refused_once_and_before_anything_is_measured(self):
        out, err = self.train(2, "run", "--data", self.text(), "--recipe", "char", "--minutes", 1, expect=2)
        self.assertEqual((out, err[1]), (["", ""], ""))
        self.assertRegex(err[0], r"^tost train: --minutes is for a new run of one process; .*\n$")
        self.assertFalse((self.dir / "run").exists())


class SameLosses(Case):
    def compare(self, *args):
        self.train(1, "1x4", *args, "--accumulate", 4)
        self.assertEqual(len(losses(self.dir / "1x4")), STEPS)
        for ranks in (2, 4):
            name = f"{ranks}x{4 // ranks}"
            self.train(ranks, name, *args, "--accumulate", 4)
            self.same_losses("1x4", name, name)
            for mine, theirs in zip(log(self.dir / name, "eval"), log(self.dir / "1x4", "eval"), strict=True):
                for key in ("images", "sequences", "tokens"):
                    self.assertEqual(mine.get(key), theirs.get(key))
                self.assertAlmostEqual(mine["loss"], theirs["loss"], delta=2e-5)
            self.assertIn("slowest_rank", log(self.dir / name)[0])

    def test_pictures(self):
        self.compare(*PICTURES)

    def test_text(self):
        self.compare("--data", self.text(), *TEXT)

    def test_text_with_muon(self):
        self.compare("--data", self.text(), *TEXT, "--optimizer", "muon")

    def test_sequences(self):
        self.compare(*SEQUENCES)

    def test_task(self):
        self.compare(*self.task(), *ANSWERS)

    def test_processes_that_share_batches(self):
        """Rows of a batch are divided, also unevenly; batch norm takes the statistics of all."""
        for name, args in {"pictures": PICTURES, "task": [*self.task(), *ANSWERS], "sequences": SEQUENCES}.items():
            self.train(1, name, *args, "--accumulate", 1)
            self.train(4, f"{name}4", *args, "--accumulate", 1)
            self.same_losses(name, f"{name}4", name)

    def test_processes_that_do_not_divide_the_step(self):
        self.train(1, "1", *PICTURES, "--accumulate", 4)
        self.train(3, "3", *PICTURES, "--accumulate", 4)
        self.same_losses("1", "3")

    def test_noise_belongs_to_the_batch(self):
        args = [*PICTURES, "--drop-path", 0.3, "--accumulate", 2]
        self.end(self.start(1, "train", *args, *EVERY_STEP, "--out", self.dir / "1"))
        self.train(2, "2", *args)
        self.same_losses("1", "2")


class Resume(Case):
    STEADY = [*PICTURES, "--drop-path", 0.2, "--accumulate", 4, "--lr", 1e-3, "--min-lr", 1e-3, "--warmup-epochs", 0]

    def test_on_other_numbers_of_processes(self):
        """With a steady rate, so that a run can be ended early by max_steps."""
        self.train(4, "whole", *self.STEADY)
        for ranks, until in ((4, 13), (2, 26), (3, 39), (1, STEPS)):
            more = ["--max-steps", until]
            self.train(ranks, "parts", *(["--resume", *more] if until > 13 else [*self.STEADY, *more]))
        self.same_losses("whole", "parts")

    def test_the_same_number_is_exact(self):
        args = [*PICTURES, "--drop-path", 0.2, "--accumulate", 4, "--checkpoint-every-steps", 5, "--epochs", 40,
                "--max-steps", 120]
        self.train(4, "whole", *args)
        self.interrupted(4, "parts", 2, *args)
        self.assertLess(max(losses(self.dir / "parts")), 120)
        self.train(4, "parts", "--resume")
        self.assertEqual(losses(self.dir / "whole"), losses(self.dir / "parts"))
        self.same_bits("whole", "parts")


class Shards(Case):
    def test_the_bits_are_those_of_the_whole_optimiser(self):
        args = [*PICTURES, "--drop-path", 0.2, "--accumulate", 4, "--evaluate-ema", "--clip", 1.0,
                "--checkpoint-every-steps", 5]
        for precision in ("fp32", "bf16"):
            whole, parts, resumed = (f"{name}-{precision}" for name in ("whole", "parts", "resumed"))
            self.train(4, whole, *args, "--precision", precision)
            _, err = self.train(4, parts, *args, "--precision", precision, "--shard-optimizer")
            self.assertLessEqual(float(re.search(r"a process, ([0-9.]+) of ", err[0]).group(1)), 0.27)
            self.assertEqual(losses(self.dir / whole), losses(self.dir / parts))
            self.same_bits(whole, parts)
            # Half of it with shards, half without.
            steady = [*args, "--precision", precision, "--lr", 1e-3, "--min-lr", 1e-3, "--warmup-epochs", 0]
            self.train(4, resumed, *steady)
            self.train(4, f"{resumed}2", *steady, "--max-steps", 20, "--shard-optimizer")
            self.train(2, f"{resumed}2", "--resume", "--max-steps", 30)
            self.train(3, f"{resumed}2", "--resume", "--max-steps", 40, "--shard-optimizer")
            self.train(1, f"{resumed}2", "--resume", "--max-steps", STEPS)
            if precision == "fp32":
                self.same_losses(resumed, f"{resumed}2")

    SAVED = ["--drop-path", 0.2, "--accumulate", 4, "--checkpoint-every-steps", 5, "--save-retries", 0, "--keep-last", 100]

    def test_every_process_writes_its_shard(self):
        """Of even size, under names that an index lists; one process writes one file."""
        self.train(4, "run", *PICTURES, *self.SAVED, "--shard-optimizer", "--max-steps", 10)
        folder = checkpoint(self.dir / "run")
        names = [f"optimizer-0000{rank}-of-00004.safetensors" for rank in (1, 2, 3, 4)]
        self.assertEqual(sorted(p.name for p in folder.iterdir()),
                         ["ema.safetensors", "manifest.json", "model.safetensors", *names,
                          "optimizer.safetensors.index.json", "state.json"])
        sizes = [sum(len(data) for _, _, data in tensors(folder / name).values()) for name in names]
        self.assertLess(max(sizes), 0.5 * sum(sizes))
        self.assertEqual(json.loads((folder / "optimizer.safetensors.index.json").read_text())["metadata"],
                         {"total_size": sum(sizes)})
        files = json.loads(cli_test.run("inspect", self.dir / "run", "--json").stdout)["files"]
        self.assertEqual([file for file in files if "error" in file], [])
        self.train(1, "run", "--resume", "--max-steps", 15)
        self.assertTrue((checkpoint(self.dir / "run") / "optimizer.safetensors").exists())

    def test_an_interruption_changes_no_bit(self):
        for ranks in (2, 4):
            whole, parts = f"whole{ranks}", f"parts{ranks}"
            args = [*PICTURES, *self.SAVED, "--shard-optimizer", "--epochs", 40, "--max-steps", 120]
            self.train(ranks, whole, *args)
            self.interrupted(ranks, parts, 1, *args)
            self.train(ranks, parts, "--resume")
            self.assertEqual(losses(self.dir / whole), losses(self.dir / parts))
            self.same_bits(whole, parts)

    def test_the_shards_of_any_number_of_processes_resume(self):
        args = [*PICTURES, *self.SAVED, "--shard-optimizer", "--lr", 1e-3, "--min-lr", 1e-3, "--warmup-epochs", 0]
        self.train(4, "whole", *args)
        for ranks, until in ((4, 10), (2, 20), (3, 30), (1, 40), (2, STEPS)):
            more = ["--max-steps", until]
            self.train(ranks, "parts", *(["--resume", *more] if until > 10 else [*args, *more]))
        self.same_losses("whole", "parts")

    def test_a_damaged_shard(self):
        """The checkpoint before it is taken, with the bits of an undisturbed run."""
        args = [*PICTURES, *self.SAVED, "--shard-optimizer"]
        self.train(2, "whole", *args, "--max-steps", 20)
        shard = "optimizer-00002-of-00002.safetensors"
        for number, (says, damage) in enumerate({
                "is missing": lambda new, old: (new / shard).unlink(),
                "is damaged": lambda new, old: os.truncate(new / shard, 100),
                "is damaged: ": lambda new, old: (new / shard).write_bytes((old / shard).read_bytes())}.items()):
            name = f"run{number}"
            self.train(2, name, *args, "--max-steps", 20)
            newest = checkpoint(self.dir / name)
            damage(newest, newest.parent / "step-000000015")
            _, err = self.train(2, name, "--resume")
            lines = [line for line in err[0].splitlines() if "Skipping" in line]
            self.assertEqual(len(lines), 1, err)
            self.assertIn(says, lines[0])
            self.assertIn(shard, lines[0])
            self.assertEqual(err[1], "")
            self.same_bits("whole", name)

    def test_a_full_disk_of_one_process(self):
        args = [*PICTURES, *self.SAVED, "--shard-optimizer"]
        for name in ("whole", "run"):
            self.train(2, name, *args, "--max-steps", 10)
        self.train(2, "whole", "--resume", "--max-steps", 20)
        before = optimizer(checkpoint(self.dir / "run"))

        def full():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        out, err = self.train(2, "run", "--resume", "--max-steps", 20, expect=1, before={1: full})
        self.assertEqual((out[1], err[1]), ("", ""))
        lines = [line for line in err[0].splitlines() if line.startswith("tost train: ")]
        self.assertEqual(len(lines), 1, err)
        self.assertIn("Rank 1: Cannot save its part of the checkpoint of step 12", lines[0])
        self.assertEqual(checkpoint(self.dir / "run").name, "step-000000010")
        self.assertEqual(optimizer(checkpoint(self.dir / "run")), before)
        left = [p.name for p in (self.dir / "run/checkpoints").iterdir() if not re.fullmatch(r"step-\d+", p.name)]
        self.assertEqual(sorted(left), ["best", "latest"])
        self.train(2, "run", "--resume", "--max-steps", 20)
        self.same_bits("whole", "run")

    def test_a_folder_that_is_not_shared(self):
        args = ["train", *PICTURES, *self.SAVED, *EVERY_STEP, "--out", "run"]
        places = [self.dir / "a", self.dir / "b"]
        for place in places:
            place.mkdir()
        apart = {rank: (lambda place=place: os.chdir(place)) for rank, place in enumerate(places)}
        out, err = self.end(self.start(2, *args, "--shard-optimizer", before=apart), 2)
        self.assertEqual("".join([*out, err[1]]), "")
        self.assertEqual(len(err[0].splitlines()), 1, err)
        self.assertIn("Rank 1: ", err[0])
        self.assertIn("on a file system that all machines share", err[0])
        self.assertFalse((places[0] / "run/config.json").exists())
        # Without shards rank 0 alone uses the folder.
        self.end(self.start(2, *args, "--max-steps", 5, before=apart))
        self.assertFalse((places[1] / "run").exists())

    def test_compressed_gradients_train_too(self):
        args = [*PICTURES, "--accumulate", 2]
        self.train(2, "exact", *args)
        self.train(2, "rounded", *args, "--compress-gradients")
        a, b = (losses(self.dir / name) for name in ("exact", "rounded"))
        self.assertNotEqual(a, b)
        self.assertLess(max(abs(a[step] - b[step]) for step in a), 0.1)


class SplitSequences(Case):
    """Tokens of one sample lie on several processes."""
    MEANS = ["--mixer", "means", "--conv", 4, "--decay", "learned"]

    def compare(self, *args):
        self.train(1, "1", *args, "--accumulate", 2)
        for ranks, parts in ((2, 2), (4, 4), (4, 2)):
            name = f"{ranks}-{parts}"
            self.train(ranks, name, *args, "--accumulate", 2, "--sequence-parallel", parts)
            self.same_losses("1", name, name)
            for mine, theirs in zip(log(self.dir / name, "eval"), log(self.dir / "1", "eval"), strict=True):
                self.assertAlmostEqual(mine["loss"], theirs["loss"], delta=2e-5)

    def test_text(self):
        self.compare("--data", self.text(), *TEXT)

    def test_text_with_means_and_a_convolution(self):
        self.compare("--data", self.text(), *TEXT, *self.MEANS)

    def test_text_with_the_delta_rule(self):
        self.compare("--data", self.text(), *TEXT, "--mixer", "delta", "--gate", "--conv", 4, "--decay", "learned",
                     "--hybrid-every", 2, "--hybrid-mixer", "tssa", "--depth", 2)

    def test_sequences(self):
        self.compare(*SEQUENCES, "--max-length", 40)

    def test_task(self):
        """Most parts have no question."""
        self.compare(*self.task(), *ANSWERS, *self.MEANS)

    def test_whatever_is_computed_again(self):
        args = ["--data", self.text(), *TEXT, *self.MEANS, "--accumulate", 2]
        self.train(1, "1", *args)
        self.train(2, "2", *args, "--sequence-parallel", 2, "--recompute", "block", "--shard-optimizer")
        self.same_losses("1", "2")

    def test_resumed_with_other_parts(self):
        args = ["--data", self.text(), *TEXT, "--accumulate", 2, "--lr", 1e-3, "--min-lr", 1e-3, "--dropout", 0]
        self.train(1, "whole", *args)
        self.train(4, "parts", *args, "--sequence-parallel", 4, "--max-steps", 20)
        self.train(2, "parts", "--resume", "--sequence-parallel", 2, "--max-steps", 40)
        self.train(1, "parts", "--resume", "--sequence-parallel", 1, "--max-steps", STEPS)
        self.same_losses("whole", "parts")


class Refusals(Case):
    def refused(self, ranks, *args, code=2, says, **options):
        """One sentence from one process; all leave with its code, and no folder is left."""
        out, err = self.train(ranks, "refused", *args, expect=code, **options)
        self.assertEqual("".join(out), "")
        lines = [line for one in err for line in one.splitlines()]
        self.assertEqual(len(lines), 1, err)
        for word in says:
            self.assertIn(word, lines[0])
        self.assertFalse((self.dir / "refused").exists())

    def test_differences_between_processes_are_named(self):
        text, other = self.text(), self.file("b.txt", b"one two three four .\n" * 150)
        self.refused(3, "--data", text, *TEXT, "--accumulate", 3, apart={2: ["--lr", 0.5]},
                     says=["Rank 2 has setting lr 0.5 but rank 0 has "])
        folder = self.dir / "data"
        for name in ("x", "y"):
            (folder / name).mkdir(parents=True)
            (folder / name / "a.txt").write_bytes(text.read_bytes() if name == "x" else other.read_bytes())
        self.refused(2, *PICTURES, "--accumulate", 2, apart={1: ["--data-seed", 3]}, says=["Rank 1 has setting data_seed 3"])

    def test_numbers_that_do_not_fit(self):
        self.refused(3, *PICTURES, "--accumulate", 2, says=["3 processes cannot share the 2 batches of a step", "run 2"])
        self.refused(4, *PICTURES, "--accumulate", 1, "--batch", 2, says=["4 processes cannot share a batch of 2"])

    def test_sequences_that_cannot_be_divided(self):
        text = ["--data", self.text(), *TEXT, "--accumulate", 2]
        for ranks, parts in ((2, 3), (3, 2)):
            self.refused(ranks, *text, "--sequence-parallel", parts,
                         says=[f"sequence_parallel {parts} does not divide the run's {ranks} processes"])
        self.error("train", *text, *EVERY_STEP, "--sequence-parallel", 2, "--out", self.dir / "refused", exit_code=2,
                   says="does not divide the run's 1 process;")
        self.refused(3, *text, "--sequence-parallel", 3, says=["A text of 16 tokens", "3 equal parts"])
        for mixer in ("softmax", "ssm"):
            self.refused(2, *text, "--mixer", mixer, "--sequence-parallel", 2,
                         says=[f"mixer '{mixer}' cannot divide", "means"])
        self.refused(2, *text, "--hybrid-every", 1, "--hybrid-mixer", "ssm", "--sequence-parallel", 2, says=["'ssm'"])
        self.refused(2, *SEQUENCES, "--mixer", "ssm", "--sequence-parallel", 2, says=["'ssm'"])
        self.refused(3, *SEQUENCES, "--positions", "learned", "--max-length", 40, "--sequence-parallel", 3, says=["40 learned positions"])
        self.refused(2, *PICTURES, "--accumulate", 2, "--sequence-parallel", 2, says=["not images"])

    def test_gpus_that_are_not_there(self):
        pictures = [*PICTURES, "--accumulate", 2]
        self.refused(2, *pictures, "--peer-backend", "nccl", says=["peer_backend nccl needs GPUs (device cuda)"])
        self.refused(2, *pictures, "--device", "cuda:99", says=["CUDA"])
        if not json.loads(cli_test.run("info", "--json").stdout)["gpus"]:
            self.refused(2, *pictures, "--device", "cuda", says=["CUDA"])

    def test_bad_files_and_folders(self):
        self.refused(2, *PICTURES, "--accumulate", 2, "--data", "nowhere", code=1, says=["nowhere"])
        self.refused(2, *PICTURES, "--accumulate", 2, "--resume", says=["holds no run to resume"])

    def test_a_rank_that_never_comes(self):
        processes = self.start(2, "train", *PICTURES, *EVERY_STEP, "--peer-timeout", 8, "--out", self.dir / "run")
        processes[1].kill()
        _, err = self.end(processes, [1, -9])
        self.assertIn("Rank 1 of 2 did not come within 8 s", err[0])


class Faults(Case):
    # Never ends by itself. That a process is gone is known long before the usual timeout, 600 s.
    LONG = [*PICTURES, "--accumulate", 4, "--epochs", 1000000, "--max-steps", 100000000, "--checkpoint-every-steps", 5]

    def running(self, ranks, *args):
        return self.saving(ranks, *self.LONG, *args, out="run")

    def test_a_killed_rank_is_named(self):
        processes = self.running(3)
        processes[1].kill()
        out, err = self.end(processes, [1, -9, 1], timeout=300)
        self.assertEqual("".join(out), "")
        self.assertIn("Rank 1 of 3 was lost", err[0])
        self.assertEqual((len(err[0].splitlines()), err[2]), (1, ""))

    def test_the_first_rank_is_killed(self):
        processes = self.running(2)
        processes[0].kill()
        _, err = self.end(processes, [-9, 1], timeout=300)
        self.assertIn("resumed from its newest checkpoint", err[1])
        self.assertEqual(len(err[1].splitlines()), 1)

    def test_a_stopped_rank_is_named_after_the_timeout(self):
        processes = self.running(3, "--peer-timeout", 15)
        processes[2].send_signal(signal.SIGSTOP)
        out, err = [], []
        for p in processes[:2]:
            one = p.communicate(timeout=900)
            out.append(one[0])
            err.append(one[1])
        self.assertEqual([p.returncode for p in processes[:2]], [1, 1])
        self.assertIn("Rank 2 of 3 was lost", err[0])
        self.assertEqual(err[1], "")

    def test_a_folder_is_used_once(self):
        processes = self.running(2)
        _, err = self.end(self.start(2, "train", "--resume", "--out", self.dir / "run"), 2)
        self.assertIn("train", err[0])
        self.assertEqual(err[1], "")
        processes[0].send_signal(signal.SIGINT)
        self.end(processes, 130)


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
