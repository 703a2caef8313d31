#!/usr/bin/env python3
"""The server as clients of OpenAI's API meet it: the packages openai, litellm and langchain-openai, each where Python has it.

usage: cli_clients_test.py TOST [unittest arguments]
"""
import importlib
import os
import sys
import unittest

import cli_serve_test
import cli_test
from cli_serve_test import Server

SAID = [{"role": "developer", "content": "Be"}, {"role": "user", "content": "the"}]


class Case(cli_serve_test.Case):
    package = None

    @classmethod
    def setUpClass(cls):
        try:
            cls.module = importlib.import_module(cls.package)
        except ImportError:
            raise unittest.SkipTest(f"Python has no {cls.package}") from None
        super().setUpClass()
        cls.url = f"http://127.0.0.1:{cls.server.port}/v1"


class OpenAi(Case):
    package = "openai"

    def setUp(self):
        super().setUp()
        self.client = self.module.OpenAI(base_url=self.url, api_key="any", max_retries=0)

    def test_texts(self):
        client = self.client
        whole = client.completions.create(model="lm", prompt="the", max_tokens=8, seed=1).choices[0].text
        parts = client.completions.create(model="lm", prompt="the", max_tokens=8, seed=1, stream=True)
        self.assertEqual("".join(p.choices[0].text for p in parts), whole)
        self.assertEqual([m.id for m in client.models.list()], ["lm", "pictures"])
        self.assertEqual(client.models.retrieve("lm").id, "lm")
        with self.assertRaises(self.module.NotFoundError):
            client.completions.create(model="nothing", prompt="the")
        with self.assertRaises(self.module.BadRequestError) as refused:
            client.completions.create(model="lm", prompt="the", max_tokens=-1)
        self.assertEqual(refused.exception.param, "max_tokens")

    def test_chat(self):
        chat = self.client.chat.completions
        ask = {"model": "lm", "messages": SAID, "max_tokens": 5, "seed": 2}
        whole = chat.create(**ask).choices[0]
        self.assertEqual((whole.message.role, whole.finish_reason), ("assistant", "length"))
        parts = list(chat.create(**ask, stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(p.choices[0].delta.content or "" for p in parts if p.choices), whole.message.content)
        self.assertEqual(parts[-1].usage.completion_tokens, 5)
        again = chat.create(**ask, tool_choice="none", parallel_tool_calls=False, reasoning_effort="low",
                            response_format={"type": "text"}, user="me", metadata={"a": "b"}, logprobs=True, top_logprobs=2)
        self.assertEqual(again.choices[0].message.content, whole.message.content)
        self.assertEqual([len(t.top_logprobs) for t in again.choices[0].logprobs.content], [2] * 5)
        # As a reply is sent back.
        chat.create(model="lm", messages=[*SAID, whole.message, {"role": "user", "content": "cat"}], max_tokens=5)
        with self.assertRaises(self.module.BadRequestError) as refused:
            chat.create(**ask, tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])
        self.assertEqual(refused.exception.param, "tools")

    def test_responses(self):
        responses = self.client.responses
        first = responses.create(model="lm", input="the", max_output_tokens=5, reasoning={"effort": "low"},
                                 text={"format": {"type": "text"}}, tool_choice="auto", parallel_tool_calls=True)
        self.assertEqual((first.status, first.incomplete_details.reason), ("incomplete", "max_output_tokens"))
        self.assertEqual(responses.retrieve(first.id).output_text, first.output_text)
        second = responses.create(model="lm", input=SAID[1:], max_output_tokens=5, previous_response_id=first.id)
        self.assertEqual(second.previous_response_id, first.id)
        with responses.stream(model="lm", input="the", max_output_tokens=5) as stream:
            events = list(stream)
            last = stream.get_final_response()
        self.assertEqual(events[-1].type, "response.completed")
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), last.output_text)
        self.assertEqual(responses.retrieve(last.id).output_text, last.output_text)
        responses.delete(last.id)
        with self.assertRaises(self.module.NotFoundError):
            responses.retrieve(last.id)

    def test_embeddings(self):
        two = self.client.embeddings.create(model="lm", input=["the", "the cat"], encoding_format="float").data
        coded = self.client.embeddings.create(model="lm", input="the").data[0].embedding
        for a, b in zip(two[0].embedding, coded, strict=True):
            self.assertAlmostEqual(a, b, places=5)

    def test_keys(self):
        server = Server(self.lm, env={"TOST_API_KEY": "secret"})
        self.addCleanup(server.end)
        client = lambda key: self.module.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key, max_retries=0)
        self.assertEqual([m.id for m in client("secret").models.list()], ["lm"])
        with self.assertRaises(self.module.AuthenticationError):
            client("other").models.list()


class LiteLlm(Case):
    package = "litellm"

    def test_chat_texts_and_embeddings(self):
        common = {"api_base": self.url, "api_key": "any", "num_retries": 0}
        ask = {"model": "openai/lm", "messages": SAID, "max_tokens": 5, "seed": 2, **common}
        whole = self.module.completion(**ask)
        self.assertEqual((whole.choices[0].finish_reason, whole.usage.completion_tokens), ("length", 5))
        parts = self.module.completion(**ask, stream=True)
        self.assertEqual("".join(p.choices[0].delta.content or "" for p in parts), whole.choices[0].message.content)
        text = self.module.text_completion(model="text-completion-openai/lm", prompt="the", max_tokens=5, seed=2, **common)
        self.assertEqual(text.choices[0].text, self.server.complete(prompt="the", model="lm", max_tokens=5, seed=2))
        said = self.module.responses(model="openai/lm", input="the", max_output_tokens=5, **common)
        self.assertEqual(said.output[0].content[0].type, "output_text")
        self.assertTrue(self.module.embedding(model="openai/lm", input=["the"], **common).data[0]["embedding"])


class LangChain(Case):
    package = "langchain_openai"

    def test_chat_texts_and_embeddings(self):
        common = {"model": "lm", "base_url": self.url, "api_key": "any", "max_retries": 0}
        for responses in (False, True):
            chat = self.module.ChatOpenAI(**common, max_tokens=5, temperature=0, use_responses_api=responses)
            whole = chat.invoke([("developer" if responses else "system", "Be"), ("user", "the")])
            parts = chat.stream([("system", "Be"), ("user", "the")])
            text = lambda message: message.text if isinstance(message.text, str) else message.text()
            self.assertEqual("".join(text(p) for p in parts), text(whole))
        self.assertTrue(self.module.OpenAI(**common, max_tokens=5).invoke("the"))
        vectors = self.module.OpenAIEmbeddings(**common, check_embedding_ctx_length=False).embed_documents(["the", "cat"])
        self.assertEqual(len(vectors), 2)


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
