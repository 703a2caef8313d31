#!/usr/bin/env python3
"""Whether a server of OpenAI's type gives a prompt the same tokens in every state of its caches and in any company.

usage: bench/conformance.py URL [--model NAME] [--key KEY] [--start COMMAND] [options]

URL is that of the server without /v1, as http://127.0.0.1:8080. Needs only Python's standard library. Each prompt is
asked for once, cold, greedily and with a seed. That answer must come again in each of these cases:

  warm       the same request again; streamed
  beginning  after longer prompts that begin with it, and after its own beginnings
  company    all prompts at once, three times over
  evicted    after --evict long prompts that push it out of caches
  evicting   all prompts at once while others push them out
  restored   after the server was killed and started again (with --start, the command that serves at URL)

Where the server stores states (/v1/responses, and tost's /v1/sessions), a text that continues one must be that of another
with the same history:

  responses  two answers to one previous_response_id, alone and at once
  forked     a session, its fork, and a session of the same history; in company
  carried    a session exported and imported
  kept       a saved session after the server was killed (with --start)

The exit status is 0 if nothing differed, 1 if anything did. Cases for which the server has no path are named as skipped.
"""
import argparse
import collections
import concurrent.futures
import http.client
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
import urllib.parse

WORDS = "the a king river house old small light war of in and to was he she city north ship year music born found great".split()


class Missing(Exception):
    """The server has no such path."""


class Server:
    def __init__(self, o):
        url = urllib.parse.urlsplit(o.url if "://" in o.url else "http://" + o.url)
        self.kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self.place, self.root = url.netloc, url.path.rstrip("/")
        self.key, self.model, self.o = o.key, o.model, o

    def raw(self, method, path, body=None, timeout=1200):
        headers = {"Authorization": "Bearer " + self.key} if self.key else {}
        if body is not None:
            headers["Content-Type"] = "application/octet-stream" if isinstance(body, bytes) else "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body)
        for _ in range(600):
            connection = self.kind(self.place, timeout=timeout)
            try:
                connection.request(method, self.root + path, body, headers)
                reply = connection.getresponse()
                data = reply.read()
            finally:
                connection.close()
            if reply.status not in (429, 503):  # full: come again
                return reply.status, data
            time.sleep(0.1)
        sys.exit(f"{method} {path}: the server was full for a minute.")

    def ask(self, method, path, body=None):
        status, data = self.raw(method, path, body)
        if status in (404, 405, 501):
            raise Missing(f"{method} {path}: status {status}")
        if status != 200:
            sys.exit(f"{method} {path}: status {status}, {data[:300]!r}")
        return json.loads(data)

    def complete(self, ask, stream=False, **more):
        """What a request gave: its text, and with --bits the log-probabilities as they were printed."""
        prompt, temperature, seed = ask
        body = {"model": self.model, "max_tokens": self.o.tokens, "temperature": temperature, "seed": seed, **more}
        body.update({"prompt": prompt} if prompt else {})
        body.update({"logprobs": 1} if self.o.bits else {})
        if not stream:
            choice = self.ask("POST", "/v1/completions", body)["choices"][0]
            return choice["text"], (choice.get("logprobs") or {}).get("token_logprobs")
        status, data = self.raw("POST", "/v1/completions", {**body, "stream": True})
        parts = [json.loads(line[6:])["choices"] for line in data.decode().splitlines()
                 if line.startswith("data: ") and line != "data: [DONE]"]
        choices = [part[0] for part in parts if part]
        numbers = [n for c in choices for n in (c.get("logprobs") or {}).get("token_logprobs", [])]
        return "".join(c["text"] for c in choices), numbers if self.o.bits else None


class Process:
    def __init__(self, command, server):
        self.command, self.server = shlex.split(command), server
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.process.poll() is None:
            try:
                if self.server.raw("GET", "/v1/models", timeout=10)[0] == 200:
                    return
            except OSError:
                time.sleep(0.1)
        sys.exit("The server did not start; run it by hand to see why: " + shlex.join(self.command))

    def kill_and_start(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.start()

    def end(self):
        self.process.terminate()
        self.process.wait(120)


class Report:
    def __init__(self):
        self.equal, self.different, self.first = collections.Counter(), collections.Counter(), {}

    def compare(self, case, found, wanted, what):
        if found == wanted:
            self.equal[case] += 1
            return
        self.different[case] += 1
        self.first.setdefault(case, f"first: {str(what)[:60]!r} gave {str(found)[:120]!r} instead of {str(wanted)[:120]!r}")

    def show(self):
        for case in {**self.equal, **self.different}:
            print(f"{case:10s} {self.equal[case]:6d} equal {self.different[case]:6d} different  {self.first.get(case, '')}")


def words(chance, count):
    return " ".join(chance.choice(WORDS) for _ in range(count))


def push_out(server, chance, count):
    for _ in range(count):
        server.complete((words(chance, server.o.most_words), 0, 1), max_tokens=1)


def together(server, asks, streams):
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        return list(pool.map(server.complete, asks))


def prompts(server, report, process, chance):
    """Of every length about the edges of the pieces in which servers cache: some begin like others, some like none."""
    o = server.o
    longest = words(chance, o.most_words).split()
    lengths = sorted({1, 2, o.most_words, *(n + d for n in (16, 64, 256) for d in (-1, 0, 1) if n < o.most_words)})
    texts = [" ".join(longest[:n]) for n in lengths] + [words(chance, n) for n in lengths]
    asks = [(text, temperature, seed) for seed, text in enumerate(texts) for temperature in (0, 0.8)]
    chance.shuffle(asks)
    cold = {ask: server.complete(ask) for ask in asks}
    check = lambda case, ask, found: report.compare(case, found, cold[ask], ask[0])
    for ask in asks:
        check("warm", ask, server.complete(ask))
        check("warm", ask, server.complete(ask, stream=True))
    for ask in asks:
        text = ask[0].split()
        for other in (ask[0] + " " + words(chance, 30), " ".join(text[: len(text) // 2]) or "a"):
            server.complete((other, *ask[1:]), max_tokens=1)
        check("beginning", ask, server.complete(ask))
    many = asks * 3
    chance.shuffle(many)
    for ask, found in zip(many, together(server, many, o.streams)):
        check("company", ask, found)
    push_out(server, chance, o.evict)
    for ask in asks:
        check("evicted", ask, server.complete(ask))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pushing = pool.submit(push_out, server, random.Random(o.seed), o.evict)
        for ask, found in zip(many, together(server, many, o.streams)):
            check("evicting", ask, found)
        pushing.result()
    if process is None:
        raise Missing("restored: without --start")
    process.kill_and_start()
    for ask in asks:
        check("restored", ask, server.complete(ask))


def responses(server, report, process, chance):
    def answer(text, previous=None):
        body = {"model": server.model, "input": text, "max_output_tokens": server.o.tokens, "temperature": 0}
        said = server.ask("POST", "/v1/responses", {**body, **({"previous_response_id": previous} if previous else {})})
        return said["id"], [part["text"] for item in said["output"] for part in item.get("content") or []]

    for length in (1, 30, server.o.most_words // 2):
        first = answer(words(chance, length))[0]
        more = [words(chance, 5) for _ in range(4)]
        wanted = [answer(text, first)[1] for text in more]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for text, found in zip(more * 2, pool.map(lambda text: answer(text, first)[1], more * 2)):
                report.compare("responses", found, wanted[more.index(text)], text)


def sessions(server, report, process, chance):
    """Turns of several stories at once, each against a session that has the same turns alone."""
    o = server.o
    new = lambda text: server.ask("POST", "/v1/sessions", {"model": server.model, "prompt": text})["id"]
    turn = lambda session, ask: server.complete(ask, session=session)
    made, used = [], []

    def alone(history):
        session = new(history[0])
        used.append(session)
        return [turn(session, ask) for ask in history[1:]]

    for i in range(o.sessions):
        history = [words(chance, 1 + chance.randrange(o.most_words // 2)), *((words(chance, n), 0.8, i) for n in (0, 3, 1, 2))]
        made.append((new(history[0]), history))
    wanted = [alone(history) for _, history in made]

    def live(i, at, session, case):
        report.compare(case, turn(session, made[i][1][1 + at]), wanted[i][at], session)

    with concurrent.futures.ThreadPoolExecutor(o.streams) as pool:
        run = lambda work: list(pool.map(work, range(len(made))))
        run(lambda i: live(i, 0, made[i][0], "forked"))
        forks = run(lambda i: server.ask("POST", f"/v1/sessions/{made[i][0]}/fork", {})["id"])
        run(lambda i: live(i, 1, made[i][0], "forked"))
        run(lambda i: live(i, 1, forks[i], "forked"))
        states = run(lambda i: server.raw("GET", f"/v1/sessions/{made[i][0]}/state")[1])
        query = "?model=" + urllib.parse.quote(server.model)
        carried = run(lambda i: server.ask("POST", "/v1/sessions/import" + query, states[i])["id"])
        run(lambda i: live(i, 2, carried[i], "carried"))
        if process is not None:
            saved = run(lambda i: server.ask("POST", f"/v1/sessions/{carried[i]}/save", {})["id"])
            process.kill_and_start()
            run(lambda i: live(i, 3, saved[i], "kept"))
        for session in [*used, *carried, *forks, *(session for session, _ in made)]:
            server.raw("DELETE", f"/v1/sessions/{session}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", help="default: the first that the server lists")
    parser.add_argument("--key", default=os.environ.get("OPENAI_API_KEY", ""))
    parser.add_argument("--start", help="command that starts the server at URL; it is killed and started again on the way")
    parser.add_argument("--bits", action="store_true", help="compare log-probabilities as well, digit by digit")
    parser.add_argument("--tokens", type=int, default=16, help="of each text")
    parser.add_argument("--most-words", type=int, default=400, help="of a prompt, for models of a limited context")
    parser.add_argument("--evict", type=int, default=40)
    parser.add_argument("--streams", type=int, default=24, help="requests at a time")
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    server, report = Server(o), Report()
    process = Process(o.start, server) if o.start else None
    server.model = server.model or server.ask("GET", "/v1/models")["data"][0]["id"]
    try:
        for group in (prompts, responses, sessions):
            try:
                group(server, report, process, random.Random(o.seed))
            except Missing as why:
                print(f"skipped: {why}")
    finally:
        if process is not None:
            process.end()
    report.show()
    sys.exit(1 if report.different else 0)


if __name__ == "__main__":
    main()
