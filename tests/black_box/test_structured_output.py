"""Answers under JSON schemas and grammars, and tool calls, through openai's client and raw requests; killed executors included."""
import json
import threading
import time
import unittest

import openai

from support import Server, ServerCase, Socket

PERSON = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "tags": {"type": "array", "items": {"enum": ["a", "b", 3]}, "minItems": 1, "maxItems": 3},
    "tall": {"type": "boolean"}}, "required": ["name", "age", "tags"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 24}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"]}}}
CLOCK = {"type": "function", "function": {"name": "clock"}}
ASK = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": "Describe a person called Ann in JSON."}]


def is_person(text):
    p = json.loads(text)
    assert list(p) in (["name", "age", "tags"], ["name", "age", "tags", "tall"]), p
    assert isinstance(p["name"], str) and len(p["name"]) <= 20 and isinstance(p["age"], int) and 0 <= p["age"] <= 120, p
    assert 1 <= len(p["tags"]) <= 3 and all(t in ("a", "b", 3) for t in p["tags"]) and isinstance(p.get("tall", True), bool), p
    return True


def is_weather(arguments):
    a = json.loads(arguments)
    return list(a) == ["city", "unit"] and isinstance(a["city"], str) and len(a["city"]) <= 24 and a["unit"] in ("C", "F")


class StructuredOutput(ServerCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://{self.server.host}:{self.server.port}/v1", api_key="none", max_retries=0)
        self.model = self.client.models.list().data[0].id

    def ask(self, messages=ASK, **params):
        return self.client.chat.completions.create(model=self.model, messages=messages, **{"temperature": 0, "max_tokens": 200, **params})

    def test_json_schema(self):
        form = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
        for params in ({}, {"temperature": 1.5, "seed": 1}, {"temperature": 2, "seed": 2, "extra_body": {"top_k": 0, "min_p": 0}}):
            answer = self.ask(response_format=form, **params)
            self.assertEqual(answer.choices[0].finish_reason, "stop")
            self.assertTrue(is_person(answer.choices[0].message.content), answer)
        whole = self.ask(response_format=form).choices[0].message.content
        streamed = "".join(c.choices[0].delta.content or "" for c in self.ask(response_format=form, stream=True))
        self.assertEqual(streamed, whole)

    def test_json_object_and_grammar_and_other_names(self):
        answer = self.ask(response_format={"type": "json_object"}, max_tokens=300)
        if answer.choices[0].finish_reason == "stop":
            self.assertIsInstance(json.loads(answer.choices[0].message.content), dict)
        self.assertTrue(answer.choices[0].message.content.startswith("{"))
        for body in ({"json_schema": PERSON}, {"guided_json": PERSON}, {"guided_json": json.dumps(PERSON)}, {"structured_outputs": {"json": PERSON}}):
            self.assertTrue(is_person(self.ask(extra_body=body).choices[0].message.content), body)
        yes = self.ask(extra_body={"grammar": 'root ::= ("yes" | "no") "!"'})
        self.assertIn(yes.choices[0].message.content, ("yes!", "no!"))
        self.assertEqual(yes.choices[0].finish_reason, "stop")
        number = self.client.completions.create(model=self.model, prompt="2 + 2 =", max_tokens=8, temperature=0, extra_body={"grammar": "root ::= [0-9]{3}"})
        self.assertRegex(number.choices[0].text, "^[0-9]{3}$")
        ignored = self.ask(extra_body={"grammar": 'root ::= "a"', "ignore_eos": True})
        self.assertEqual((ignored.choices[0].message.content, ignored.choices[0].finish_reason), ("a", "stop"))
        short = self.ask(extra_body={"grammar": 'root ::= "a"', "min_tokens": 9})
        self.assertEqual(short.choices[0].message.content, "a")

    def test_websocket_params_take_the_same_names(self):
        s = Socket(self.server)
        session = s.create(system="You are a helpful assistant.")
        s.subscribe(session)
        message = s.message(session, "Describe Ann.", max_tokens=200, temperature=0, response_format={"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}})
        self.assertEqual(s.finished(message)["type"], "generation.done")
        self.assertTrue(is_person(s.text(message)))
        refused = s.ask({"type": "message", "session": session, "id": "bad", "content": "x", "params": {"grammar": "root ::="  " y"}})
        self.assertEqual(refused["type"], "error", refused)
        s.close()

    def test_required_and_named_tools(self):
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            answer = self.ask([{"role": "user", "content": "What is the weather in Paris?"}], tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False)
            message = answer.choices[0].message
            self.assertEqual(answer.choices[0].finish_reason, "tool_calls", answer)
            self.assertIsNone(message.content)
            call = message.tool_calls[0]
            self.assertEqual((call.type, call.function.name), ("function", "get_weather"))
            self.assertTrue(call.id.startswith("call_") and is_weather(call.function.arguments), call)
        answer = self.ask(tools=[WEATHER, CLOCK], tool_choice={"type": "function", "function": {"name": "clock"}}, parallel_tool_calls=False)
        self.assertEqual([(c.function.name, c.function.arguments) for c in answer.choices[0].message.tool_calls], [("clock", "{}")])

    def test_stream_of_a_call_loses_nothing(self):
        params = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
        question = [{"role": "user", "content": "What is the weather in Rome?"}]
        whole = self.ask(question, **params).choices[0].message.tool_calls[0]
        calls, reasons, content = [], [], ""
        for chunk in self.ask(question, stream=True, **params):
            delta = chunk.choices[0].delta
            content += delta.content or ""
            reasons.append(chunk.choices[0].finish_reason)
            for c in delta.tool_calls or []:
                if c.id:
                    self.assertEqual((c.index, c.type, c.function.name, c.function.arguments), (len(calls), "function", "get_weather", ""))
                    calls.append("")
                else:
                    calls[c.index] += c.function.arguments
        self.assertEqual(calls, [whole.function.arguments])
        self.assertEqual(content, "")
        self.assertEqual([r for r in reasons if r], ["tool_calls"])

    def test_auto_none_and_several_turns(self):
        free = self.ask(tools=[WEATHER], tool_choice="none", max_tokens=16)
        self.assertEqual(free.choices[0].message.content, self.ask(max_tokens=16).choices[0].message.content)
        answer = self.ask(tools=[WEATHER], max_tokens=60)  # auto: text, or a call that is valid
        for call in answer.choices[0].message.tool_calls or []:
            if answer.choices[0].finish_reason == "tool_calls":
                self.assertTrue(is_weather(call.function.arguments))
        question = [{"role": "user", "content": "What is the weather in Oslo?"}]
        asked = self.ask(question, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False).choices[0].message
        turns = question + [asked.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": asked.tool_calls[0].id, "content": "Sunny, 21 C"}]
        told = self.ask(turns, tools=[WEATHER], max_tokens=40)
        self.assertTrue(told.choices[0].message.content or told.choices[0].message.tool_calls)
        self.assertGreater(told.usage.prompt_tokens, 150)

    def test_compile_errors_come_before_the_stream(self):
        start = time.monotonic()
        for body, param in (({"json_schema": {"properties": {"a": {"not": {}}}}}, "json_schema"), ({"grammar": "root ::= x"}, "grammar")):
            status, headers, answer = self.server.request("POST", "/v1/chat/completions", {"messages": ASK, "stream": True, **body})
            self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
        self.assertIn("#/properties/a", self.server.request("POST", "/v1/chat/completions", {"messages": ASK, "json_schema": {"properties": {"a": {"not": {}}}}})[2]["error"]["message"])
        self.assertLess(time.monotonic() - start, 10)

    def test_rare_characters_are_written_byte_by_byte(self):
        answer = self.ask(extra_body={"grammar": 'root ::= "\\U0010FFFF" [0-9]{2}'}, max_tokens=20)
        self.assertRegex(answer.choices[0].message.content, "^\U0010ffff[0-9]{2}$")


class KilledInTheMiddle(unittest.TestCase):
    def test_the_same_text(self):
        with Server() as server:
            def once():
                return server.request("POST", "/v1/chat/completions", {
                    "messages": ASK, "temperature": 1.2, "seed": 5, "max_tokens": 150,
                    "json_schema": {"type": "array", "items": {"type": "string", "minLength": 4, "maxLength": 12}, "minItems": 12, "maxItems": 14}})[2]
            expected = once()["choices"][0]["message"]["content"]
            got = []
            for delay in (0.1, 0.35, 0.8):
                thread = threading.Thread(target=lambda: got.append(once()["choices"][0]["message"]["content"]))
                thread.start()
                time.sleep(delay)
                server.kill_executor()
                thread.join()
            self.assertEqual(got, [expected] * 3)
            self.assertGreaterEqual(server.health()[1]["executor"]["restarts"], 3)


if __name__ == "__main__":
    unittest.main()
