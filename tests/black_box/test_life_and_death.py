"""Start, health, faults, shutdown: what the operator sees."""
import json
import os
import signal
import subprocess
import time
import unittest

from support import BINARY, SMOLLM2, Server, Socket, alive, wait_until


class LifeAndDeath(unittest.TestCase):
    def test_shutdown_with_open_streams(self):
        server = Server()
        s = Socket(server)
        session = s.create(temperature=0)
        s.subscribe(session)
        message = s.message(session, "Write a very long story.", max_tokens=4000, ignore_eos=True)
        s.wait(lambda f: f["type"] == "delta" and f["message"] == message)
        executor = server.executor_pid()
        self.assertEqual(server.stop(10), 0)
        wait_until(lambda: not alive(executor), 5, what="the executor to be gone")
        wait_until(lambda: s.closed, 5, what="the socket to be closed")

    def test_a_session_stream_says_why_it_ends(self):
        server = Server()
        session = server.request("POST", "/v1/sessions", {})[2]["id"]
        c = server.connection()
        c.request("POST", f"/v1/sessions/{session}/messages", json.dumps({"content": "Write a very long story.", "params": {"max_tokens": 4000, "ignore_eos": True}}),
                  {"Content-Type": "application/json"})
        r = c.getresponse()
        while b'"delta"' not in r.readline():
            pass
        server.process.send_signal(signal.SIGTERM)
        rest = r.read().decode()
        self.assertEqual(server.stop(), 0)
        *_, error, done = [line for line in rest.splitlines() if line.startswith("data: ")]
        self.assertEqual(json.loads(error[6:])["error"]["code"], "shutting_down")
        self.assertEqual(done, "data: [DONE]")

    def test_executor_dies_with_the_front(self):
        server = Server()
        executor = server.executor_pid()
        server.process.kill()
        server.process.wait(10)
        wait_until(lambda: not alive(executor), 5, what="the executor to be gone")
        with Server(port=server.port, data_dir=server.folder) as again:
            self.assertEqual(again.health()[0], 200)
        server.close()

    def test_health_never_lies(self):
        with Server() as server:
            self.assertEqual(server.health()[1]["status"], "ok")
            pid = server.kill_executor(signal.SIGSTOP)
            wait_until(lambda: server.health()[0] == 503, 5, what="503 for a stopped executor")
            self.assertEqual(server.request("GET", "/health/live")[0], 200)
            os.kill(pid, signal.SIGCONT)
            server.wait_healthy(20)
            server.kill_executor(signal.SIGKILL)
            wait_until(lambda: server.health()[1].get("executor", {}).get("restarts", 0) >= 1, 20)
            server.wait_healthy(20)

    def test_faults(self):
        """crash, abort, hang, exit: the answer is the same as without; nan ends one answer with a typed error."""
        with Server("--fault-injection") as server:
            expected, _ = server.chat("Tell me about rivers.", temperature=0, max_tokens=60)
            for kind in ("crash", "abort", "exit", "hang"):
                status, _, body = server.request("POST", "/admin/faults", {"kind": kind, "after_steps": 10})
                self.assertEqual(status, 200, body)
                text, _ = server.chat("Tell me about rivers.", temperature=0, max_tokens=60)
                self.assertEqual(text, expected, kind)
            self.assertEqual(server.health()[1]["executor"]["restarts"], 4)
            server.request("POST", "/admin/faults", {"kind": "nan", "after_steps": 5})
            status, _, body = server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Tell me about rivers."}],
                                                                              "temperature": 0, "max_tokens": 60})
            self.assertEqual((status, body["error"]["code"]), (500, "non_finite_logits"))
            self.assertEqual(server.chat("Tell me about rivers.", temperature=0, max_tokens=60)[0], expected)
            server.request("POST", "/admin/faults", {"kind": "slow", "slow_ms": 300, "times": 3})
            self.assertEqual(server.chat("Tell me about rivers.", temperature=0, max_tokens=20)[0], expected[:len(
                server.chat("Tell me about rivers.", temperature=0, max_tokens=20)[0])])
            self.assertEqual(server.health()[1]["executor"]["restarts"], 4)

    def test_faults_need_the_flag(self):
        with Server() as server:
            self.assertEqual(server.request("POST", "/admin/faults", {"kind": "crash"})[0], 403)
            self.assertEqual(server.request("POST", "/admin/executor/restart")[0], 200)
            server.wait_healthy()

    def test_drained_is_not_healthy(self):
        with Server() as server:
            self.assertEqual(server.request("POST", "/admin/drain")[0], 200)
            status, _, body = server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi."}]})
            self.assertEqual((status, body["error"]["code"]), (503, "shutting_down"))
            status, body = server.health()
            self.assertEqual((status, body["status"]), (503, "down"))
            self.assertIn("draining", " ".join(body["reasons"]))

    def test_exit_codes(self):
        def run(*words, **kwargs):
            r = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60, **kwargs)
            return r.returncode, r.stderr.strip().splitlines()[-1:] or [""]
        self.assertEqual(run("serve")[0], 2)
        self.assertEqual(run("serve", "-m", "x", "--port", "99999")[0], 2)
        self.assertEqual(run("serve", "-m", SMOLLM2, "--host", "0.0.0.0")[0], 2)
        self.assertEqual(run("nonsense")[0], 2)
        self.assertEqual(run("quantize", "a", "b", "Q9")[0], 2)
        with Server() as server:
            code, last = run("serve", "-m", SMOLLM2, "--port", str(server.port), "--data-dir", server.folder + "-other")
            self.assertEqual(code, 3, last)
            self.assertIn(str(server.process.pid), last[0])
            self.assertEqual(run("serve", "-m", SMOLLM2, "--port", "0", "--data-dir", server.folder)[0], 2)

    def test_models_that_cannot_be_served(self):
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            bad = os.path.join(folder, "bad.gguf")
            for content in (b"GGUF", b"", b"not a model at all", open(SMOLLM2, "rb").read(1 << 20)):
                with open(bad, "wb") as f:
                    f.write(content)
                for words in (["serve", "--port", "0", "--data-dir", folder, "-m", bad], ["generate", "-m", bad, "-p", "x"]):
                    r = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60)
                    self.assertEqual(r.returncode, 4, (words[0], content[:20], r.stderr[-500:]))
            r = subprocess.run([BINARY, "serve", "--port", "0", "--data-dir", folder, "-m", folder + "/none.gguf"], capture_output=True, text=True, timeout=60)
            self.assertEqual(r.returncode, 4, r.stderr[-500:])

    def test_keys(self):
        with Server("--api-key", "secret", "--api-key", "boss:admin", wait=False) as server:
            wait_until(lambda: server.health()[0] == 200, 40)
            auth = lambda key: {"Authorization": f"Bearer {key}"}
            self.assertEqual(server.request("GET", "/v1/models")[0], 401)
            self.assertEqual(server.request("GET", "/v1/models", headers=auth("wrong"))[0], 401)
            self.assertEqual(server.request("GET", "/v1/models", headers=auth("secret"))[0], 200)
            self.assertEqual(server.request("GET", "/admin/state", headers=auth("secret"))[0], 403)
            self.assertEqual(server.request("GET", "/admin/state", headers=auth("boss"))[0], 200)
            self.assertEqual(server.request("GET", "/no/such", )[0], 401)
            self.assertEqual(server.request("GET", "/", headers={"Accept": "text/html"})[0], 200)
            s = Socket(server)
            self.assertEqual(s.ask({"type": "session.create"})["error"]["code"], "unauthorized")
            self.assertEqual(s.ask({"type": "auth", "key": "wrong"})["error"]["code"], "unauthorized")
            self.assertEqual(s.ask({"type": "auth", "key": "secret"})["type"], "ack")
            s.create()
            s.close()
            silent = Socket(server)
            wait_until(lambda: silent.closed, 10, what="closed without a key")
            self.assertEqual(silent.closed.rcvd.code if hasattr(silent.closed, "rcvd") else silent.socket.close_code, 1008)

    def test_restart_keeps_sessions(self):
        server = Server()
        s = Socket(server)
        session = s.create(temperature=0)
        s.subscribe(session)
        message = s.message(session, "Hi.", max_tokens=6)
        s.finished(message)
        text, last = s.text(message), max(f["seq"] for f in s.frames if "seq" in f)
        self.assertEqual(server.stop(), 0)
        with Server(data_dir=server.folder) as again:
            stored = again.request("GET", f"/v1/sessions/{session}")[2]
            self.assertEqual(next(m for m in stored["messages"] if m["id"] == message)["content"], text)
            s = Socket(again, session)
            more = s.message(session, "And now?", max_tokens=4)
            s.finished(more)
            self.assertTrue(all(f["seq"] > last for f in s.frames if "seq" in f and f["type"] != "snapshot"))

    def test_queue_is_bounded(self):
        import threading
        with Server("--max-seqs", "2", "--queue-limit", "4") as server:
            results = []
            def one():
                status, headers, body = server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Long story."}],
                                                       "max_tokens": 60, "ignore_eos": True, "temperature": 0}, timeout=120)
                results.append((status, headers.get("Retry-After"), body.get("error", {}).get("code") if status != 200 else None))
            threads = [threading.Thread(target=one) for _ in range(20)]
            for t in threads:
                t.start()
            time.sleep(0.5)
            self.assertEqual(server.health()[0], 200)
            for t in threads:
                t.join()
            served = [r for r in results if r[0] == 200]
            refused = [r for r in results if r[0] == 429]
            self.assertEqual(len(served) + len(refused), 20, results)
            self.assertEqual(len(served), 6, results)
            self.assertTrue(all(int(r[1]) >= 1 and r[2] == "queue_full" for r in refused), refused)


if __name__ == "__main__":
    unittest.main()
