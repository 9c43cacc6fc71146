"""Python's requests: each connection carries a batch, is silent for a while, and carries another. Prints how many of the
second ones were lost. Usage: python3 client.py plain|keyed JOB"""

import json
import random
import sys
import threading
import time
import uuid
from datetime import datetime, timezone

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

kind = sys.argv[1]
job = json.loads(sys.argv[2])


def batch():
    event = {
        "type": "track",
        "name": "idle",
        "hashed_daily_id": "d" * 32,
        "hashed_monthly_id": "m" * 32,
        "session_id": str(uuid.uuid4()),
        "timestamp": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "context": {"os": "linux"},
    }
    return {"app_key": job["appKey"], "events": [event]}


def post(session):
    headers = {"Idempotency-Key": str(uuid.uuid4())} if kind == "keyed" else {}
    try:
        return session.post(job["url"], json=batch(), headers=headers, timeout=10).status_code == 202
    except requests.RequestException:
        return False


def work(lost):
    session = requests.Session()
    if kind == "keyed":
        # allowed_methods=None: POST too. Right for what carries a key, and for nothing else.
        session.mount("http://", HTTPAdapter(max_retries=Retry(total=2, allowed_methods=None)))
    time.sleep(random.uniform(0, job["startMs"]) / 1000)
    if not post(session):
        lost.append("first")
        return
    time.sleep(random.uniform(job["leastMs"], job["mostMs"]) / 1000)
    if not post(session):
        lost.append("second")


lost = []
threads = [threading.Thread(target=work, args=(lost,)) for _ in range(job["connections"])]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if "first" in lost:
    sys.exit("the first batch was not accepted")
print(len(lost))
