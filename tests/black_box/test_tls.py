"""TLS: the same routes and the same WebSocket behind a certificate; plain HTTP on that port is no way in."""
import http.client
import json
import os
import ssl
import subprocess
import tempfile
import unittest

from websockets.sync.client import connect

from support import Server, TINY, wait_until


class Tls(unittest.TestCase):
    def test_https_and_wss(self):
        folder = tempfile.mkdtemp(prefix="troupe-tls-")
        cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
        context = ssl.create_default_context(cafile=cert)
        with Server("--tls-cert", cert, "--tls-key", key, model=TINY, wait=False) as server:
            self.assertEqual(server.scheme, "https")

            def get(path):
                c = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=20)
                c.request("GET", path)
                r = c.getresponse()
                return r.status, r.read()
            wait_until(lambda: get("/health")[0] == 200, 30)
            c = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=20)
            for _ in range(2):  # the connection is kept
                c.request("POST", "/v1/completions", json.dumps({"prompt": "the", "max_tokens": 4, "temperature": 0}))
                answer = json.loads(c.getresponse().read())
                self.assertEqual(answer["usage"]["completion_tokens"], 4)
            with connect(f"wss://localhost:{server.port}/ws", ssl=context, subprotocols=["troupe.v1"], origin=f"https://localhost:{server.port}") as ws:
                ws.send(json.dumps({"type": "session.create", "request_id": "1"}))
                self.assertEqual(json.loads(ws.recv(timeout=10))["type"], "session.created")
            plain = http.client.HTTPConnection("localhost", server.port, timeout=10)
            with self.assertRaises((http.client.HTTPException, OSError)):
                plain.request("GET", "/health")
                plain.getresponse()
            self.assertEqual(get("/health")[0], 200)
            self.assertEqual(server.stop(), 0)

    def test_bad_files(self):
        from support import BINARY
        for words in (["--tls-cert", "/no/such"], ["--tls-cert", "/no/such", "--tls-key", "/no/such"]):
            r = subprocess.run([BINARY, "serve", "-m", TINY, "--port", "0", "--data-dir", tempfile.mkdtemp(), *words], capture_output=True, text=True, timeout=30)
            self.assertEqual(r.returncode, 2, r.stderr)


if __name__ == "__main__":
    unittest.main()
