"""Runs a buffer or a store of the program in a separate process, for tests."""

import http.client
import json
import os
import re
import subprocess

PROGRAM = os.environ["EVENKEEL_PROGRAM"]


class Buffer:
    command = "buffer"

    def __init__(self, *options, listen="127.0.0.1:0"):
        self.process = subprocess.Popen([PROGRAM, self.command, "--listen", listen, *options], stdout=subprocess.PIPE, text=True)
        said = ""
        while "Listening on" not in said:
            line = self.process.stdout.readline()
            assert line, said
            said += line
        self.url = re.search(r"Listening on (\S+)", said)[1]

    def status(self):
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"))
        connection.request("GET", "/v1/status")
        return json.loads(connection.getresponse().read())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0
        self.process.stdout.close()


class Store(Buffer):
    command = "store"
