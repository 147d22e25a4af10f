"""Supervision from outside: sleep and wake, the degradation ladder, what a service manager hears, drain, actors that die."""
import os
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

from support import TINY, Server, Socket, alive, children, wait_until

QUESTION = {"messages": [{"role": "user", "content": "Tell me about rivers."}], "temperature": 0, "max_tokens": 24, "ignore_eos": True}


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answer(server, **more):
    status, _, body = server.request("POST", "/v1/chat/completions", {**QUESTION, **more})
    assert status == 200, (status, body)
    return body["choices"][0]["message"]["content"]


def status_of(server):
    return server.health()[1].get("status")



def slow_answer(server):
    """An answer that takes a second and runs by now: what it must be, where it will be found, who waits for it."""
    expected = answer(server)
    server.request("POST", "/admin/faults", {"kind": "slow", "slow_ms": 30, "times": 30})
    texts = []
    asker = threading.Thread(target=lambda: texts.append(answer(server)))
    asker.start()
    wait_until(lambda: server.metric("troupe_running"), 10, what="a running answer")
    return expected, texts, asker


class NotifySocket:
    """What systemd would hear."""

    def __init__(self, abstract=False):
        self.folder = tempfile.mkdtemp(prefix="troupe-notify-")
        self.name = f"@{self.folder[1:]}" if abstract else os.path.join(self.folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.name.replace("@", "\0"))
        self.socket.settimeout(0.2)
        self.heard, self.open = [], True  # (time, line)
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self):
        while self.open:
            try:
                text = self.socket.recv(4096).decode()
            except TimeoutError:
                continue
            self.heard += [(time.monotonic(), line) for line in text.split("\n") if line]

    def lines(self, start, since=0.0):
        return [(at, line) for at, line in list(self.heard) if line.startswith(start) and at >= since]

    def close(self):
        self.open = False
        self.thread.join()
        self.socket.close()


class Sleep(unittest.TestCase):
    def test_sleeps_and_wakes_for_a_request(self):
        with Server("--idle-unload-after", "1", model=TINY) as server:
            expected = answer(server)
            first = server.executor_pid()
            wait_until(lambda: status_of(server) == "sleeping", 20, what="sleep")
            wait_until(lambda: not alive(first), 5, what="the weights to be gone")
            self.assertEqual(server.health()[0], 200)
            self.assertEqual(server.request("GET", "/props")[2]["is_sleeping"], True)
            before, begun = cpu_seconds(server.process.pid), time.monotonic()
            time.sleep(2)
            used = (cpu_seconds(server.process.pid) - before) * 60 / (time.monotonic() - begun)
            self.assertLess(used, 0.9, "seconds of CPU time a minute, asleep")
            self.assertEqual(children(server.process.pid), [])
            texts = []
            askers = [threading.Thread(target=lambda: texts.append(answer(server))) for _ in range(3)]
            for t in askers:
                t.start()
            for t in askers:
                t.join()
            self.assertEqual(texts, [expected] * 3, "requests wait for the weights, none is refused")
            health = server.health()[1]
            self.assertEqual((health["executor"]["restarts"], health["executor"]["last_fault"]), (0, None))
            wait_until(lambda: status_of(server) == "sleeping", 20, what="sleep again")
            self.assertEqual(server.stop(), 0)

    def test_unload(self):
        with Server(model=TINY) as server:
            s = Socket(server)
            session = s.create(temperature=0)
            s.subscribe(session)
            server.request("POST", "/admin/unload")
            message = s.message(session, "Hi.", max_tokens=4000, ignore_eos=True)
            s.wait(lambda f: f["type"] == "delta" and f["message"] == message)
            begun = time.monotonic()
            self.assertEqual(server.request("POST", "/admin/unload")[::2], (200, {"unloaded": True}))
            self.assertLess(time.monotonic() - begun, 5)
            end = s.finished(message, 5)
            self.assertEqual((end["type"], end["error"]["code"]), ("generation.error", "not_ready"))
            self.assertEqual((server.executor_pid(), status_of(server)), (None, "sleeping"))
            self.assertTrue(answer(server))
            self.assertEqual(status_of(server), "ok")
            s.close()


class Ladder(unittest.TestCase):
    def test_a_device_lost_twice_leads_a_rung_down(self):
        with Server("--fault-injection", model=TINY) as server:
            s = Socket(server)
            session = s.create(temperature=0)
            s.subscribe(session)
            expected = answer(server)
            server.request("POST", "/admin/faults", {"kind": "device_lost", "after_steps": 5, "times": 2})
            self.assertEqual(answer(server), expected)
            health = wait_until(lambda: server.health()[1].get("status") == "degraded" and server.health()[1], 20)
            self.assertEqual(health["level"], "no_run_ahead")
            self.assertIn("device", " ".join(health["reasons"]))
            self.assertEqual(answer(server), expected, "only slower")
            told = s.wait(lambda f: f["type"] == "degraded" and f["level"] == "no_run_ahead", 10)
            self.assertIn("device", told["reason"])
            late = Socket(server)
            late.wait(lambda f: f["type"] == "degraded" and f["level"] == "no_run_ahead", 10)
            events = [e["event"] for e in server.request("GET", "/admin/state")[2]["events"]]
            self.assertIn("degraded", events)
            for each in (s, late):
                each.close()


class ServiceManager(unittest.TestCase):
    def test_hears_the_truth(self):
        notify = NotifySocket()
        with Server(model=TINY, env={"NOTIFY_SOCKET": notify.name, "WATCHDOG_USEC": "600000"}) as server:
            wait_until(lambda: notify.lines("READY=1"), 20, what="READY=1")
            wait_until(lambda: notify.lines("STATUS=ok"), 20, what="STATUS=ok")
            since = time.monotonic()
            wait_until(lambda: len(notify.lines("WATCHDOG=1", since)) >= 4, 10, what="a steady watchdog")
            self.assertEqual(len(notify.lines("READY=1")), 1)
            pid = server.kill_executor(signal.SIGSTOP)
            # Nothing is known to be wrong before the first round trip that fails; from then on there is silence.
            wait_until(lambda: status_of(server) == "recovering", 10, what="the frozen executor to be noticed")
            noticed = time.monotonic()
            wait_until(lambda: not alive(pid), 20, what="the frozen executor to be replaced")
            ended = time.monotonic()
            told = [at for at, _ in notify.lines("WATCHDOG=1", noticed + 0.2) if at < ended - 0.1]
            self.assertGreater(ended - noticed, 1, "long enough to be told something else")
            self.assertEqual(told, [], "no sign of life of an engine that hangs")
            server.wait_healthy()
            wait_until(lambda: notify.lines("WATCHDOG=1", time.monotonic() - 0.5), 10, what="the watchdog to go on")
            os.kill(server.process.pid, signal.SIGSTOP)
            time.sleep(0.2)
            since = time.monotonic()
            time.sleep(1.2)
            self.assertEqual(notify.lines("", since), [])
            os.kill(server.process.pid, signal.SIGCONT)
            self.assertEqual(server.stop(), 0)
            wait_until(lambda: notify.lines("STOPPING=1"), 5, what="STOPPING=1")
        notify.close()

    def test_an_abstract_name_and_no_watchdog(self):
        notify = NotifySocket(abstract=True)
        with Server(model=TINY, env={"NOTIFY_SOCKET": notify.name}) as server:
            wait_until(lambda: notify.lines("READY=1"), 20, what="READY=1")
            server.kill_executor()
            wait_until(lambda: len(notify.lines("STATUS=ok")) >= 2, 20, what="the level before and after")
            self.assertEqual(server.stop(), 0)
        notify.close()


class End(unittest.TestCase):
    def test_an_idle_server_ends_at_once(self):
        with Server(model=TINY) as server:
            begun = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - begun, 1.2)

    def test_sigterm_lets_an_answer_end_that_no_journal_has(self):
        with Server("--fault-injection", model=TINY) as server:
            expected, texts, asker = slow_answer(server)
            self.assertEqual(server.stop(), 0)
            asker.join()
            self.assertEqual(texts, [expected])

    def test_drain_waits_for_what_runs_and_refuses_the_rest(self):
        with Server("--fault-injection", model=TINY) as server:
            expected, texts, asker = slow_answer(server)
            drained = threading.Thread(target=lambda: texts.append(server.request("POST", "/admin/drain")[0]))
            drained.start()
            wait_until(lambda: "draining" in " ".join(server.health()[1].get("reasons", [])), 5)
            status, _, body = server.request("POST", "/v1/chat/completions", QUESTION)
            self.assertEqual((status, body["error"]["code"]), (503, "shutting_down"))
            asker.join()
            drained.join()
            self.assertEqual(sorted(map(str, texts)), sorted([expected, "200"]))
            self.assertEqual(server.stop(), 0)


class OtherActors(unittest.TestCase):
    """Each dies in the middle of work; the others go on, and what it was doing is done again or ends with a typed error."""

    def converse(self, server, arm):
        s = Socket(server)
        sessions = [s.create(temperature=0) for _ in range(3)]
        for session in sessions:
            s.subscribe(session)
        messages = [s.message(session, "Tell me about rivers.", max_tokens=60, ignore_eos=True) for session in sessions]
        s.wait(lambda f: f["type"] == "delta" and f["message"] == messages[-1])
        arm()
        ends = [s.finished(m, 40) for m in messages]
        self.assertEqual([e["type"] for e in ends], ["generation.done"] * 3)
        self.assertIsNone(s.closed)
        texts = [server.request("GET", f"/v1/sessions/{x}")[2]["messages"][1]["content"] for x in sessions]
        s.close()
        return texts

    def test_crash_of_each(self):
        with Server("--fault-injection", model=TINY) as server:
            expected = self.converse(server, lambda: None)
            self.assertEqual(len(set(expected)), 1)

            def restarts():
                return {a["name"]: a["restarts"] for a in server.request("GET", "/admin/state")[2]["actors"]}

            for target in ("session", "store", "tokenizer", "compactor"):
                def arm():
                    status, _, body = server.request("POST", "/admin/faults", {"target": target, "kind": "crash"})
                    self.assertEqual(status, 200, body)
                    if target == "tokenizer":
                        self.assertEqual(answer(server), answer(server))  # the first of them dies with it and is asked again
                self.assertEqual(self.converse(server, arm), expected, target)
                if target == "session":
                    self.assertEqual(server.metric('troupe_actor_restarts_total{actor="session"'), 1)
                    continue
                wait_until(lambda: restarts()[target] == 1, 20, what=f"the restart of the {target}")
            self.assertEqual(server.health()[1]["executor"]["restarts"], 0)
            self.assertTrue(answer(server))

    def test_a_deleted_session_ends_its_answer(self):
        with Server(model=TINY) as server:
            s = Socket(server)
            session = s.create(temperature=0)
            s.subscribe(session)
            message = s.message(session, "Hi.", max_tokens=4000, ignore_eos=True)
            s.wait(lambda f: f["type"] == "delta" and f["message"] == message)
            self.assertEqual(server.request("DELETE", f"/v1/sessions/{session}")[0], 200)
            end = s.finished(message, 10)
            self.assertEqual((end["type"], end["error"]["code"]), ("generation.error", "not_found"))
            gone = s.wait(lambda f: f["type"] == "session.deleted", 10)
            self.assertEqual(gone["seq"], end["seq"] + 1)
            wait_until(lambda: server.metric("troupe_running") == 0, 10)
            for method in ("GET", "HEAD"):
                self.assertEqual(server.request(method, f"/v1/sessions/{session}/events")[0], 404, method)
            s.close()


class Start(unittest.TestCase):
    def test_a_database_of_a_newer_troupe_is_left_alone(self):
        with Server(model=TINY) as server:
            session = server.request("POST", "/v1/sessions", {"title": "kept"})[2]["id"]
            self.assertEqual(server.stop(), 0)
            file = os.path.join(server.folder, "troupe.db")
            with sqlite3.connect(file) as db:
                db.execute("PRAGMA user_version=99")
            db.close()
            with Server(model=TINY, data_dir=server.folder) as again:
                health = wait_until(lambda: status_of(again) == "degraded" and again.health()[1], 10)
                self.assertIn("newer Troupe", " ".join(health["reasons"]))
                self.assertTrue(answer(again), "it serves on")
                self.assertEqual(again.request("GET", f"/v1/sessions/{session}")[0], 404)
                self.assertEqual(again.stop(), 0)
            with sqlite3.connect(file) as db:
                self.assertEqual(db.execute("PRAGMA user_version").fetchone()[0], 99)
                self.assertEqual(db.execute("SELECT count(*) FROM sessions").fetchone()[0], 1)
            db.close()

    def test_an_executor_of_an_earlier_run_is_ended_first(self):
        sleeper = subprocess.Popen(["sleep", "600"])
        with open(f"/proc/{sleeper.pid}/stat") as f:
            started = f.read().rsplit(")", 1)[1].split()[19]
        with open("/proc/sys/kernel/random/boot_id") as f:
            boot = f.read().strip()
        folder = tempfile.mkdtemp(prefix="troupe-test-")
        record = os.path.join(folder, "executor.pid")
        with open(record, "w") as f:
            f.write(f"{sleeper.pid} {started} {boot}\n")
        with Server(model=TINY, data_dir=folder) as server:
            self.assertEqual(sleeper.wait(5), -signal.SIGKILL)
            with open(record) as f:
                self.assertEqual(int(f.read().split()[0]), server.executor_pid())
            self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(record))


if __name__ == "__main__":
    unittest.main()
