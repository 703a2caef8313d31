#!/usr/bin/env python3
"""The server as clients meet it: over loopback, with Python's standard library.

usage: cli_serve_test.py TOST [unittest arguments]
"""
import base64
import concurrent.futures
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import cli_test
from cli_test import run

TEXT = "".join(f"the {word} sees the {word} .\n" for word in ["cat", "dog", "bird", "fish"] * 60).encode()
TEMPLATE = {"system": "S: {content}\n", "user": "U: {content}\n", "assistant": "A: {content}\n", "reply": "A:", "stop": ["\nU:"]}


class Reply:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def events(self):
        lines = [part for part in self.body.decode().split("\n\n") if part]
        return [line.split("data: ", 1)[1] for line in lines]


class Server:
    """A running server; `flags` follow the models."""

    def __init__(self, *flags, env=None):
        self.log = tempfile.TemporaryFile("a+")  # the server appends, wherever line_of() reads
        self.process = subprocess.Popen([cli_test.TOST, "serve", *map(str, flags), "--port", "0"], text=True, stderr=self.log,
                                        stdout=subprocess.PIPE, env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+:(\d+)/", line)
        if not found:
            self.log.seek(0)
            raise AssertionError(f"the server did not start: {line!r} {self.log.read()[-2000:]}")
        self.port = int(found[1])

    def ask(self, method, path, body=None, headers=None, timeout=900):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
        try:
            connection.request(method, path, body, headers or {})
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def post(self, path, body, **more):
        return self.ask("POST", path, body, **more)

    def complete(self, **fields):
        reply = self.post("/v1/completions", fields)
        assert reply.status == 200, reply.body
        return reply.json["choices"][0]["text"]

    def metric(self, name):
        text = self.ask("GET", "/metrics").body.decode()
        return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(300)
        self.process.stdout.close()
        self.log.close()
        return code

    def line_of(self, request):
        """What the log says of a request: its line may follow the answer."""
        end = time.monotonic() + 300
        while time.monotonic() < end:
            self.log.seek(0)
            for line in self.log.read().splitlines(keepends=True):
                entry = json.loads(line) if line.startswith("{") and line.endswith("\n") else {}
                if entry.get("id") == request:
                    return entry
            time.sleep(0.01)
        raise AssertionError(f"no line of request {request}")


class Case(cli_test.Case):
    alone = False  # the language model without a classifier

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        home = pathlib.Path(cls.home.name)
        (home / "text.txt").write_bytes(TEXT)
        cls.lm, cls.pictures = home / "lm", home / "run"
        common = ["--quiet", "--max-steps", "20"]
        run("train", "--data", home / "text.txt", "--recipe", "char", "--tokenizer", "bytes", "--model", "tost_gpt_char",
            "--positions", "none", "--out", cls.lm, *common)
        if not cls.alone:
            run("train", *cli_test.TINY, "--out", cls.pictures, "--quiet")
        (home / "chat.json").write_text(json.dumps(TEMPLATE))
        cls.sessions = home / "sessions"
        cls.server = Server(cls.lm, *([] if cls.alone else [f"pictures={cls.pictures}"]), "--chat-template", home / "chat.json", "--sessions",
                            cls.sessions, "--max-body", 1 << 20, "--header-seconds", 5)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        cls.home.cleanup()

    def picture(self):
        run("data", "make", "shapes", "--split", "test", "--count", "1", "--out", self.dir / "p", "--quiet")
        return next((self.dir / "p").rglob("*.png")).read_bytes()

    def refused(self, reply, status, *says):
        self.assertEqual(reply.status, status, reply.body)
        error = reply.json["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        for word in says:
            self.assertIn(word, error["message"])
        return error


class Language(Case):
    def test_completions(self):
        body = {"model": "lm", "prompt": "the cat", "max_tokens": 12, "seed": 4, "temperature": 0.7, "top_k": 20, "n": 2,
                "logprobs": 3}
        reply = self.server.post("/v1/completions", body)
        self.assertEqual(reply.status, 200, reply.body)
        answer = reply.json
        self.assertEqual((answer["object"], answer["model"]), ("text_completion", "lm"))
        self.assertEqual([c["index"] for c in answer["choices"]], [0, 1])
        self.assertEqual({c["finish_reason"] for c in answer["choices"]}, {"length"})
        self.assertEqual(answer["usage"]["completion_tokens"], 24)
        probabilities = answer["choices"][0]["logprobs"]
        self.assertEqual([len(probabilities[k]) for k in ("tokens", "token_logprobs", "top_logprobs")], [12] * 3)
        # Parts of characters have keys of their own.
        self.assertTrue(all(len(top) == 3 for top in probabilities["top_logprobs"]))
        self.assertNotIn("\ufffd", "".join(key for top in probabilities["top_logprobs"] for key in top))
        self.assertTrue(all(value <= 0 for value in probabilities["token_logprobs"]))
        self.assertEqual("".join(probabilities["tokens"]), answer["choices"][0]["text"])
        self.assertEqual(self.server.post("/v1/completions", body).json["choices"], answer["choices"])

        streamed = self.server.post("/v1/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
        self.assertEqual(streamed.headers["Content-Type"], "text/event-stream")
        *events, done = streamed.events
        self.assertEqual(done, "[DONE]")
        events = [json.loads(event) for event in events]
        for choice in answer["choices"]:
            parts = [e["choices"][0] for e in events if e["choices"] and e["choices"][0]["index"] == choice["index"]]
            self.assertEqual("".join(p["text"] for p in parts), choice["text"])
            self.assertEqual([p["finish_reason"] for p in parts if p["finish_reason"]], ["length"])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], 24)

    def test_a_text_is_the_program_s(self):
        said = json.loads(run("generate", self.lm, "--prompt", "the cat", "--max-tokens", "20", "--seed", "4", "--json",
                              "--ignore-end").stdout)["texts"][0]["text"]
        self.assertEqual(self.server.complete(prompt="the cat", max_tokens=20, seed=4, ignore_eos=True), said)

    def test_stops(self):
        whole = self.server.complete(prompt="the", max_tokens=40, temperature=0)
        word = whole[10:13]
        reply = self.server.post("/v1/completions", {"prompt": "the", "max_tokens": 40, "temperature": 0, "stop": word})
        self.assertEqual(reply.json["choices"][0]["text"], whole[:whole.index(word)])
        self.assertEqual(reply.json["choices"][0]["finish_reason"], "stop")

    def test_prompts_of_every_form(self):
        texts = [self.server.complete(prompt=p, max_tokens=8, seed=1) for p in ("the", [[116, 104, 101]], [116, 104, 101], ["the"])]
        self.assertEqual(len(set(texts)), 1)
        many = self.server.post("/v1/completions", {"prompt": ["the", "cat"], "max_tokens": 8, "seed": 1}).json["choices"]
        self.assertEqual(many[0]["text"], texts[0])

    def test_interleaved_texts_are_those_of_each_alone(self):
        random.seed(2)
        bodies = [{"prompt": "the cat sees " * random.choice([1, 3, 60]) + str(i), "max_tokens": random.randint(1, 40), "seed": i}
                  for i in range(60)]
        alone = [self.server.complete(**body) for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(30) as pool:
            together = list(pool.map(lambda body: self.server.complete(**body), bodies))
        self.assertEqual(together, alone)

    def test_chat(self):
        messages = [{"role": "system", "content": "Be"}, {"role": "user", "content": [{"type": "text", "text": "the cat"}]}]
        body = {"messages": messages, "max_tokens": 10, "seed": 3, "logprobs": True, "top_logprobs": 2}
        answer = self.server.post("/v1/chat/completions", body).json
        self.assertEqual(answer["object"], "chat.completion")
        text = answer["choices"][0]["message"]["content"]
        self.assertEqual(text, self.server.complete(prompt="S: Be\nU: the cat\nA:", max_tokens=10, seed=3))
        self.assertEqual(len(answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]), 2)
        *events, done = self.server.post("/v1/chat/completions", {**body, "stream": True}).events
        deltas = [json.loads(e)["choices"][0]["delta"] for e in events]
        self.assertEqual(deltas[0]["role"], "assistant")
        self.assertEqual("".join(d.get("content", "") for d in deltas), text)
        roles = [{"role": "developer", "content": "Be"}, {"role": "user", "content": "the"}, {"role": "assistant", "content": None},
                 {"role": "user", "content": "cat"}]
        said = self.server.post("/v1/chat/completions", {"messages": roles, "max_tokens": 10, "seed": 3}).json
        self.assertEqual(said["choices"][0]["message"]["content"],
                         self.server.complete(prompt="S: Be\nU: the\nA: \nU: cat\nA:", max_tokens=10, seed=3, stop="\nU:"))
        plain = {"tool_choice": "auto", "parallel_tool_calls": True, "reasoning_effort": "low", "response_format": {"type": "text"}}
        self.assertEqual(self.server.post("/v1/chat/completions", {**body, **plain}).json["choices"], answer["choices"])
        for wrong in ({"tool_choice": "required"}, {"response_format": {"type": "json_object"}},
                      {"tools": [{"type": "function", "function": {"name": "f"}}]},
                      {"messages": [{"role": "user", "content": None}]},
                      {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]}):
            self.refused(self.server.post("/v1/chat/completions", {**body, **wrong}), 400)
        self.refused(self.server.post("/v1/chat/completions", {"messages": [{"role": "x", "content": "y"}]}), 400, "role")
        self.refused(self.server.post("/v1/chat/completions", {"messages": "hello"}), 400, "list")

    def test_tokens_and_embeddings(self):
        self.assertEqual(self.server.post("/tokenize", {"content": "the"}).json, {"tokens": [116, 104, 101], "count": 3})
        self.assertEqual(self.server.post("/detokenize", {"tokens": [116, 104, 101]}).json, {"prompt": "the"})
        answer = self.server.post("/v1/embeddings", {"input": ["the cat", "the dog"], "model": "lm"}).json
        vectors = [item["embedding"] for item in answer["data"]]
        self.assertAlmostEqual(sum(x * x for x in vectors[0]), 1, places=4)
        self.assertGreater(max(abs(a - b) for a, b in zip(*vectors)), 1e-3)
        coded = self.server.post("/v1/embeddings", {"input": "the cat", "encoding_format": "base64"}).json["data"][0]["embedding"]
        for a, b in zip(struct.unpack(f"<{len(vectors[0])}f", base64.b64decode(coded)), vectors[0], strict=True):
            self.assertAlmostEqual(a, b, places=6)

    def test_wrong_fields(self):
        post = lambda **fields: self.server.post("/v1/completions", {"prompt": "the", **fields})
        self.refused(post(temprature=1), 400, "Did you mean 'temperature'?")
        self.assertEqual(self.refused(post(temperature="hot"), 400, "number")["param"], "temperature")
        self.refused(post(max_tokens=-1), 400, "max_tokens")
        self.refused(post(max_tokens=1.5), 400, "max_tokens")
        self.refused(post(n=1000), 400, "'n'")
        self.refused(post(best_of=3), 400, "best_of")
        self.refused(post(top_p=0), 400, "top-p")
        self.assertEqual(self.refused(post(model="gpt-4"), 404, "lm")["code"], "model_not_found")
        if not self.alone:
            self.refused(post(model="pictures"), 400, "language model")
        self.refused(self.server.post("/v1/completions", {}), 400, "prompt")
        self.refused(self.server.post("/v1/completions", {"prompt": ""}), 400, "empty")
        self.refused(self.server.post("/v1/completions", {"prompt": [999999]}), 400, "vocabulary")
        for body in ("", "{", "[]", "[" * 10_000, '{"a":' * 10_000, b'{"prompt": "\xff"}', '{"prompt": "a", "prompt": "b"}'):
            self.refused(self.server.ask("POST", "/v1/completions", body), 400)
        self.refused(self.server.ask("POST", "/v1/completions", "x" * (1 << 21)), 413)
        self.refused(self.server.ask("GET", "/v1/completions"), 405, "POST")
        self.refused(self.server.ask("GET", "/nothing"), 404)
        self.refused(self.server.ask("GET", "/v1/models/nothing"), 404, "lm")

    def test_prompts_have_a_limit_of_tokens(self):
        server = Server(self.lm, "--max-prompt", 10, "--max-prompts", 30, "--max-texts", 20)
        self.addCleanup(server.end)
        said = self.refused(server.post("/v1/completions", {"prompt": [97] * 11}), 400, "10")
        self.assertEqual(said["code"], "context_length_exceeded")
        # One prompt is counted once, however many texts share it.
        reply = server.post("/v1/completions", {"prompt": [97] * 10, "n": 16, "max_tokens": 1})
        self.assertEqual((reply.status, reply.json["usage"]["prompt_tokens"]), (200, 10))
        self.refused(server.post("/v1/completions", {"prompt": [[i] * 10 for i in range(4)]}), 429)
        while server.metric("tost_held_prompt_tokens") > 0:  # until the texts that were answered are let go
            time.sleep(0.01)

    def test_leaving_ends_a_text(self):
        abandoned = lambda: self.server.metric("tost_abandoned_total")
        deadline = time.monotonic() + 300
        for stream in (True, False):
            before = abandoned()
            # A busy machine may write a whole text before the client gets to leave.
            while abandoned() == before and time.monotonic() < deadline:
                client = socket.create_connection(("127.0.0.1", self.server.port))
                body = json.dumps({"prompt": "the", "max_tokens": 4096, "stream": stream, "ignore_eos": True})
                client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
                if stream:
                    client.recv(100)
                client.close()
                time.sleep(0.05)
            self.assertGreater(abandoned(), before)
        while self.server.metric("tost_running_texts") > 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(self.server.metric("tost_running_texts"), 0)


class WithoutTorch(Language):
    """The same of the small program."""
    alone = True
    full = ["--tokenizer", "bytes"]  # a flag of the full program, which changes nothing here

    def uses_torch(self, server):
        return "libtorch" in pathlib.Path(f"/proc/{server.process.pid}/maps").read_text()

    def test_explanations_are_those_of_the_full_program_and_of_explain(self):
        text = "the cat sees the dog . " * 8
        server = Server(self.lm, *self.full)
        try:
            shown = [s.post("/v1/explain", {"text": text}).json for s in (self.server, server)]
            self.assertEqual([self.uses_torch(s) for s in (self.server, server)], [False, True])
        finally:
            server.end()
        self.assertEqual(*shown)
        report = json.loads(run("explain", self.lm, "--text", text, "--out", self.dir / "r", "--json", "--samples", "1", "--quiet").stdout)
        near = lambda found, wanted: self.assertLess(max(abs(a - b) for a, b in zip(found, wanted, strict=True)), 6e-5)
        near(shown[0]["surprisal"], report["passage"]["token_loss"])
        for found, wanted in zip(shown[0]["layers"], report["layers"], strict=True):
            near(found["effect"], wanted["own_effect"])
            near(found["entropy"], wanted["entropy"])
            for head, of_report in zip(found["memberships"], wanted["membership"], strict=True):
                near(head, of_report)

    def test_pictures_are_explained_as_by_the_full_program(self):
        picture = base64.b64encode(self.picture()).decode()
        for model in ("shapes", "fashion"):
            shown = []
            for flags in ([], self.full):
                server = Server(model, "--precision", "fp32", *flags)
                try:
                    shown.append(server.post("/v1/explain", {"image": picture}).json)
                    self.assertEqual(self.uses_torch(server), bool(flags))
                finally:
                    server.end()
            self.near(*shown)
            self.assertGreater(shown[0]["layers"][0]["compression"]["after"], 0)

    def near(self, found, wanted, place=""):
        """Compares numbers within 1e-5, relative beyond 1; the most likely head may change where two are close."""
        if isinstance(wanted, dict):
            self.assertEqual(found.keys(), wanted.keys())
            for key in wanted.keys() - {"likeliest_head"}:
                self.near(found[key], wanted[key], f"{place}/{key}")
        elif isinstance(wanted, list):
            self.assertEqual(len(found), len(wanted))
            for i, (a, b) in enumerate(zip(found, wanted)):
                self.near(a, b, f"{place}/{i}")
        elif isinstance(wanted, float):
            step = 1.01e-4 if "norms" in place else 0  # norms are rounded
            self.assertLessEqual(abs(found - wanted), step + 1e-5 * max(1, abs(wanted)), place)
        else:
            self.assertEqual(found, wanted, place)

    def test_it_may_be_served_without_explanations(self):
        server = Server(self.lm, "--no-explain")
        try:
            self.refused(server.post("/v1/explain", {"text": "the cat"}), 501, "'lm'", "--no-explain")
            self.assertIs(server.ask("GET", "/v1/models/lm").json["explains"], False)
        finally:
            server.end()

    def test_a_session_goes_from_one_program_to_the_other(self):
        asked = {"max_tokens": 12, "temperature": 0}
        whole = self.server.complete(prompt="the cat sees", **{**asked, "max_tokens": 48})
        text, session = "", None
        for flags in (self.full, []) * 2:
            server = Server(self.lm, *flags, "--sessions", self.dir / "states")
            try:
                session = session or server.post("/v1/sessions", {"prompt": "the cat sees"}).json["id"]
                text += server.complete(session=session, **asked)
            finally:
                server.end()
        self.assertEqual(text, whole)


class Sessions(Case):
    def new(self, prompt="the cat sees"):
        reply = self.server.post("/v1/sessions", {"prompt": prompt})
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json["id"]

    def go_on(self, session, **fields):
        return self.server.complete(session=session, max_tokens=10, seed=5, **fields)

    def test_forks_go_their_own_ways(self):
        first = self.new()
        second = self.server.post(f"/v1/sessions/{first}/fork", {}).json["id"]
        third = self.server.post("/v1/sessions", {"from": first}).json["id"]
        a, b, c = (self.go_on(s) for s in (first, second, third))
        self.assertEqual((a, a), (b, c))
        self.assertEqual(self.go_on(first, prompt=" and"), self.go_on(second, prompt=" and"))
        self.assertNotEqual(self.server.ask("GET", f"/v1/sessions/{first}").json["position"],
                            self.server.ask("GET", f"/v1/sessions/{third}").json["position"])
        self.assertEqual(self.server.ask("DELETE", f"/v1/sessions/{first}").status, 200)
        self.refused(self.server.post("/v1/completions", {"session": first}), 404, first)
        self.go_on(second)

    def test_a_session_of_one_token_continues(self):
        self.assertEqual(self.server.complete(session=self.new("t"), max_tokens=8, temperature=0),
                         self.server.complete(prompt="t", max_tokens=8, temperature=0))

    def test_events_tell_the_position(self):
        session, show = self.new(), lambda: self.server.ask("GET", f"/v1/sessions/{session}").json
        body = {"session": session, "max_tokens": 12, "stream": True, "logprobs": 0, "ignore_eos": True, "temperature": 0}
        events = [json.loads(e) for e in self.server.post("/v1/completions", body).events[:-1]]
        first = events[0]["position"]
        self.assertEqual([e["position"] for e in events], [*range(first, first + 12), first + 11])
        self.assertEqual(show()["position"], first + 11)
        go_on = lambda place: self.server.post("/v1/completions", {"session": session, "max_tokens": 2, "from_position": place})
        error = self.refused(go_on(first), 409, f"position {first + 11}")
        self.assertEqual((error["param"], error["code"]), ("from_position", "session_moved"))
        self.assertEqual(show()["position"], first + 11)
        self.assertEqual(go_on(first + 11).json["position"], first + 13)
        self.refused(self.server.post("/v1/completions", {"prompt": "the", "from_position": 3}), 400, "session")

    def test_pages_of_sessions(self):
        server = Server(self.lm)
        self.addCleanup(server.end)
        made = sorted(server.post("/v1/sessions", {"prompt": "the"}).json["id"] for _ in range(5))
        pages, after, more = [], "", True
        while more:
            page = server.ask("GET", f"/v1/sessions?after={after}&limit=2").json
            pages.append([s["id"] for s in page["data"]])
            after, more = page["last_id"], page["has_more"]
        self.assertEqual(pages, [made[:2], made[2:4], made[4:]])
        self.assertEqual([s["id"] for s in server.ask("GET", "/v1/sessions").json["data"]], made)
        for limit in ("0", "1001", "x", "-1", "99999999999999999999"):
            self.refused(server.ask("GET", "/v1/sessions?limit=" + limit), 400, "limit")

    def test_an_ending_leaves_waiting_sessions_as_they_are(self):
        flags = [self.lm, "--sessions", self.dir / "kept", "--batch", 1, "--drain-seconds", 0.5, "--max-tokens", 10 ** 9]
        server = Server(*flags)
        self.addCleanup(server.end)
        session = server.post("/v1/sessions", {"prompt": "the cat"}).json["id"]
        state = server.ask("GET", f"/v1/sessions/{session}/state").body
        waits = lambda count: server.metric("tost_waiting_texts") < count or server.metric("tost_running_texts") < 1
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            body = {"prompt": "the", "max_tokens": 10 ** 8, "ignore_eos": True}
            running = [pool.submit(server.post, "/v1/completions", body) for _ in range(2)]
            running.append(pool.submit(server.post, "/v1/completions", {**body, "stream": True}))
            while waits(2):
                time.sleep(0.01)
            waiting = pool.submit(server.post, "/v1/completions", {"session": session, "max_tokens": 5})
            stored = pool.submit(server.post, "/v1/responses", {"input": "the", "max_output_tokens": 5})
            while waits(4):
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            for reply in (waiting.result(), stored.result()):
                self.refused(reply, 503, "shutting down")
                self.assertEqual(reply.headers["Retry-After"], "1")
            replies = [r.result() for r in running]
        self.assertEqual(sorted(r.status for r in replies), [200, 503, 503])
        cut = next(r for r in replies if r.status == 200)
        last = json.loads(cut.events[-2]) if cut is replies[2] else cut.json
        self.assertEqual(last["choices"][0]["finish_reason"], "abort")
        self.assertEqual(server.process.wait(300), 0)
        server = Server(*flags)
        self.addCleanup(server.end)
        self.assertEqual([s["id"] for s in server.ask("GET", "/v1/sessions").json["data"]], [session])
        self.assertEqual(server.ask("GET", f"/v1/sessions/{session}/state").body, state)
        server.complete(session=session, max_tokens=5)

    def test_a_full_store_refuses_before_anything_is_written(self):
        server = Server(self.lm, "--max-sessions", 1, "--session-seconds", 1000)
        self.addCleanup(server.end)
        session = server.post("/v1/sessions", {"prompt": "the"}).json
        self.assertEqual(session["expires_at"], session["created"] + 1000)
        before = server.metric("tost_prompt_tokens_total")
        for path, body in (("/v1/responses", {"input": "the"}), ("/v1/sessions", {"prompt": "the"})):
            self.assertEqual(self.refused(server.post(path, body), 429, "remove some")["code"], "sessions_full")
        self.assertEqual(server.metric("tost_prompt_tokens_total"), before)
        self.assertEqual(server.post("/v1/responses", {"input": "the", "store": False, "max_output_tokens": 2}).status, 200)

    def test_states_travel_and_are_checked(self):
        session = self.new()
        state = self.server.ask("GET", f"/v1/sessions/{session}/state").body
        back = self.server.ask("POST", "/v1/sessions/import?model=lm", state).json["id"]
        self.assertEqual(self.go_on(back), self.go_on(session))
        self.refused(self.server.ask("POST", "/v1/sessions/import", b""), 400)
        self.refused(self.server.ask("POST", "/v1/sessions/import", state[:-1]), 400)
        length = int.from_bytes(state[:8], "little")
        other = state.replace(b'weight_sum\\":', b'weight_sum\\":1', 1)
        other = (length + 1).to_bytes(8, "little") + other[8:8 + length + 1].rstrip() + other[8 + length + 1:]
        self.refused(self.server.ask("POST", "/v1/sessions/import", other), 400)
        broken = bytearray(state)
        broken[8 + length + 6:8 + length + 8] = b"\xf8\x7f"  # the first number of the state is not one
        self.refused(self.server.ask("POST", "/v1/sessions/import", bytes(broken)), 400, "finite")
        random.seed(1)
        for _ in range(60):
            spoilt = bytearray(state)
            for _ in range(random.randint(1, 4)):
                spoilt[random.randrange(8 + length)] = random.randrange(256)
            reply = self.server.ask("POST", "/v1/sessions/import", bytes(spoilt))
            self.assertIn(reply.status, (200, 400), reply.body)
        self.go_on(back)

    def test_responses_follow_one_another(self):
        first = self.server.post("/v1/responses", {"input": "the cat", "max_output_tokens": 8, "seed": 1}).json
        self.assertEqual((first["object"], first["output"][0]["content"][0]["type"]), ("response", "output_text"))
        more = {"input": "the dog", "previous_response_id": first["id"], "max_output_tokens": 8, "seed": 2}
        second, again = (self.server.post("/v1/responses", more).json for _ in range(2))
        self.assertEqual(second["output"][0]["content"], again["output"][0]["content"])
        self.assertNotEqual(second["id"], again["id"])
        reply = self.server.post("/v1/responses", {**more, "stream": True})
        events = [json.loads(e) for e in reply.events]
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("response.created", "response.completed"))
        self.assertEqual("".join(e["delta"] for e in events if e["type"] == "response.output_text.delta"),
                         second["output"][0]["content"][0]["text"])
        self.assertEqual(self.server.ask("GET", "/v1/responses/" + second["id"]).json, second)
        self.assertEqual(self.server.ask("DELETE", "/v1/responses/" + second["id"]).status, 200)
        for method in ("GET", "DELETE"):
            for name in (second["id"], self.new()):
                self.refused(self.server.ask(method, "/v1/responses/" + name), 404)
        plain = {"text": {"format": {"type": "text"}}, "reasoning": {"effort": "low"}, "tool_choice": "auto"}
        self.assertEqual(self.server.post("/v1/responses", {**more, **plain}).json["output"], second["output"])
        self.refused(self.server.post("/v1/responses", {**more, "text": {"format": {"type": "json_object"}}}), 400, "text.format")
        loose = self.server.post("/v1/responses", {"input": "the", "store": False, "max_output_tokens": 2}).json
        self.refused(self.server.post("/v1/responses", {"input": "x", "previous_response_id": loose["id"]}), 404)

    def test_saved_sessions_survive_a_kill(self):
        folder = self.dir / "kept"
        server = Server(self.lm, "--sessions", folder)
        session = server.post("/v1/sessions", {"prompt": "the bird"}).json["id"]
        server.complete(session=session, max_tokens=7, seed=1)
        fork = server.post(f"/v1/sessions/{session}/fork", {}).json["id"]
        self.assertTrue(server.post(f"/v1/sessions/{session}/save", {}).json["saved"])
        wanted = server.complete(session=fork, max_tokens=20, seed=2)
        server.end(signal.SIGKILL)
        server = Server(self.lm, "--sessions", folder)
        self.assertEqual(server.complete(session=session, max_tokens=20, seed=2), wanted)
        self.refused(server.post("/v1/completions", {"session": fork}), 404)
        self.assertEqual(server.end(), 0)  # and SIGTERM saves what there is
        server = Server(self.lm, "--sessions", folder)
        self.assertEqual([s["id"] for s in server.ask("GET", "/v1/sessions").json["data"]], [session])
        server.end()


    def test_many_sessions_at_once_are_those_of_each_alone(self):
        count, chance, texts = int(os.environ.get("TOST_TEST_SESSIONS", 60)), random.Random(7), {}
        asked = [[{"prompt": chance.choice([" the cat", " and", " sees the bird ." * 20]), "max_tokens": chance.randint(1, 12),
                   "seed": i, "ignore_eos": True} for _ in range(4)] for i in range(count)]
        begin = lambda server, i: server.post("/v1/sessions", {"prompt": f"the {i} " * chance.choice([1, 60])}).json["id"]
        alone = []
        server = Server(self.lm, "--prefix-bytes", 0, "--batch", 1)
        self.addCleanup(server.end)
        chance.seed(8)
        for i in range(count):
            session = begin(server, i)
            alone.append([server.complete(session=session, **turn) for turn in asked[i]])
        server.end()
        # Few of them fit into memory, and the server is killed in the middle.
        flags = [self.lm, "--sessions", self.dir / "many", "--session-bytes", 200_000, "--batch", 24]
        server = Server(*flags)
        self.addCleanup(server.end)
        chance.seed(8)
        sessions = [begin(server, i) for i in range(count)]

        def take(server, turn):
            order = [i for i in range(count)]
            chance.shuffle(order)
            with concurrent.futures.ThreadPoolExecutor(24) as pool:
                made = pool.map(lambda i: server.complete(session=sessions[i], **asked[i][turn]), order)
                for i, text in zip(order, made):
                    texts[i, turn] = text

        take(server, 0)
        forks = {i: server.post(f"/v1/sessions/{sessions[i]}/fork", {}).json["id"] for i in range(0, count, 5)}
        take(server, 1)
        for session in [*sessions, *forks.values()]:
            self.assertEqual(server.post(f"/v1/sessions/{session}/save", {}).status, 200)
        server.end(signal.SIGKILL)
        server = Server(*flags)
        self.addCleanup(server.end)
        take(server, 2)
        for i, fork in forks.items():
            self.assertEqual([server.complete(session=fork, **asked[i][turn]) for turn in (1, 2)], alone[i][1:3])
        take(server, 3)
        self.assertLessEqual(server.metric("tost_session_bytes"), 400_000)
        server.end()
        self.assertEqual([[texts[i, turn] for turn in range(4)] for i in range(count)], alone)


class Pictures(Case):
    def test_classes_and_maps(self):
        png = self.picture()
        raw = self.server.ask("POST", "/v1/classify?model=pictures", png, headers={"Content-Type": "image/png"}).json
        coded = base64.b64encode(png).decode()
        listed = self.server.post("/v1/classify", {"images": [coded, "data:image/png;base64," + coded], "top_k": 2}).json
        self.assertEqual(listed["data"][0]["top"], raw["data"][0]["top"][:2])
        self.assertEqual(listed["data"][0]["top"], listed["data"][1]["top"])
        shown = self.server.post("/v1/explain", {"image": coded}).json
        self.assertEqual(shown["top"][0]["class"], raw["data"][0]["top"][0]["class"])
        self.assertTrue(shown["image"].startswith("data:image/png;base64,"))
        self.assertGreater(shown["layers"][0]["compression"]["after"], 0)
        words = self.server.post("/v1/explain", {"text": "the cat"}).json
        self.assertEqual("".join(words["tokens"]), "the cat")
        for layer in words["layers"]:
            for t in range(7):
                self.assertAlmostEqual(sum(head[t] for head in layer["memberships"]), 1, places=2)
            self.assertIsNone(layer["group_means"])

    def test_group_means_of_each_token(self):
        server = Server("words")
        try:
            seen = server.post("/v1/explain", {"text": "The church was built in the old town"}).json
        finally:
            server.end()
        tokens = len(seen["tokens"])
        for layer in seen["layers"]:
            means = layer["group_means"]
            for numbers in (means["norm"], means["cosine"]):
                self.assertEqual([len(head) for head in numbers], [tokens] * len(layer["memberships"]))
            for size, cosine in zip(means["norm"], means["cosine"]):
                self.assertAlmostEqual(cosine[0], 1, places=2)  # the first token is its group
                self.assertTrue(all(value > 0 for value in size) and all(-1 <= value <= 1 for value in cosine))

    def test_broken_pictures(self):
        png = self.picture()
        post = lambda body: self.server.ask("POST", "/v1/classify", body, headers={"Content-Type": "image/png"})
        huge = png[:16] + (60000).to_bytes(4, "big") * 2 + png[24:]
        for body in (b"", b"x", png[:40], png[:-20], huge, b"\xff\xd8\xff" + b"\0" * 50):
            self.refused(post(body), 400, "Image 1")
        random.seed(1)
        for _ in range(40):
            spoilt = bytearray(png)
            spoilt[random.randrange(len(spoilt))] ^= 1 << random.randrange(8)
            self.assertIn(post(bytes(spoilt)).status, (200, 400))
        self.refused(self.server.post("/v1/classify", {"images": ["!!"]}), 400, "base64")
        self.refused(self.server.post("/v1/classify", {"images": []}), 400)
        self.refused(self.server.post("/v1/classify", {"images": ["aGk="], "model": "lm"}), 400, "classifier")


class Docs(Case):
    @unittest.skipUnless(shutil.which("curl"), "curl is not there")
    def test_the_examples_of_the_docs(self):
        text = (pathlib.Path(__file__).parents[1] / "docs" / "serving.md").read_text().replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line.startswith("curl ")]
        self.assertGreater(len(lines), 5)
        self.file("picture.png", self.picture())
        session = self.server.post("/v1/sessions", {"prompt": "the"}).json["id"]
        for line in lines:
            line = re.sub(r"(127\.0\.0\.1|localhost):8080", f"127.0.0.1:{self.server.port}", line.replace("sess-…", session))
            done = subprocess.run(["bash", "-c", line + "\n"], cwd=self.dir, capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, line + done.stderr)
            self.assertNotIn('"error"', done.stdout, line)
            self.assertTrue(done.stdout or "-o " in line, line)
        self.assertGreater((self.dir / "state.safetensors").stat().st_size, 100)


class Operation(Case):
    def test_the_server_tells_of_itself(self):
        self.assertEqual(self.server.ask("GET", "/health").status, 200)
        self.assertEqual(self.server.ask("GET", "/ready").json, {"status": "ready"})
        models = self.server.ask("GET", "/v1/models").json["data"]
        self.assertEqual([(m["id"], m["kind"]) for m in models], [("lm", "language"), ("pictures", "vision")])
        self.assertEqual(self.server.ask("GET", "/v1/models/lm").json, models[0])
        reply = self.server.ask("GET", "/metrics")
        for line in reply.body.decode().splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) .+|[a-z_]+(\{[^}]*\})? [0-9.e+-]+)$')
        page = self.server.ask("GET", "/")
        self.assertIn("default-src 'none'", page.headers["Content-Security-Policy"])
        self.assertNotRegex(page.body.decode(), r'(src|href)="(https?:)?//')
        line = self.server.line_of(page.headers["X-Request-Id"])
        self.assertEqual((line["method"], line["path"], line["status"]), ("GET", "/", 200))

    def test_hosts_and_origins(self):
        get = lambda **headers: self.server.ask("GET", "/v1/models", headers=headers)
        self.refused(get(Host="evil.example"), 403, "--allow-host")
        self.refused(get(Origin="http://evil.example"), 403)
        self.assertEqual(get(Host="localhost:1", Origin="http://localhost:1").status, 200)

    def test_keys(self):
        server = Server(self.lm, env={"TOST_API_KEY": "secret"})
        try:
            self.refused(server.ask("GET", "/v1/models"), 401, "Authorization")
            self.refused(server.ask("GET", "/metrics", headers={"Authorization": "Bearer secreT"}), 401)
            self.assertEqual(server.ask("GET", "/v1/models", headers={"Authorization": "Bearer secret"}).status, 200)
            self.assertEqual(server.ask("GET", "/health").status, 200)
            self.assertEqual(server.ask("GET", "/").status, 200)
        finally:
            server.end()

    def test_a_full_queue_says_when_to_come_again(self):
        server = Server(self.lm, "--batch", 1, "--queue", 2)
        try:
            body = {"prompt": "the", "max_tokens": 2000, "ignore_eos": True}
            with concurrent.futures.ThreadPoolExecutor(20) as pool:
                replies = list(pool.map(lambda _: server.post("/v1/completions", body), range(20)))
            refused = [r for r in replies if r.status == 429]
            self.assertTrue(refused)
            self.assertTrue(any(r.status == 200 for r in replies))
            self.assertEqual({r.headers["Retry-After"] for r in refused}, {"1"})
            self.refused(refused[0], 429)
        finally:
            server.end()

    def test_a_thousand_silent_connections(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 4096 and hard > 0 else 4096, hard))
        silent = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(1000)]
        try:
            for i, client in enumerate(silent):
                client.sendall([b"", b"GET", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"][i % 3])
            for _ in range(5):
                self.assertEqual(len(self.server.complete(prompt="the", max_tokens=5, ignore_eos=True)) > 0, True)
            silent[0].settimeout(300)
            self.assertEqual(silent[0].recv(1000), b"")  # closed at its time
        finally:
            for client in silent:
                client.close()

    def test_ending_lets_texts_end(self):
        server = Server(self.lm, "--drain-seconds", 900)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            texts = [pool.submit(server.post, "/v1/completions", {"prompt": "the", "max_tokens": 1500, "ignore_eos": True}) for _ in range(4)]
            while server.metric("tost_running_texts") < 4 and not all(t.done() for t in texts):
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            for text in texts:
                self.assertEqual(text.result().json["usage"]["completion_tokens"], 1500)
        self.assertEqual(server.process.wait(300), 0)
        server.end()

    def test_bad_flags(self):
        self.error("serve", self.lm, "--port", "70000", exit_code=2, says="65535")
        self.error("serve", self.lm, self.lm, exit_code=2, says="NAME=FILE")
        self.error("serve", self.lm, "--host", "localhost", exit_code=2, says="127.0.0.1")
        self.error("serve", self.lm, "--port", str(self.server.port), exit_code=1, says="another --port")
        self.error("serve", self.lm, "--chat-template", self.file("t.json", b"{}"), exit_code=2, says="'user'")
        self.error("serve", self.lm, "--sessions", self.sessions, exit_code=2, says="sessions")
        self.error("serve", self.dir / "absent", exit_code=1, says="absent")
        self.error("serve", self.lm, "--connections", "0", exit_code=2, says="above 0")
        self.error("serve", self.lm, "--header-seconds", "0", exit_code=2, says="above 0")
        self.error("serve", self.lm, "--idle-seconds", "-1", exit_code=2, says="--idle-seconds")
        self.error("serve", self.lm, "--session-seconds", "-1", exit_code=2, says="--session-seconds")
        self.error("serve", self.lm, "--host", "192.0.2.1", "--port", "0", exit_code=1, says="--host")


class Conformance(Case):
    def compare(self, port):
        script = pathlib.Path(__file__).parents[1] / "bench" / "conformance.py"
        flags = ["--model", "lm", "--bits", "--most-words", "20", "--evict", "2", "--streams", "8", "--sessions", "3", "--tokens", "4"]
        return subprocess.run([sys.executable, script, f"http://127.0.0.1:{port}", *flags], capture_output=True, text=True, timeout=900)

    def test_states_change_no_text(self):
        done = self.compare(self.server.port)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for case in ("warm", "beginning", "company", "evicted", "evicting", "responses", "forked", "carried"):
            self.assertRegex(done.stdout, rf"(?m)^{case} +[1-9]\d* equal +0 different")

    def test_a_server_whose_texts_change_is_found(self):
        class Forgetful(http.server.BaseHTTPRequestHandler):
            asked = 0

            def do_POST(self):
                type(self).asked += 1
                self.rfile.read(int(self.headers["Content-Length"]))
                known = self.path == "/v1/completions"
                body = json.dumps({"choices": [{"text": "again" if self.asked > 20 else "once"}]}).encode()
                self.send_response(200 if known else 404)
                self.send_header("Content-Length", len(body))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forgetful) as other:
            threading.Thread(target=other.serve_forever).start()
            done = self.compare(other.server_port)
            other.shutdown()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^company .* [1-9]\d* different  first: ")
        self.assertIn("skipped: POST /v1/responses", done.stdout)


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
