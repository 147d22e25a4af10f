"""Bounded interference, measured from outside with Gemma 3 270M. Exits 1 if a bound is broken.

1. A prompt of 20,000 tokens beside three streams: the 99th percentile of the streams' gaps while it is read is at most
   three times their median without it (measured before and after).
2. A client with 50 requests in the queue and two running: another client's single request starts as soon as one of the
   two has ended.
"""
import argparse
import http.client
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "black_box"))
from support import Server  # noqa: E402

MODEL = os.environ["TROUPE_FAIRNESS_MODEL"]


class Stream(threading.Thread):
    """One streamed answer; `times` says when its tokens came: each one, or with a user those that end a piece of text."""

    def __init__(self, server, prompt, n, user=None):
        super().__init__(daemon=True)
        self.server, self.times, self.ended, self.error = server, [], None, None
        common = {"prompt": prompt, "stream": True, "ignore_eos": True, "temperature": 0}
        self.path = "/v1/completions" if user else "/completion"
        self.body = json.dumps({**common, "max_tokens": n, "user": user} if user else {**common, "n_predict": n, "return_tokens": True})
        self.sent = time.monotonic()
        self.start()

    def run(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=900)
        try:
            connection.request("POST", self.path, self.body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise RuntimeError(response.read().decode())
            for line in response:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    raise RuntimeError(event["error"])
                made = len(event.get("tokens") or []) if "content" in event else any(c["text"] for c in event["choices"])
                self.times += [time.monotonic()] * int(made)
        except Exception as e:
            self.error = self.error or e
        self.ended = time.monotonic()

    def wait_tokens(self, n, seconds=600):
        end = time.monotonic() + seconds
        while len(self.times) < n and not self.ended:
            if time.monotonic() > end:
                raise AssertionError("no tokens")
            time.sleep(0.005)
        if len(self.times) < n:
            raise AssertionError(f"the stream ended: {self.error}")


def gaps(streams, begin, end):
    """Seconds between neighbouring tokens of each stream within [begin, end]."""
    found = []
    for s in streams:
        inside = [t for t in list(s.times) if begin <= t <= end]
        found += [b - a for a, b in zip(inside, inside[1:])]
    return sorted(found)


def share(values, p):
    return values[min(len(values) - 1, int(p * len(values)))]


def words(n, salt):
    return [1000 + (salt * 7919 + 31 * i) % 20000 for i in range(n)]


def long_prompt(options):
    with Server("--ctx-size", "24576", "--max-seqs", "8", model=MODEL) as server:
        streams = [Stream(server, words(40, i), 20000) for i in range(3)]
        for s in streams:
            s.wait_tokens(20)
        before = time.monotonic()
        time.sleep(options.seconds)
        asked = time.monotonic()
        long = Stream(server, words(options.prompt, 9), 1)
        long.wait_tokens(1)
        first = long.times[0]
        time.sleep(options.seconds)
        after = time.monotonic()
        alone = gaps(streams, before, asked) + gaps(streams, first, after)
        beside = gaps(streams, asked, first)
    alone.sort()
    median, p99 = statistics.median(alone), share(beside, 0.99)
    rows = [f"- Gaps of three streams alone: median {1000 * median:.1f} ms, p99 {1000 * share(alone, 0.99):.1f} ms ({len(alone)} gaps)",
            f"- Beside a prompt of {options.prompt} tokens, read in {first - asked:.1f} s ({options.prompt / (first - asked):.0f} tokens/s): "
            f"median {1000 * statistics.median(beside):.1f} ms, p99 {1000 * p99:.1f} ms, worst {1000 * beside[-1]:.1f} ms ({len(beside)} gaps)",
            f"- p99 beside it / median alone: {p99 / median:.2f} (bound 3)"]
    return p99 <= 3 * median, rows


def busy_client(options):
    with Server("--max-seqs", "2", model=MODEL) as server:
        many = [Stream(server, words(60, i), 48, "busy") for i in range(52)]
        while sum(s.ended is not None for s in many) < 3:  # two run, the others wait
            time.sleep(0.005)
        single = Stream(server, words(60, 99), 8, "single")
        single.wait_tokens(1)
        first = single.times[0]
        waiting = sum(s.ended is None for s in many)
        ended = sum(s.ended is not None and single.sent < s.ended < first for s in many)
        began = sum(bool(s.times) and single.sent < s.times[0] < first for s in many)
        wrong = [s.error for s in many + [single] if s.ended and s.error]
    rows = [f"- A client with {waiting} requests in the house: another client's single request had its first token after "
            f"{first - single.sent:.2f} s; of the busy client's, {ended} ended meanwhile and {began} had their first token "
            f"(bound 2: those that ran when it came)"]
    return max(ended, began) <= 2 and not wrong, rows + [f"- {e}" for e in wrong]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prompt", type=int, default=20000, help="tokens")
    parser.add_argument("--seconds", type=float, default=10, help="of streams alone, before and after")
    parser.add_argument("--report", help="file that gets the figures")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    good, rows = True, []
    for part in (long_prompt, busy_client):
        ok, more = part(options)
        good, rows = good and ok, rows + more
        print("\n".join(more), flush=True)
    print("holds" if good else "BROKEN")
    if options.report:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=os.path.dirname(__file__)).stdout.strip()
        cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
        with open(options.report, "w") as f:
            f.write("\n".join(["# How much one disturbs another", "",
                               f"`scripts/fairness --prompt {options.prompt}`, Gemma 3 270M Q4_K_M, {os.cpu_count()} cores of {cpu}, load of other "
                               f"work {load:.1f}, {time.strftime('%Y-%m-%d')}, commit {commit}. Result: {'holds' if good else 'BROKEN'}.", "", *rows]) + "\n")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
