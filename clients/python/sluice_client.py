"""Sends analytics events to sluice: in batches, each of which is stored once, or reported as dropped with the reason.

One file, of the standard library alone, for Python 3.9 and later.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections import deque
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Callable, NamedTuple

try:
    import fcntl
except ImportError:  # Windows: each process that shares a folder sends, under the same keys.
    fcntl = None  # type: ignore[assignment]

__all__ = ["Client"]
VERSION = "sluice-client-python/0.1.0"

MAX_EVENTS = 100
# The service takes 512 KB, of a batch and so of an event too.
MAX_BATCH_BYTES = 250_000
MAX_EVENT_BYTES = 500_000
MAX_ANSWER_BYTES = 1_000_000
# What fits one packet need not be smaller.
COMPRESS_FROM_BYTES = 1200
ANSWER_TIMEOUT_S = 30
FIRST_BACKOFF_S = 3
MAX_FAILURES = 10
# After so many failures in a row.
REST_S = 3600
# A month's Retry-After may be weeks, and the plan may change before.
MAX_WAIT_S = 86_400
# The service takes no older events.
LIFE_MS = 72 * 3_600_000
# Less harms nobody.
CLOCK_TOLERANCE_MS = 300_000
LOCK_AGAIN_S = 5
RETENTION_MS = 90 * 86_400_000
SESSION_IDLE_MS = 1_800_000

REASONS = {401: "unauthorized", 402: "subscription", 403: "blocked", 413: "too_large"}
# b, when it was sealed, its bytes, who sealed it: sorted by age.
NAME = re.compile(r"b(\d+)-(\d+)-")
MINUTE = re.compile(r'"minute";r=(\d+);t=(\d+)')

Event = dict


class Answer(NamedTuple):
    status: int
    headers: Any
    text: str


class Verdict(NamedTuple):
    """`parts` take the place of the batch, and its other events are dropped for `reason`. No parts: it waits."""

    parts: "list[list[Event]] | None"
    reason: "str | None" = None
    wait_s: float = 0


class Client:
    """Takes events from any thread, and sends them from one of its own. What it drops it gives to `on_dropped(reason, events)`."""

    def __init__(
        self,
        url: str,
        app_key: str,
        *,
        folder: "str | None" = None,
        context: "dict | None" = None,
        on_dropped: "Callable[[str, list[Event]], None] | None" = None,
        max_queue_bytes: int = 2_000_000,
        flush_interval_s: float = 3,
    ) -> None:
        """`folder` keeps what waits, and the opt-out, for the next process; processes may share it."""
        self._url = url.rstrip("/") + "/api/v1/events"
        self._app_key = app_key
        self._context = {"os": sys.platform, **(context or {})}
        self._on_dropped = on_dropped
        self._max_queue_bytes = max_queue_bytes
        self._flush_interval_s = flush_interval_s
        self._store = _Store(folder)
        # The environment's proxies are used; a redirect is an answer, since it would turn POST into GET.
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._closed = False
        self._begin()
        with self._changed:
            if self._names():
                self._start()

    def track(self, name: str, properties: "dict | None" = None, **members: Any) -> None:
        """`members` are set in the event as they are: user_id, hashed_daily_id, hashed_monthly_id, session_id, context."""
        self._take("track", name, members if properties is None else {"properties": properties, **members})

    def screen(self, name: str, properties: "dict | None" = None, **members: Any) -> None:
        self._take("screen", name, members if properties is None else {"properties": properties, **members})

    def revenue(self, name: str, revenue: dict, **members: Any) -> None:
        self._take("revenue", name, {"revenue": revenue, **members})

    def flush(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
        """Tries once to send all, and waits for that. True: nothing waits any more."""
        self._after_fork()
        with self._changed:
            self._seal()
            # It cuts a backoff short, but not a Retry-After.
            self._retry_at = 0.0
            if not self._closed and self._names():
                self._start()
                self._tries += 1
                self._changed.notify_all()
                tries = self._tries
                self._changed.wait_for(lambda: self._tried >= tries, timeout_s)
            done = not self._open and not self._names()
        self._tell()
        return done

    def close(self, timeout_s: float = 5) -> None:
        """Flushes, and ends. What is in the folder waits for the next client; what is in memory is dropped."""
        self.flush(timeout_s)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            for name in self._names():
                if name in self._store.memory:
                    self._drop_item(name, "closed")
            self._unlock()
        self._tell()

    def opt_out(self) -> None:
        """Drops what waits, forgets the ids, and takes no events until opt_in()."""
        self._after_fork()
        with self._changed:
            self._store.set("consent", "denied")
            self._denied = True
            self._drop("consent", self._take_open(len(self._open)))
            for name in self._names():
                self._drop_item(name, "consent")
            self._periods, self._used_ms = {}, 0
        self._tell()

    def opt_in(self) -> None:
        with self._changed:
            self._store.set("consent", "granted")
            self._denied = False

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # ---- from an event to a batch

    def _begin(self) -> None:
        self._pid = os.getpid()
        # Everything below is read and written while this is held.
        self._changed = threading.Condition()
        self._id = str(uuid.uuid4())
        self._open: "list[tuple[Event, int]]" = []
        self._open_bytes = 0
        self._open_since = 0.0
        self._last_ms = 0
        self._drops: "deque[tuple[str, list[Event]]]" = deque()
        self._denied = self._store.get("consent") == "denied"
        self._periods: dict = {}
        self._session, self._used_ms = "", 0
        self._thread: "threading.Thread | None" = None
        self._lock: "int | None" = None
        self._failures = 0
        self._retry_at = 0.0
        self._wait_until = 0.0
        self._sending: "str | None" = None
        # Flushes that were asked for, and those of them that are over.
        self._tries = 0
        self._tried = 0

    def _after_fork(self) -> None:
        """A child has none of its parent's threads, and what is open is its parent's to send."""
        if self._pid != os.getpid():
            self._store.memory.clear()
            self._begin()

    def _take(self, kind: str, name: str, members: dict) -> None:
        self._after_fork()
        with self._changed:
            event = {"event_id": str(uuid.uuid4()), "type": kind, "name": name, **self._ids(), "timestamp": _text_of(_now_ms())}
            event = {**event, **members, "context": {**self._context, **(members.get("context") or {})}}
            reason = "closed" if self._closed else "consent" if self._denied else self._add(event)
            if reason is not None:
                self._drop(reason, [event])
        self._tell()

    def _add(self, event: Event) -> "str | None":
        """None, or why the event is not taken."""
        try:
            text = json.dumps(event, allow_nan=False, ensure_ascii=False)
            size = len(text.encode())
        except Exception:
            return "invalid"
        if size > MAX_EVENT_BYTES:
            return "too_large"
        if not self._open:
            self._open_since = time.monotonic()
        # A copy: the caller may go on changing what it gave.
        self._open.append((json.loads(text), size + 1))
        self._open_bytes += size + 1
        if len(self._open) >= MAX_EVENTS or self._open_bytes >= MAX_BATCH_BYTES:
            self._seal()
        self._start()
        self._changed.notify_all()
        return None

    def _take_open(self, count: int) -> "list[Event]":
        taken, self._open = self._open[:count], self._open[count:]
        self._open_bytes = sum(size for _, size in self._open)
        return [event for event, _ in taken]

    def _seal(self) -> None:
        """Puts the open events into batches, which are stored before they are sent."""
        while self._open:
            count = total = 0
            for _, size in self._open[:MAX_EVENTS]:
                if count > 0 and total + size > MAX_BATCH_BYTES:
                    break
                count, total = count + 1, total + size
            batch = self._batch(self._take_open(count), self._store.get_json("dropped", {}))
            self._last_ms = max(_now_ms(), self._last_ms + 1)
            name = f"b{self._last_ms:015d}-{len(batch['body'].encode())}-{self._id}"
            self._store.set(name, json.dumps([batch]))
            self._store.remove("dropped")
        waiting = self._names()
        total = sum(_size_of(name) for name in waiting)
        for name in waiting[:-1]:
            if total > self._max_queue_bytes and name != self._sending:
                total -= _size_of(name)
                self._drop_item(name, "overflow")

    def _batch(self, events: "list[Event]", dropped: dict) -> dict:
        report = {"client_report": {"dropped": dropped}} if dropped else {}
        body = {"app_key": self._app_key, "sdk_version": VERSION, **report, "events": [self._correct(event) for event in events]}
        return {"key": str(uuid.uuid4()), "body": json.dumps(body, separators=(",", ":"), ensure_ascii=False)}

    def _names(self) -> "list[str]":
        return sorted(name for name in self._store.names() if NAME.match(name))

    def _read(self, name: str) -> "list[dict]":
        found = self._store.get_json(name, [])
        return [batch for batch in found if isinstance(batch, dict) and isinstance(batch.get("body"), str)] if isinstance(found, list) else []

    def _replace(self, name: str, batch: dict, others: "list[dict]") -> bool:
        """Puts others in the place of a batch, in one write, where it is still there."""
        waiting = self._read(name)
        if not waiting or waiting[0]["key"] != batch["key"]:
            return False
        if others or waiting[1:]:
            self._store.set(name, json.dumps(others + waiting[1:]))
        else:
            self._store.remove(name)
        return True

    # ---- what is dropped

    def _drop(self, reason: str, events: "list[Event]") -> None:
        if events:
            self._count({reason: len(events)})
            self._drops.append((reason, events))

    def _count(self, report: dict) -> None:
        if report:
            dropped = self._store.get_json("dropped", {})
            for reason, more in report.items():
                dropped[reason] = dropped.get(reason, 0) + more
            self._store.set("dropped", json.dumps(dropped))

    def _drop_item(self, name: str, reason: str) -> None:
        batches = [_contents(batch) for batch in self._read(name)]
        self._store.remove(name)
        for events, report in batches:
            self._count(report)
            self._drop(reason, events)

    def _tell(self) -> None:
        """Without the lock, since the hook may wait for another thread that tracks."""
        while True:
            try:
                reason, events = self._drops.popleft()
            except IndexError:
                return
            if self._on_dropped is not None:
                try:
                    self._on_dropped(reason, events)
                except Exception:
                    pass

    # ---- sending

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._work, name="sluice-client", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        pid = self._pid
        while True:
            with self._changed:
                name, wait_s = self._next()
                while name is None and not self._closed:
                    self._tried = self._tries
                    self._changed.notify_all()
                    self._changed.wait(wait_s)
                    name, wait_s = self._next()
                if name is None or self._closed or pid != os.getpid():
                    self._tried = self._tries
                    self._changed.notify_all()
                    return
                batches = self._read(name)
                self._sending = name
                if not batches or int(NAME.match(name).group(1)) <= _now_ms() - LIFE_MS:
                    self._drop_item(name, "expired")
                    batches = []
            try:
                if batches:
                    self._send(name, batches[0])
            finally:
                with self._changed:
                    self._sending = None
            self._tell()

    def _next(self) -> "tuple[str | None, float | None]":
        """What is to be sent now; else None, and after how many seconds to look again."""
        now = time.monotonic()
        seal_s = None
        if self._open:
            seal_s = self._open_since + self._flush_interval_s - now
            if seal_s <= 0:
                self._seal()
                seal_s = None
        names = self._names()
        if not names or self._denied or self._closed:
            # Another process may have something to send.
            self._unlock()
            return None, seal_s
        # What another process was told, or an earlier one. A longer wait was written by a clock that has been set back.
        stored_s = float(self._store.get_json("wait", 0)) / 1000 - _now_ms() / 1000
        wait_s = max(self._retry_at - now, self._wait_until - now, stored_s if stored_s <= MAX_WAIT_S else 0)
        if wait_s <= 0 and not self._try_lock(names):
            wait_s = LOCK_AGAIN_S
        if wait_s <= 0:
            return names[0], None
        return None, min(wait_s, seal_s) if seal_s is not None else wait_s

    def _send(self, name: str, batch: dict) -> None:
        answer = self._post(batch)
        events, report = _contents(batch)
        with self._changed:
            verdict = self._judge(answer, events)
            if verdict.parts is None:
                self._fail(verdict.wait_s)
                return
            self._failures = 0
            parts = [part for part in verdict.parts if part]
            others = [self._batch(part, report if place == 0 else {}) for place, part in enumerate(parts)]
            if not self._replace(name, batch, others) or verdict.reason is None:
                return
            if not others:
                self._count(report)
            kept = {event.get("event_id") for part in parts for event in part}
            self._drop(verdict.reason, [event for event in events if event.get("event_id") not in kept])

    def _post(self, batch: dict) -> "Answer | None":
        """One try. None: there was no answer."""
        body = batch["body"].encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": batch["key"]}
        if len(body) >= COMPRESS_FROM_BYTES:
            body = gzip.compress(body, 6)
            headers["Content-Encoding"] = "gzip"
        request = urllib.request.Request(self._url, body, headers, method="POST")
        sent_ms, sent = _now_ms(), time.monotonic()
        try:
            try:
                response = self._opener.open(request, timeout=ANSWER_TIMEOUT_S)
            except urllib.error.HTTPError as refusal:
                response = refusal
            with response:
                answered_ms = _now_ms()
                took_ms = max(abs(answered_ms - sent_ms), (time.monotonic() - sent) * 1000)
                text = _read_all(response)
                with self._changed:
                    self._learn(response.headers.get("Date"), (sent_ms + answered_ms) / 2, took_ms)
                return Answer(response.getcode(), response.headers, text)
        except Exception:  # Whatever breaks on the way, the batch is tried again.
            return None

    def _judge(self, answer: "Answer | None", events: "list[Event]") -> Verdict:
        """What the answer means for the batch: `x-sdk` of openapi.yaml."""
        if answer is None:
            return Verdict(None)
        status, headers, text = answer
        if status == 202:
            self._pace(headers.get("RateLimit"), len(events))
            return Verdict([], "key_reused" if headers.get("Sluice-Replay") == "other" else None)
        try:
            refusal = json.loads(text)
        except ValueError:
            refusal = None
        refusal = refusal if isinstance(refusal, dict) else {}
        if status == 400:
            return Verdict([self._without_invalid(refusal, events)], "invalid")
        limit = headers.get("X-RateLimit-Limit") or ""
        never_fits = status == 429 and limit.isdigit() and len(events) > max(int(limit), 1)
        if (status == 413 or never_fits) and len(events) > 1:
            half = (len(events) + 1) // 2
            return Verdict([events[:half], events[half:]], "too_large")
        if not 400 <= status < 500 or status in (408, 429):
            seconds = headers.get("Retry-After") or ""
            return Verdict(None, None, min(int(seconds), MAX_WAIT_S) if seconds.isdigit() else 0)
        if status == 401 and refusal.get("reason") == "origin":
            return Verdict(None)
        return Verdict([], REASONS.get(status, "refused"))

    def _without_invalid(self, refusal: dict, events: "list[Event]") -> "list[Event]":
        """None where no event is named. One whose time alone is wrong stays, once, where the clock was found to be off."""
        places = refusal.get("invalid_events")
        if not isinstance(places, list):
            return []
        errors = [error for error in refusal.get("errors") or [] if isinstance(error, dict)]
        wrong = {error.get("event") for error in errors if error.get("code") != "range"}
        late = {error.get("event") for error in errors} - wrong

        def stays(place: int, event: Event) -> bool:
            may_be_cured = place not in wrong and (place in late or len(errors) < len(places))
            return place not in places or (may_be_cured and "clock_correction_ms" not in event and self._correct(event) is not event)

        return [event for place, event in enumerate(events) if stays(place, event)]

    def _fail(self, retry_after_s: float) -> None:
        backoff_s = FIRST_BACKOFF_S * 2**self._failures * (1 - random.random() / 2)
        self._failures = (self._failures + 1) % MAX_FAILURES
        now = time.monotonic()
        self._retry_at = now + (REST_S if self._failures == 0 else backoff_s)
        if retry_after_s > 0:
            # A little more: not all clients come at the minute's turn.
            self._wait_until = now + retry_after_s * (1 + random.random() / 20)
            self._store.set("wait", str(int(_now_ms() + retry_after_s * 1000)))

    def _pace(self, rate_limit: "str | None", count: int) -> None:
        """Little is left of the minute: the rest of it is for what is left, so that nothing is refused."""
        found = MINUTE.search(rate_limit or "")
        if found:
            left, seconds = int(found.group(1)), min(int(found.group(2)), 60)
            self._wait_until = time.monotonic() + min(count / max(left, 1), 1) * seconds

    # ---- clock, ids, lock

    def _learn(self, date: "str | None", middle_ms: float, took_ms: float) -> None:
        """The service's time lay between sending and answer, so a slow answer says little."""
        try:
            off_ms = parsedate_to_datetime(date or "").timestamp() * 1000 - middle_ms
        except (TypeError, ValueError):
            return
        if abs(off_ms) - took_ms / 2 > CLOCK_TOLERANCE_MS:
            self._store.set("clock", str(round(off_ms)))
        elif abs(off_ms) + took_ms / 2 < CLOCK_TOLERANCE_MS and self._store.get("clock") is not None:
            self._store.remove("clock")

    def _correct(self, event: Event) -> Event:
        """An event as it is to be sent; what the device said stays in it."""
        add_ms = self._store.get_json("clock", 0)
        said = event.get("client_timestamp", event.get("timestamp"))
        try:
            at_ms = datetime.fromisoformat(str(said).replace("Z", "+00:00")).timestamp() * 1000 + add_ms
            if add_ms == 0:
                return event
            return {**event, "timestamp": _text_of(at_ms), "client_timestamp": said, "clock_correction_ms": add_ms}
        except (TypeError, ValueError, OverflowError, OSError):
            return event

    def _ids(self) -> dict:
        """Random ids, each kept for its period and then forgotten, so that nobody can tie the periods together."""
        now_ms = _now_ms()
        day = _text_of(now_ms)[:10]
        session = self._session if abs(now_ms - self._used_ms) < SESSION_IDLE_MS else uuid.uuid4().hex
        self._session, self._used_ms = session, now_ms
        periods = {"hashed_daily_id": day, "hashed_monthly_id": day[:7], "hashed_retention_id": now_ms // RETENTION_MS}
        self._periods = {period: self._periods.get(period) or uuid.uuid4().hex for period in periods.values()}
        return {**{name: self._periods[period] for name, period in periods.items()}, "session_id": session}

    def _try_lock(self, names: "list[str]") -> bool:
        """One of the processes that share a folder sends. The system takes the lock from one that ends, however it ends."""
        folder = self._store.folder
        if folder is None or fcntl is None or self._lock is not None or all(name in self._store.memory for name in names):
            return True
        try:
            lock = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class _Store:
    """Small texts by name: files of a folder, and in memory what finds no room there. Nothing throws."""

    def __init__(self, folder: "str | None") -> None:
        self.folder = folder
        # None: removed, but a disk that only reads has it still.
        self.memory: "dict[str, str | None]" = {}
        if folder is not None:
            os.makedirs(folder, mode=0o700, exist_ok=True)

    def names(self) -> "list[str]":
        try:
            files = os.listdir(self.folder) if self.folder is not None else []
        except OSError:
            files = []
        return [name for name in {*files, *self.memory} if not name.startswith(".") and self.memory.get(name, "") is not None]

    def get(self, name: str) -> "str | None":
        if name in self.memory or self.folder is None:
            return self.memory.get(name)
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                return file.read()
        except (OSError, ValueError):
            return None

    def get_json(self, name: str, otherwise: Any) -> Any:
        try:
            found = json.loads(self.get(name) or "null")
        except ValueError:
            return otherwise
        return found if isinstance(found, (type(otherwise), int, float)) else otherwise

    def set(self, name: str, text: str) -> None:
        """A crash at any moment leaves the old text or the new one."""
        if self.folder is None:
            self.memory[name] = text
            return
        beside = os.path.join(self.folder, f".{name}.{os.getpid()}.{threading.get_ident()}")
        try:
            with open(beside, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, os.path.join(self.folder, name))
            self.memory.pop(name, None)
        except OSError:
            self.memory[name] = text
            try:
                os.remove(beside)
            except OSError:
                pass

    def remove(self, name: str) -> None:
        self.memory.pop(name, None)
        if self.folder is None:
            return
        try:
            os.remove(os.path.join(self.folder, name))
        except FileNotFoundError:
            pass
        except OSError:
            self.memory[name] = None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _now_ms() -> int:
    return int(time.time() * 1000)


def _text_of(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _size_of(name: str) -> int:
    return int(NAME.match(name).group(2))


def _contents(batch: dict) -> "tuple[list[Event], dict]":
    """Nothing where somebody else wrote it: the service refuses it, and it goes."""
    try:
        body = json.loads(batch["body"])
        return list(body["events"]), dict(body.get("client_report", {}).get("dropped", {}))
    except (AttributeError, KeyError, TypeError, ValueError):
        return [], {}


def _read_all(response: Any) -> str:
    """Raises where the answer ends before its length, or is very long."""
    text = response.read(MAX_ANSWER_BYTES)
    if response.length:
        raise ConnectionError("not the whole answer")
    return text.decode("utf-8", "replace")
