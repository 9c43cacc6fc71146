// What a node tells of itself, for tests.

import type { NodeReport, Queue } from '../../../src/contract/admin/now.ts'
import type { Alert } from '../../../src/contract/alert.ts'
import type { OwnRefusal } from '../../../src/inspect/refusals/refusal.ts'
import type { StoredBatch } from '../../../src/request/observer.ts'
import { anApp } from '../apps/apps.ts'

export const BOUNDS = [0.001, 0.01, 0.1]

export const QUEUE: Queue = {
  kind: 'stream',
  bytes: 100,
  max_bytes: 1000,
  oldest_seconds: 60,
  keep_seconds: 3600,
  full_in_seconds: null,
  consumers: [],
  audit_lag_seconds: null,
}

export function report(node: string, changes: Partial<NodeReport> = {}): NodeReport {
  return {
    node,
    version: '1.0.0',
    node_js: 'v24',
    started_at: '2026-11-22T09:00:00.000Z',
    state: 'serving',
    state_reason: null,
    reasons: [],
    connections: 10,
    cpu_percent: 5,
    rss_bytes: 1000,
    rates: { requests_per_second: 10, events_accepted_per_second: 20, refused_per_second: {}, replays_per_second: 1 },
    bounds_seconds: BOUNDS,
    buckets: [0, 0, 0, 0],
    ring: { used_bytes: 1_048_576, size_bytes: 67_108_864, requests: 2 },
    parser_queue: 1,
    parts: [
      {
        part: 'limits',
        kind: 'redis',
        state: 'ok',
        reason: null,
        up: true,
        latency_seconds: 0.001,
        text: 'in Redis',
      },
    ],
    queue: QUEUE,
    refused_last_hour: [],
    cells: [],
    ...changes,
  }
}

export function aRefusal(changes: Partial<OwnRefusal> = {}): OwnRefusal {
  return {
    time_ms: 0,
    request_id: 'r',
    app_id: null,
    code: 'validation_failed',
    reason: null,
    origin: null,
    path: null,
    shape: null,
    message: 'a message',
    sdk_version: null,
    ...changes,
  }
}

/** Of one event. */
export function storedBatch(line: Uint8Array, appId: string): StoredBatch {
  return { timeMs: 0, app: anApp({ appId }), line, track: 1, screen: 0, revenue: 0 }
}

export function anAlert(changes: Partial<Alert> = {}): Alert {
  return {
    id: '1f5fa598-cf1b-5824-9f70-2c589dff94d2',
    at: '2026-11-24T10:00:00.000Z',
    app_id: 'shop',
    window: 'day',
    used: 5,
    limit: 10,
    window_started_at: '2026-11-24T00:00:00.000Z',
    window_ends_at: '2026-11-25T00:00:00.000Z',
    kind: 'step',
    state: 'raised',
    percent: 50,
    full_at: null,
    ...changes,
  }
}
