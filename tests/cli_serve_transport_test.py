#!/usr/bin/env python3
"""The server under pressure: strange requests, many pixels, no memory, a log that nobody reads, signals.

usage: cli_serve_transport_test.py TOST [unittest arguments]
"""
import base64
import concurrent.futures
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import cli_serve_test
import cli_test
from cli_serve_test import Server


def progressive(width, height, scans):
    """The headers of a grey progressive JPEG, and those of its scans."""
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    return b"\xff\xd8" + frame + b"\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00" * scans + b"\xff\xd9"


def memory(process, name):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+) kB", status, re.M)[1]) << 10


class Transport(cli_serve_test.Case):
    def started(self, *flags, **options):
        server = Server(*flags, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        return server

    def classify(self, body, **headers):
        return self.server.ask("POST", "/v1/classify", body, headers={"Content-Type": "image/png", **headers})

    def test_pictures_are_decoded_one_after_the_other(self):
        server = self.started(f"pictures={self.pictures}")
        coded = base64.b64encode(cli_test.png(4000, 2500)).decode()
        self.assertEqual(server.post("/v1/classify", {"images": [coded]}).status, 200)
        before = memory(server.process, "VmHWM")
        reply = server.post("/v1/classify", {"images": [coded] * 12})
        self.assertEqual(len(reply.json["data"]), 12)
        self.assertLess(memory(server.process, "VmHWM") - before, 4 * 3 * 4000 * 2500)

    def test_pixels_of_a_request_have_a_limit(self):
        coded = [base64.b64encode(picture).decode() for picture in (cli_test.png(6000, 6000, data=b""), progressive(2000, 2000, 120))]
        for pictures in ([coded[0]] * 12, [coded[1]], coded):
            self.refused(self.server.post("/v1/classify", {"images": pictures}), 413, "pixels")
        self.refused(self.classify(progressive(2000, 2000, 120), **{"Content-Type": "image/jpeg"}), 413, "scan")
        self.refused(self.classify(progressive(2000, 2000, 2), **{"Content-Type": "image/jpeg"}), 400, "Image 1")

    def test_one_picture_is_explained(self):
        self.refused(self.server.post("/v1/explain", {"image": ["not base64!", "x"]}), 400, "'image' is a picture")

    def test_pictures_in_forms_and_without_a_type(self):
        png = cli_test.png(40, 40)
        form = b"--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n\r\n" + png + b"\r\n--b--\r\n"
        for path in ("/v1/classify", "/v1/explain"):
            for kind, body in (("multipart/form-data; boundary=b", form), ("application/x-www-form-urlencoded", png), ("", png)):
                self.refused(self.server.ask("POST", path, body, headers={"Content-Type": kind} if kind else {}), 415, "Content-Type: image/png")

    def test_parameters(self):
        ask = lambda query: self.server.ask("POST", "/v1/classify" + query, cli_test.png(40, 40), headers={"Content-Type": "image/png"})
        self.assertEqual(ask("?model=pictures&").status, 200)
        self.refused(ask("?model=pictures&size=5"), 400, "'size'", "model")
        self.refused(ask("?model=lm"), 400, "classifier")
        self.refused(self.server.ask("GET", "/v1/models?page=2"), 400, "none")

    def test_lines_of_the_log(self):
        reply = self.server.post("/v1/completions", {"prompt": "the", "max_tokens": 5, "ignore_eos": True})
        line = self.server.line_of(reply.headers["X-Request-Id"])
        wanted = {"client": "127.0.0.1", "model": "lm", "prompt_tokens": 3, "new_tokens": 5, "status": 200}
        self.assertEqual({key: line[key] for key in wanted}, wanted)

    def test_pages_of_other_sites(self):
        site = "https://pages.example"
        server = self.started(self.lm, "--allow-origin", site, env={"TOST_API_KEY": "secret"})
        asked = server.ask("OPTIONS", "/v1/completions", headers={"Origin": site, "Access-Control-Request-Method": "POST"})
        self.assertEqual((asked.status, asked.headers["Access-Control-Allow-Origin"]), (200, site))
        self.assertIn("Authorization", asked.headers["Access-Control-Allow-Headers"])
        reply = server.ask("GET", "/v1/models", headers={"Origin": site, "Authorization": "Bearer secret"})
        self.assertEqual((reply.status, reply.headers["Access-Control-Allow-Origin"]), (200, site))
        refused = server.ask("GET", "/v1/models", headers={"Origin": site})
        self.assertEqual((refused.status, refused.headers["Access-Control-Allow-Origin"]), (401, site))
        other = server.ask("GET", "/v1/models", headers={"Origin": site + ".other.example"})
        self.refused(other, 403, "--allow-origin")
        self.assertIsNone(other.headers["Access-Control-Allow-Origin"])
        server.end()

    def test_keys_and_strangers(self):
        self.error("serve", self.lm, exit_code=2, says="TOST_API_KEY", env={**os.environ, "TOST_API_KEY": ""})
        self.error("serve", self.lm, "--allow-origin", "https://a.example/page", exit_code=2, says="--allow-origin")
        for flags, env, warned in ((["--host", "0.0.0.0"], {}, True), (["--host", "0.0.0.0"], {"TOST_API_KEY": "k"}, False), ([], {}, False)):
            server = self.started(self.lm, *flags, env=env)
            server.process.terminate()
            server.process.wait(300)
            server.log.seek(0)
            self.assertEqual("--key-file" in server.log.read(), warned, flags)
            server.end()

    def test_a_log_that_nobody_reads(self):
        sessions = self.dir / "sessions"
        process = subprocess.Popen([cli_test.TOST, "serve", str(self.lm), "--port", "0", "--sessions", str(sessions), "--idle-seconds", "1e6"],
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        server = Server.__new__(Server)
        server.port = int(re.search(r":(\d+)/", process.stdout.readline())[1])
        session = server.post("/v1/sessions", {"prompt": "the"}).json["id"]
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.settimeout(300)
            for _ in range(1500):
                client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = b""
                while b'"ok"}' not in answer:
                    part = client.recv(4096)
                    self.assertTrue(part)
                    answer += part
        process.terminate()
        self.assertEqual(process.wait(300), 0)
        self.assertTrue(any(session in path.name for path in sessions.rglob("*")))
        process.stdout.close()
        process.stderr.close()

    def test_ending_saves_first_and_says_so(self):
        folder = self.dir / "sessions"
        server = self.started(self.lm, "--sessions", folder, "--idle-seconds", 1e6, "--lame-duck-seconds", 1e6, "--drain-seconds", 1e6)
        session = server.post("/v1/sessions", {"prompt": "the"}).json["id"]
        self.assertEqual(server.ask("GET", "/ready").status, 200)
        server.process.terminate()
        until = time.monotonic() + 300
        while not any(session in path.name for path in folder.rglob("*")) and time.monotonic() < until:
            time.sleep(0.02)
        self.assertTrue(any(session in path.name for path in folder.rglob("*")))
        self.refused(server.ask("GET", "/ready"), 503)
        self.assertEqual(server.ask("GET", "/health").status, 200)
        self.assertEqual(len(server.post("/v1/completions", {"prompt": "the", "max_tokens": 2, "ignore_eos": True}).json["choices"]), 1)
        server.process.terminate()  # a second signal does not wait
        self.assertEqual(server.process.wait(300), -signal.SIGTERM)
        server.end()

    def test_no_memory_ends_requests_and_not_the_server(self):
        server = self.started(self.lm, "--max-body", 64 << 20, env={"MALLOC_ARENA_MAX": "2"})
        self.assertEqual(server.post("/v1/completions", {"prompt": "the", "max_tokens": 2}).status, 200)
        body = b'{"prompt": "' + b"the " * (12 << 20) + b'"}'
        limit = memory(server.process, "VmSize") + (96 << 20)
        hard = resource.prlimit(server.process.pid, resource.RLIMIT_AS)[1]
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (limit, hard))

        def post(_):
            try:
                return server.ask("POST", "/v1/completions", body).status
            except (OSError, cli_serve_test.http.client.HTTPException):
                return 0

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            statuses = list(pool.map(post, range(12)))
        self.assertNotIn(200, statuses)
        self.assertIsNone(server.process.poll())
        self.assertEqual(server.ask("GET", "/health").status, 200)
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (hard, hard))
        self.assertEqual(server.post("/v1/completions", {"prompt": "the", "max_tokens": 2}).status, 200)
        self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
