"""Sends analytics events to sluice: in batches, each of which is stored once, or reported as dropped with the reason.

One file, of the standard library alone, for Python 3.9 and later.
"""

from __future__ import annotations

import atexit
import gzip
import http.client
import io
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
import weakref
from collections import deque
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Callable, NamedTuple

try:
    import fcntl
except ImportError:  # Windows: each process that shares a folder sends, under the same keys.
    fcntl = None  # type: ignore[assignment]

__all__ = ["Client"]
VERSION = "sluice-client-python/0.4.0"

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
# Another process sends, or something failed that nobody foresaw.
LOOK_AGAIN_S = 5
MAX_FLUSH_S = 3600
MAX_INTERVAL_S = 3600
RETENTION_MS = 90 * 86_400_000
SESSION_IDLE_MS = 1_800_000

REASONS = {401: "unauthorized", 402: "subscription", 403: "blocked", 413: "too_large"}
# b, when it was sealed, its bytes, who sealed it: sorted by age.
NAME = re.compile(r"b([0-9]+)-([0-9]+)-")
MINUTE = re.compile(r'"minute";r=([0-9]{1,15});t=([0-9]{1,15})')
WHOLE = re.compile(r"[0-9]{1,15}")
KEY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# datetime.fromisoformat reads less than this before Python 3.11.
TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII)

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
        self._context = {"os": sys.platform, **(context if isinstance(context, dict) else {})}
        self._on_dropped = on_dropped
        self._max_queue_bytes = _bounded(max_queue_bytes, 0, 2**40, 2_000_000)
        self._flush_interval_s = _bounded(flush_interval_s, 0, MAX_INTERVAL_S, 3)
        self._store = _Store(folder)
        # The environment's proxies are used; a redirect is an answer, since it would turn POST into GET.
        self._opener = urllib.request.build_opener(_NoRedirect, _Http, _Https)
        self._closed = False
        # Whether this thread is in the hook.
        self._telling = threading.local()
        self._lock: "int | None" = None
        self._begin()
        _clients.add(self)
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
        timeout_s = _bounded(timeout_s, 0, MAX_FLUSH_S, ANSWER_TIMEOUT_S)
        with self._changed:
            if self._is_denied():
                self._forget()
            self._seal()
            # It cuts a backoff short, but not a Retry-After.
            self._retry_at = 0.0
            if not self._closed and self._names():
                self._start()
                self._tries += 1
                self._changed.notify_all()
                tries = self._tries
                self._changed.wait_for(lambda: self._tried >= tries or self._thread is None, timeout_s)
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
            self._forget()
        self._tell()

    def opt_in(self) -> None:
        self._after_fork()
        with self._changed:
            self._store.set("consent", "granted")

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
        self._denied = False
        self._periods: dict = {}
        self._session, self._used_ms = "", 0
        self._thread: "threading.Thread | None" = None
        self._failures = 0
        self._retry_at = 0.0
        self._wait_until = 0.0
        self._sending: "str | None" = None
        # Flushes that were asked for, and those of them that are over.
        self._tries = 0
        self._tried = 0

    def _after_fork(self) -> None:
        """A child has none of its parent's threads, and what is open or waits in memory is its parent's to send."""
        if self._pid != os.getpid():
            if self._lock is not None:
                # Closed alone: to unlock it would take the lock from the parent.
                os.close(self._lock)
                self._lock = None
            self._store.forget(lambda name: name == "dropped" or NAME.match(name) is not None)
            self._begin()

    def _at_exit(self) -> None:
        """A program that ends without close() has its events sent, kept in the folder, or reported."""
        if self._pid == os.getpid() and not self._closed:
            self.close()

    def _is_denied(self) -> bool:
        """Asked each time, since another process of the folder may have been told. What cannot be read now is as it was."""
        said = self._store.get("consent")
        if said is not None:
            self._denied = said == "denied"
        return self._denied

    def _forget(self) -> None:
        self._drop("consent", self._take_open(len(self._open)))
        for name in self._names():
            self._drop_item(name, "consent")
        self._periods, self._used_ms = {}, 0

    def _take(self, kind: str, name: str, members: dict) -> None:
        self._after_fork()
        with self._changed:
            event = {"event_id": str(uuid.uuid4()), "type": kind, "name": name, **self._ids(), "timestamp": _text_of(_now_ms())}
            context = members.get("context") or {}
            is_object = isinstance(context, dict)
            event = {**event, **members, "context": {**self._context, **context} if is_object else context}
            if self._closed:
                reason: "str | None" = "closed"
            elif self._is_denied():
                reason = "consent"
            else:
                reason = self._add(event) if is_object else "invalid"
            if reason is not None:
                # The hook may track what it is given: it would be given that too, without an end.
                self._drop(reason, [event], not self._is_telling())
        self._tell()

    def _add(self, event: Event) -> "str | None":
        """None, or why the event is not taken."""
        try:
            text = json.dumps(event, allow_nan=False, ensure_ascii=False)
            size = len(text.encode())
            # A copy: the caller may go on changing what it gave.
            copy = json.loads(text)
            if text.count("[") + text.count("{") > 100:
                # Python reads and writes no deeper than its stack, which may be a little shorter when this is sent.
                json.dumps(_nested(copy, 50))
        except Exception:
            return "invalid"
        if size > MAX_EVENT_BYTES:
            return "too_large"
        if not self._open:
            self._open_since = time.monotonic()
        self._open.append((copy, size + 1))
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
            batch = self._batch(self._take_open(count), self._dropped())
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
        return [batch for batch in self._store.get_json(name, []) if _is_batch(batch)]

    def _read_sound(self, name: str) -> "list[dict]":
        """What of a file can be sent. The rest goes, and is reported: the disk spoiled it, or another program wrote it."""
        if self._store.get(name) is None:
            # Another process sent it; or it cannot be read now, and is left to the next process.
            if name in self._names():
                self._store.memory[name] = None
            return []
        found = self._store.get_json(name, [])
        batches = [one for one in found if _is_batch(one)]
        if batches and len(batches) == len(found):
            return batches
        if batches:
            self._store.set(name, json.dumps(batches))
        else:
            self._store.remove(name)
        spoiled = [_contents(one) for one in found if not _is_batch(one)]
        for _, report in spoiled:
            self._count(report)
        events = [event for some, _ in spoiled for event in some]
        self._drop("invalid", events)
        if not events:
            # Nobody can say how many there were.
            self._drops.append(("invalid", []))
        return batches

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

    def _drop(self, reason: str, events: "list[Event]", is_told: bool = True) -> None:
        if events:
            self._count({reason: len(events)})
            if is_told:
                self._drops.append((reason, events))

    def _dropped(self) -> "dict[str, int]":
        return _counts(self._store.get_json("dropped", {}))

    def _count(self, report: "dict[str, int]") -> None:
        if report:
            dropped = self._dropped()
            for reason, more in report.items():
                dropped[reason] = dropped.get(reason, 0) + more
            self._store.set("dropped", json.dumps(dropped))

    def _drop_item(self, name: str, reason: str) -> None:
        batches = [_contents(batch) for batch in self._store.get_json(name, [])]
        self._store.remove(name)
        for events, report in batches:
            self._count(report)
            self._drop(reason, events)

    def _is_telling(self) -> bool:
        return getattr(self._telling, "is_on", False)

    def _tell(self) -> None:
        """Without the lock, since the hook may wait for another thread that tracks."""
        while not self._is_telling():
            try:
                reason, events = self._drops.popleft()
            except IndexError:
                return
            if self._on_dropped is not None:
                self._telling.is_on = True
                try:
                    self._on_dropped(reason, events)
                except Exception:
                    pass
                finally:
                    self._telling.is_on = False

    # ---- sending

    def _start(self) -> None:
        if not self._closed and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._work, name="sluice-client", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # The program is about to end, or has no room for a thread: the next call tries again.
                self._thread = None

    def _work(self) -> None:
        while not self._closed:
            try:
                self._work_once()
            except Exception:
                # It lives on, whatever it was: what could not be sent waits.
                with self._changed:
                    self._fail(0)
                    self._rest(LOOK_AGAIN_S)
            self._tell()
        with self._changed:
            self._rest(0)

    def _work_once(self) -> None:
        with self._changed:
            name, wait_s = self._next()
            if name is None:
                # What was dropped on the way is told first.
                return None if self._drops else self._rest(wait_s)
            batches = self._read_sound(name)
            if batches and int(NAME.match(name).group(1)) <= _now_ms() - LIFE_MS:
                return self._drop_item(name, "expired")
            self._sending = name
        try:
            if batches:
                self._send(name, batches[0])
        finally:
            with self._changed:
                self._sending = None

    def _rest(self, wait_s: "float | None") -> None:
        """Until something changes. The flushes that wait are over: all was tried."""
        self._tried = self._tries
        self._changed.notify_all()
        if not self._closed:
            self._changed.wait(wait_s)

    def _next(self) -> "tuple[str | None, float | None]":
        """What is to be sent now; else None, and after how many seconds to look again."""
        now = time.monotonic()
        seal_s = None
        denied = self._is_denied()
        if denied:
            self._forget()
        if self._open:
            seal_s = self._open_since + self._flush_interval_s - now
            if seal_s <= 0:
                self._seal()
                seal_s = None
        names = self._names()
        if not names or denied or self._closed:
            # Another process may have something to send.
            self._unlock()
            return None, seal_s
        # What another process was told, or an earlier one. A longer wait was written by a clock that has been set back.
        stored_s = self._store.get_number("wait") / 1000 - _now_ms() / 1000
        wait_s = max(self._retry_at - now, self._wait_until - now, stored_s if stored_s <= MAX_WAIT_S else 0)
        if wait_s <= 0 and not self._try_lock(names):
            wait_s = LOOK_AGAIN_S
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
            kept = {id(event) for part in parts for event in part}
            self._drop(verdict.reason, [event for event in events if id(event) not in kept])

    def _post(self, batch: dict) -> "Answer | None":
        """One try. None: there was no answer."""
        body = batch["body"].encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": batch["key"]}
        if len(body) >= COMPRESS_FROM_BYTES:
            body = gzip.compress(body, 6)
            headers["Content-Encoding"] = "gzip"
        sent_ms, sent = _now_ms(), time.monotonic()
        try:
            request = urllib.request.Request(self._url, body, headers, method="POST")
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
        refusal = _parsed(text, {})
        if status == 400:
            return Verdict([self._without_invalid(refusal, events)], "invalid")
        limit = _whole(headers.get("X-RateLimit-Limit"))
        never_fits = status == 429 and limit is not None and len(events) > max(limit, 1)
        if (status == 413 or never_fits) and len(events) > 1:
            half = (len(events) + 1) // 2
            return Verdict([events[:half], events[half:]], "too_large")
        if not 400 <= status < 500 or status in (408, 429):
            return Verdict(None, None, _retry_after_s(headers))
        if status == 401 and refusal.get("reason") == "origin":
            return Verdict(None)
        return Verdict([], REASONS.get(status, "refused"))

    def _without_invalid(self, refusal: dict, events: "list[Event]") -> "list[Event]":
        """None where no event is named. One whose time alone is wrong stays, once, where the clock was found to be off."""
        places = [place for place in _list(refusal.get("invalid_events")) if type(place) is int and 0 <= place < len(events)]
        if not places:
            return []
        errors = [error for error in _list(refusal.get("errors")) if isinstance(error, dict) and isinstance(error.get("event"), int)]
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
        service_ms = _date_ms(date)
        if service_ms is None:
            return
        off_ms = service_ms - middle_ms
        if abs(off_ms) - took_ms / 2 > CLOCK_TOLERANCE_MS:
            self._store.set("clock", str(round(off_ms)))
        elif abs(off_ms) + took_ms / 2 < CLOCK_TOLERANCE_MS and self._store.get("clock") is not None:
            self._store.remove("clock")

    def _correct(self, event: Event) -> Event:
        """An event as it is to be sent; what the device said stays in it."""
        add_ms = self._store.get_number("clock")
        said = event.get("client_timestamp", event.get("timestamp"))
        try:
            if add_ms == 0:
                return event
            return {**event, "timestamp": _text_of(_time_ms(str(said)) + add_ms), "client_timestamp": said, "clock_correction_ms": add_ms}
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
            # Known before it is locked, so that a child that is forked meanwhile closes it.
            self._lock = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (OSError, ValueError):
            return True
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            self._lock = None
            return False
        return True

    def _unlock(self) -> None:
        if self._lock is not None:
            # A child that was forked meanwhile has it open too, so that to close it alone would unlock nothing.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = None


class _Store:
    """Small texts by name: files of a folder, and in memory what finds no room there. Nothing throws."""

    def __init__(self, folder: "str | None") -> None:
        self.folder = folder
        # None: removed, but a disk that only reads has it still.
        self.memory: "dict[str, str | None]" = {}
        if folder is not None:
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            except (OSError, ValueError):
                pass

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
        except OSError:
            return None
        except ValueError:
            return ""

    def get_json(self, name: str, otherwise: Any) -> Any:
        """Of the type of `otherwise`."""
        return _parsed(self.get(name) or "", otherwise)

    def get_number(self, name: str) -> float:
        """No time that a clock can have is larger."""
        found = _parsed(self.get(name) or "", 0, (int, float))
        return found if abs(found) < 1e15 else 0

    def forget(self, is_forgotten: "Callable[[str], bool]") -> None:
        """What is in memory. What was removed stays removed."""
        self.memory = {name: text for name, text in self.memory.items() if text is None or not is_forgotten(name)}

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
        except (OSError, ValueError):
            self.memory[name] = text
            try:
                os.remove(beside)
            except (OSError, ValueError):
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


class _TimedResponse(http.client.HTTPResponse):
    """A socket's timeout is for each piece, and a service that sends one now and then would hold the sender for ever."""

    def __init__(self, sock: Any, *arguments: Any, ends_at: float, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_Pieces(self.fp.detach(), sock, ends_at))


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Any, sock: Any, ends_at: float) -> None:
        self._pieces, self._sock, self._ends_at = pieces, sock, ends_at

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        left_s = self._ends_at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer takes too long")
        self._sock.settimeout(left_s)
        return self._pieces.readinto(buffer)

    def close(self) -> None:
        self._pieces.close()
        super().close()


def _in_time(connection_class: Any) -> Any:
    def connect(host: str, *, timeout: float, **options: Any) -> Any:
        connection = connection_class(host, timeout=timeout, **options)
        ends_at = time.monotonic() + timeout
        connection.response_class = lambda *arguments, **more: _TimedResponse(*arguments, ends_at=ends_at, **more)
        return connection

    return connect


class _Http(urllib.request.HTTPHandler):
    def do_open(self, http_class: Any, *arguments: Any, **options: Any) -> Any:
        return super().do_open(_in_time(http_class), *arguments, **options)


class _Https(urllib.request.HTTPSHandler):
    def do_open(self, http_class: Any, *arguments: Any, **options: Any) -> Any:
        return super().do_open(_in_time(http_class), *arguments, **options)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _text_of(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _size_of(name: str) -> int:
    return int(NAME.match(name).group(2))


def _time_ms(text: str) -> float:
    found = TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    *parts, fraction, sign, hours, minutes = found.groups()
    ahead_ms = (int(hours) * 60 + int(minutes)) * 60_000 * (-1 if sign == "-" else 1) if sign else 0
    return datetime(*map(int, parts), tzinfo=timezone.utc).timestamp() * 1000 + float(f"0.{fraction or 0}") * 1000 - ahead_ms


def _date_ms(text: "str | None") -> "float | None":
    """Of a header."""
    try:
        date = parsedate_to_datetime(text or "")
        return (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp() * 1000
    except Exception:
        return None


def _retry_after_s(headers: Any) -> float:
    said = headers.get("Retry-After")
    seconds: "float | None" = _whole(said)
    until_ms = _date_ms(said) if seconds is None else None
    if until_ms is not None:
        now_ms = _date_ms(headers.get("Date"))
        seconds = (until_ms - (_now_ms() if now_ms is None else now_ms)) / 1000
    return min(max(seconds or 0, 0), MAX_WAIT_S)


def _whole(text: "str | None") -> "int | None":
    return int(text) if text is not None and WHOLE.fullmatch(text.strip()) else None


def _list(found: Any) -> list:
    return found if isinstance(found, list) else []


def _parsed(text: str, otherwise: Any, types: Any = None) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return otherwise
    return found if isinstance(found, types or type(otherwise)) else otherwise


def _bounded(value: Any, least: float, most: float, otherwise: float) -> Any:
    """An option: a default where it is no number."""
    return min(max(value, least), most) if isinstance(value, (int, float)) and value == value else otherwise


def _nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def _is_batch(found: Any) -> bool:
    return isinstance(found, dict) and KEY.fullmatch(str(found.get("key"))) is not None and len(_contents(found)[0]) > 0


def _contents(batch: Any) -> "tuple[list[Event], dict[str, int]]":
    """Its events and its report: nothing where it is not one of ours."""
    text = batch.get("body") if isinstance(batch, dict) else None
    body = _parsed(text, {}) if isinstance(text, str) else {}
    events = _list(body.get("events"))
    report = body.get("client_report")
    dropped = _counts(report.get("dropped")) if isinstance(report, dict) else {}
    return (events if all(isinstance(event, dict) for event in events) else []), dropped


def _counts(found: Any) -> "dict[str, int]":
    pairs = found.items() if isinstance(found, dict) else ()
    return {reason: count for reason, count in pairs if type(count) is int and count > 0}


def _read_all(response: Any) -> str:
    """Raises where the answer ends before its length, or is very long."""
    text = response.read(MAX_ANSWER_BYTES)
    if response.length:
        raise ConnectionError("not the whole answer")
    return text.decode("utf-8", "replace")


# Those of this program that may still be used.
_clients: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client._after_fork()


def _at_exit() -> None:
    for client in list(_clients):
        client._at_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
