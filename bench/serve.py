#!/usr/bin/env python3
"""What a server does on this machine: throughput of many texts, known prompts, memory of idle sessions, hostile clients.

usage: bench/serve.py TOST MODEL start|texts|prompts|sessions|hostile [--flags "FLAGS OF TOST SERVE"] [options]

Starts `tost serve MODEL` on a free port, measures and ends it. Needs only Python's standard library.

  start     from the command to its address, to the first token of a text over HTTP and, after it, to the explanation of a
            sentence; peak of resident memory after each and after a text of --tokens tokens. With --picture FILE to the
            classes of the picture and to its explanation
  texts     tokens a second of one text, and of --streams texts at a time
  prompts   time to the first token: a prompt of one token, new and known, and of --tokens tokens that are known already
  sessions  resident memory of --count sessions of --tokens tokens each, and the bytes that /metrics counts; with
            --flags "--sessions FOLDER --idle-seconds N" also after they have gone to disk
  hostile   times of an honest client alone, then for --seconds next to clients that send and read badly
"""
import argparse
import base64
import concurrent.futures
import http.client
import json
import multiprocessing
import os
import pathlib
import random
import re
import shlex
import socket
import statistics
import subprocess
import sys
import threading
import time


class Server:
    def __init__(self, program, model, flags):
        command = [program, "serve", f"model={model}", "--port", "0", *flags]
        self.begin = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        found = re.search(r":(\d+)/", self.process.stdout.readline())
        if not found:
            sys.exit("The server did not start; run it by hand to see why: " + shlex.join(command))
        self.port = int(found[1])
        self.started = time.perf_counter() - self.begin

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            headers = {"Content-Type": "application/json"} if isinstance(body, dict) else {}
            connection.request(method, path, json.dumps(body) if isinstance(body, dict) else body, headers)
            reply = connection.getresponse()
            data = reply.read()
            if reply.status != 200:
                raise RuntimeError(f"{path}: {reply.status} {data[:300]}")
            return data
        finally:
            connection.close()

    def complete(self, **fields):
        return json.loads(self.ask("POST", "/v1/completions", {"ignore_eos": True, **fields}))

    def metric(self, name):
        return float(re.search(rf"^{name} (\S+)$", self.ask("GET", "/metrics").decode(), re.M)[1])

    def resident(self, what="VmRSS"):
        return 1024 * int(re.search(what + r":\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1])

    def end(self):
        self.process.terminate()
        code = self.process.wait(120)
        if code != 0:
            sys.exit(f"The server ended with status {code}.")


def start(server, o):
    picture = base64.b64encode(pathlib.Path(o.picture).read_bytes()).decode() if o.picture else None
    addresses, tokens, peaks, seen, peaks_seen, later = ([] for _ in range(6))
    for _ in range(o.repeat):
        fresh = Server(o.program, o.model, shlex.split(o.flags))
        if picture:
            fresh.ask("POST", "/v1/classify", {"images": [picture]})
        else:
            fresh.complete(prompt="The king", max_tokens=1, seed=1)
        tokens.append(1e3 * (time.perf_counter() - fresh.begin))
        addresses.append(1e3 * fresh.started)
        peaks.append(fresh.resident("VmHWM") / 2**20)
        if json.loads(fresh.ask("GET", "/v1/models/model"))["explains"]:
            fresh.ask("POST", "/v1/explain", {"image": picture} if picture else {"text": "The king was the son of the old town"})
            seen.append(1e3 * (time.perf_counter() - fresh.begin))
            peaks_seen.append(fresh.resident("VmHWM") / 2**20)
        if not picture:
            fresh.complete(prompt="The king", max_tokens=o.tokens, seed=1)
            later.append(fresh.resident("VmHWM") / 2**20)
        fresh.end()
    for name, t, unit in (("address", addresses, "ms"), ("first answer", tokens, "ms"), ("peak memory", peaks, "MiB"),
                          ("explanation", seen, "ms"), ("peak after it", peaks_seen, "MiB"),
                          (f"peak after {o.tokens} tokens", later, "MiB")):
        if t:
            print(f"{name}: {statistics.median(t):.1f} {unit} ({min(t):.1f} to {max(t):.1f})")


def rate(server, streams, tokens):
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        begin = time.perf_counter()
        jobs = [pool.submit(server.complete, prompt="The", max_tokens=tokens, seed=i) for i in range(streams)]
        written = sum(job.result()["usage"]["completion_tokens"] for job in jobs)
        return written / (time.perf_counter() - begin)


def texts(server, o):
    rate(server, 1, 20)
    one = [rate(server, 1, o.tokens) for _ in range(o.repeat)]
    many = [rate(server, o.streams, o.tokens) for _ in range(o.repeat)]
    print(f"one text at a time   {min(one):8.1f} to {max(one):8.1f} tokens a second")
    print(f"{o.streams:3d} texts at a time  {min(many):8.1f} to {max(many):8.1f} tokens a second, "
          f"{statistics.median(many) / statistics.median(one):.1f} times as many")


def first_token(server, prompt):
    begin = time.perf_counter()
    server.complete(prompt=prompt, max_tokens=1, seed=1)
    return 1e3 * (time.perf_counter() - begin)


def prompts(server, o):
    words = random.Random(1)
    known = [words.randrange(1, 200) for _ in range(o.tokens)]
    new = first_token(server, known)
    times = {"one token, new": [], "the same token again": [], f"the same {o.tokens} tokens again": []}
    for i in range(min(200, 4 * o.repeat)):
        for name, prompt in zip(times, ([i + 1], [i + 1], known)):
            times[name].append(first_token(server, prompt))
    print(f"{o.tokens} tokens, new: {new:.1f} ms")
    for name, t in times.items():
        print(f"{name}: {statistics.median(t):.2f} ms ({min(t):.2f} to {max(t):.2f})")


def sessions(server, o):
    first = json.loads(server.ask("POST", "/v1/sessions", {"prompt": "a " * (o.tokens // 2)}))["id"]
    tokens = json.loads(server.ask("GET", f"/v1/sessions/{first}"))["position"]
    state = server.ask("GET", f"/v1/sessions/{first}/state")
    header = int.from_bytes(state[:8], "little")
    named = {k: v for k, v in json.loads(state[8 : 8 + header]).items() if k != "__metadata__"}
    numbers = sum(v["data_offsets"][1] - v["data_offsets"][0] for v in named.values())
    server.ask("POST", "/v1/sessions/import", state)  # what the first import costs once
    before, counted, begin = server.resident(), server.metric("tost_session_bytes"), time.perf_counter()
    for _ in range(o.count):
        server.ask("POST", "/v1/sessions/import", state)
    seconds = time.perf_counter() - begin
    grown, counted = server.resident() - before, server.metric("tost_session_bytes") - counted
    print(f"a state after {tokens} tokens: {numbers} bytes of numbers, {len(state)} as a file")
    print(f"{o.count} sessions: /metrics counts {counted / o.count:.0f} bytes each, resident memory grew by "
          f"{grown / o.count:.0f} each ({100 * (grown / o.count / numbers - 1):+.1f} % of the numbers); "
          f"{1e3 * seconds / o.count:.2f} ms an import")
    if "--sessions" not in shlex.split(o.flags):
        return
    end = time.monotonic() + 600
    while server.metric("tost_session_bytes") > 0 and time.monotonic() < end:
        time.sleep(1)
    left = server.metric("tost_session_bytes")
    print(f"gone to disk: {left:.0f} bytes counted in memory, resident memory {(server.resident() - before) / 2**20:+.0f} MiB "
          f"against the beginning, {server.metric('tost_sessions'):.0f} sessions")


def request_bytes(body, path="/v1/completions", length=None, more=b""):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body) if length is None else length}\r\n"
    return head.encode() + more + b"\r\n" + body


def bad_requests(chance):
    """What a hostile client sends at once."""
    noise = chance.randbytes(chance.randrange(1, 5000))
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + noise).decode()
    return chance.choice([
        lambda: noise,
        lambda: b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000,
        lambda: request_bytes(b"[" * 10_000),
        lambda: request_bytes(b'{"prompt": "' + noise + b'"}'),
        lambda: request_bytes(b"{}", length=1 << 60),
        lambda: request_bytes(b"{}", length=-1),
        lambda: request_bytes(b"x" * (1 << 20)),
        lambda: request_bytes(b"5\r\nabc", more=b"Transfer-Encoding: chunked\r\n"),
        lambda: request_bytes(json.dumps({"images": picture}).encode(), "/v1/classify"),
        lambda: request_bytes(noise, "/v1/sessions/import"),
        lambda: request_bytes(json.dumps({"prompt": "a", "max_tokens": chance.choice([-1, 1e99, "x"])}).encode()),
        lambda: request_bytes(b'{"prompt": "a", "max_tokens": 500, "stream": true}'),  # and leaves
    ])()


def attackers(port, count, stop, counted):
    """Threads of a process of their own, which leaves the processor to the server and to honest clients."""
    os.nice(10)
    counts = {"whole": 0, "bytes": 0, "silent": 0}
    clients = [threading.Thread(target=attack, args=(port, i, stop, counts)) for i in range(count)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    counted.put(sum(counts.values()))


def attack(port, seed, stop, counts):
    chance = random.Random(seed)
    while not stop.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                data, how = bad_requests(chance), chance.choice(["whole"] * 8 + ["bytes", "silent"])
                counts[how] += 1
                if how == "whole":
                    client.sendall(data)
                    client.recv(chance.randrange(1, 2000))
                elif how == "bytes":
                    for i in range(min(40, len(data))):
                        client.sendall(data[i : i + 1])
                        time.sleep(0.05)
                else:
                    stop.wait(chance.random() * 3)
        except OSError:
            time.sleep(0.01)  # refused or closed: as it should be


def honest(server, seconds, wanted):
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.perf_counter()
        if server.complete(prompt="The", max_tokens=20, seed=1)["choices"][0]["text"] != wanted:
            sys.exit("An honest client got another text than alone.")
        times.append(1e3 * (time.perf_counter() - begin))
    return times


def hostile(server, o):
    wanted = server.complete(prompt="The", max_tokens=20, seed=1)["choices"][0]["text"]
    quiet = honest(server, min(30, o.seconds), wanted)
    before, stop, counted = server.resident(), multiprocessing.Event(), multiprocessing.Queue()
    hostile_ones = multiprocessing.Process(target=attackers, args=(server.port, o.streams, stop, counted), daemon=True)
    hostile_ones.start()
    crowded = honest(server, o.seconds, wanted)
    stop.set()
    connections = counted.get()
    hostile_ones.join()
    for name, t in (("alone", quiet), (f"next to {o.streams} hostile clients", crowded)):
        t.sort()
        print(f"an honest client {name}: {len(t)} texts, p50 {t[len(t) // 2]:.1f} ms, p99 {t[int(0.99 * len(t))]:.1f} ms")
    print(f"{connections} hostile connections; resident memory {before / 2**20:.0f} MiB before, "
          f"{server.resident() / 2**20:.0f} MiB after")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("what", choices=["start", "texts", "prompts", "sessions", "hostile"])
    parser.add_argument("--picture", help="a file, for start: MODEL is of pictures")
    parser.add_argument("--flags", default="", help="of tost serve")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--tokens", type=int, help="default: 150 for texts, 4096 for prompts, 100000 for sessions")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--repeat", type=int, default=3)
    o = parser.parse_args()
    o.tokens = o.tokens or {"prompts": 4096, "sessions": 100_000}.get(o.what, 150)
    flags = shlex.split(o.flags)
    if o.what == "sessions":
        flags += ["--session-bytes", str(1 << 40), "--max-sessions", str(o.count + 10)]
    server = Server(o.program, o.model, flags)
    try:
        {"start": start, "texts": texts, "prompts": prompts, "sessions": sessions, "hostile": hostile}[o.what](server, o)
    finally:
        server.end()


if __name__ == "__main__":
    main()
