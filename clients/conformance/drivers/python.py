"""The driver of clients/python: python3 drivers/python.py. The client lives in a child, which `restart` kills."""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time

CAPABILITIES = ["storage", "opt_out", "clock", "compression"]


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def drive():
    ahead_ms = 0
    child = start(ahead_ms)
    say({"version": 1, "sdk": "sluice_client.py", "capabilities": CAPABILITIES})
    for line in sys.stdin:
        command = json.loads(line)
        if command["command"] == "clock":
            ahead_ms = command["ahead_ms"]
        if command["command"] == "restart":
            child.kill()
            child.wait()
            child = start(ahead_ms)
            say({"done": "restart"})
        else:
            child.stdin.write(line)
            child.stdin.flush()
    child.stdin.close()
    sys.exit(child.wait())


def start(ahead_ms):
    """What the child writes goes out as it is."""
    return subprocess.Popen([sys.executable, __file__, str(ahead_ms)], stdin=subprocess.PIPE, text=True)


def work(ahead_ms):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    import sluice_client

    ahead = [ahead_ms]
    machine_time = time.time
    time.time = lambda: machine_time() + ahead[0] / 1000
    # Hooks are called in more than one thread.
    writing = threading.Lock()

    def tell(line):
        with writing:
            say(line)

    client = sluice_client.Client(
        os.environ["SLUICE_URL"],
        os.environ["SLUICE_APP_KEY"],
        folder=os.environ["SLUICE_FOLDER"],
        on_dropped=lambda reason, events: tell({"dropped": [event["name"] for event in events], "reason": reason}),
    )
    commands = {
        "track": lambda command: client.track(command["name"], command["properties"]),
        "flush": lambda _: client.flush(0),
        "opt_out": lambda _: client.opt_out(),
        "opt_in": lambda _: client.opt_in(),
        "clock": lambda command: ahead.__setitem__(0, command["ahead_ms"]),
        "close": lambda _: client.close(1),
    }
    for line in sys.stdin:
        command = json.loads(line)
        commands[command["command"]](command)
        tell({"done": command["command"]})


drive() if len(sys.argv) == 1 else work(int(sys.argv[1]))
