"""KV memory goes back while a stream runs on; sessions come back from the disk after a restart; damaged images are computed again."""
import os
import shutil
import tempfile
import threading
import unittest

from support import TINY, Server, Socket, wait_until


def state(server):
    return server.request("GET", "/admin/state")[2]


def images(folder):
    return [os.path.join(d, f) for d, _, files in os.walk(os.path.join(folder, "kv")) for f in files if f.endswith(".kv")]


def turn(server, session, content, n=6):
    status, _, body = server.request("POST", f"/v1/sessions/{session}/messages?wait=true",
                                     {"content": content, "params": {"max_tokens": n, "temperature": 0, "ignore_eos": True}})
    assert status == 200, body
    return body["message"]["content"], body["usage"]["prompt_tokens_details"]["cached_tokens"], body["usage"]["prompt_tokens"]


class Memory(unittest.TestCase):
    def test_segments_go_back_beside_a_running_stream(self):
        """Long prompts fill segments beside an answer that goes on; they go back, and the answer is the one of a quiet server."""
        story = {"temperature": 0, "max_tokens": 400, "ignore_eos": True}
        with Server("--kv-type", "f32", "--idle-shrink-after", "1", "--max-seqs", "16", "--fault-injection", model=TINY) as server:
            alone = server.chat("Tell me a story.", **story)[0]
            wait_until(lambda: server.metric("troupe_kv_segments") == 0, 20, what="an empty pool")
            server.request("POST", "/admin/faults", {"target": "executor", "kind": "slow", "slow_ms": 40, "times": 100000})
            s = Socket(server)
            session = s.create()
            s.subscribe(session)
            message = s.message(session, "Tell me a story.", **story)
            s.wait(lambda f: f["type"] == "delta" and f["message"] == message)
            before = server.metric("troupe_kv_segments")

            def ask(i):
                prompt = [20 + (i * 41 + k * 7) % 290 for k in range(440)]
                server.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": True})
            peak = 0
            for start in range(0, 24, 8):
                threads = [threading.Thread(target=ask, args=(i,)) for i in range(start, start + 8)]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
                peak = max(peak, server.metric("troupe_kv_segments"))
            self.assertGreater(peak, before)
            wait_until(lambda: server.metric("troupe_kv_segments") <= before, 20, what="segments that went back")
            done = s.finished(message, 120)
            self.assertEqual(done["type"], "generation.done", done)
            self.assertEqual(s.text(message), alone)
            s.close()

    def test_a_session_comes_back_from_the_disk(self):
        base = tempfile.mkdtemp(prefix="troupe-disk-")
        options = ("--idle-shrink-after", "1")
        with Server(*options, model=TINY, data_dir=base) as server:
            session = server.request("POST", "/v1/sessions", {})[2]["id"]
            _, _, first = turn(server, session, "one two three four five six seven eight nine ten " * 5)
            self.assertGreater(first, 64)
            # A request without a session leaves nothing behind.
            server.chat("Something private that nobody should find on the disk, at least some sixteen tokens long.", max_tokens=30, ignore_eos=True)
            wait_until(lambda: images(base) and server.metric("troupe_kv_segments") == 0, 20, what="the session on the disk")
            self.assertEqual(state(server)["tiers"]["disk"]["images"], 1)
            self.assertEqual(server.stop(), 0)
        texts = {}
        for kind in ("whole", "gone", "flipped", "flipped head", "cut", "foreign", "empty"):
            folder = tempfile.mkdtemp(prefix="troupe-disk-")
            shutil.copytree(base, folder, dirs_exist_ok=True)
            (path,) = images(folder)
            if kind == "gone":
                os.remove(path)
            elif kind != "whole":
                with open(path, "r+b") as f:
                    data = bytearray(f.read())
                    data[-100 if kind == "flipped" else 200] ^= 8 if kind.startswith("flipped") else 0
                    if kind == "foreign":  # the same bytes as if another model had made them
                        data[24] ^= 1
                    f.seek(0)
                    f.write(data)
                    f.truncate(0 if kind == "empty" else len(data) - 1000 if kind == "cut" else len(data))
            with self.subTest(kind), Server(*options, model=TINY, data_dir=folder) as server:
                text, cached, prompt = turn(server, session, "And now?")
                texts[kind] = text
                self.assertEqual(text, texts["whole"])
                refused = state(server)["scheduler"]["counters"]["images_refused"]
                if kind == "whole":
                    self.assertGreaterEqual(cached, first // 16 * 16 - 16)
                else:
                    self.assertEqual(cached, 0, kind)
                    self.assertEqual(refused, 0 if kind == "gone" else 1)
                self.assertEqual(server.metric('troupe_kv_blocks{state="owned"}'), 0)
            shutil.rmtree(folder)
        shutil.rmtree(base)


if __name__ == "__main__":
    unittest.main()
