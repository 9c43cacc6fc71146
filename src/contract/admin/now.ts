// What `GET /api/now` answers, and what a node says of itself for it.

import { PART_KINDS, PART_NAMES, PART_STATES, type PartKind, type PartName, type PartState } from '../health.ts'
import { Counts, listOf, type Of, OptionalNumber, oneOf, orNull, said, Text, Time, TimeMs } from './schema.ts'
import { Type } from './typebox.ts'
import { MAX_CELLS, STATES } from './words.ts'

const MIN_CELLS = 60
const TOP = 5

/** A reason of a 503. A node of a later version may have others than this one. */
export const ReasonRate = Type.Object({
  reason: Type.String({ maxLength: 40, description: 'A `reason` of `/api/codes`.' }),
  per_second: Type.Number({ description: '0: every request would be refused, but none comes.' }),
})

const nodeState = {
  state: oneOf(
    STATES,
    '`refusing`: a node answers some requests 503, or would answer all of them so. `degraded`: none is, though a part is not up or a node does not answer.',
  ),
  state_reason: orNull(Text, 'Why, in words, which may change.'),
  reasons: listOf(ReasonRate, {
    description: 'The reasons of requests answered 503 in the last five to ten seconds, the most frequent first.',
  }),
}
export const NodeState = Type.Object(nodeState)

export const Rates = Type.Object(
  {
    requests_per_second: Type.Number(),
    events_accepted_per_second: Type.Number(),
    refused_per_second: Counts,
    replays_per_second: Type.Number(),
  },
  { description: 'Of the last five to ten seconds.' },
)

export const RingFacts = Type.Object({ used_bytes: Type.Number(), size_bytes: Type.Number(), requests: Type.Number() })

const partText = {
  reason: orNull(Text, 'A detail, such as `connection refused`.'),
  up: Type.Boolean({ description: 'It does its work: `ok`, `slow`, `warn` or `unknown`.' }),
  latency_seconds: said(OptionalNumber, 'Of the last minute; null: not measured.'),
  text: Type.String({ maxLength: 1000, description: 'Kind, state and reason in words, which may change.' }),
}

/** What a process says of one of its parts. */
export const PartFacts = Type.Object({
  part: Type.Unsafe<PartName>({ enum: PART_NAMES }),
  kind: Type.Unsafe<PartKind>({ enum: PART_KINDS, description: 'What does its work.' }),
  state: Type.Unsafe<PartState>({ enum: PART_STATES }),
  ...partText,
})

export const ShownPart = Type.Object({
  ...PartFacts.properties,
  node: orNull(Text, 'The node of which this holds; null: it holds of all.'),
})

export const Queue = Type.Object({
  kind: oneOf(['journal', 'stream']),
  bytes: OptionalNumber,
  max_bytes: OptionalNumber,
  oldest_seconds: OptionalNumber,
  keep_seconds: OptionalNumber,
  full_in_seconds: said(
    OptionalNumber,
    'At the rate of the last five minutes, or of the time since it began to grow. null: it does not grow, that is not known yet, nothing bounds it, or what is removed by its age makes room in time.',
  ),
  consumers: listOf(Type.Object({ name: Text, lag_seconds: Type.Number() })),
  audit_lag_seconds: OptionalNumber,
})

/** What a process says of itself beside its figures. */
const nodeFacts = {
  node: Type.String({ maxLength: 1000, description: 'Host name and process number.' }),
  version: Text,
  node_js: Text,
  started_at: Time,
  connections: Type.Number(),
  cpu_percent: Type.Number({ description: 'Of one core, all threads together.' }),
  rss_bytes: Type.Number(),
}
export const NodeFacts = Type.Object(nodeFacts)

export const Node = Type.Object({
  ...nodeFacts,
  state: oneOf([...STATES, 'silent']),
  silent_seconds: Type.Number({
    description: 'Since its last sign; it may have ended at any time since. 0: it answered.',
  }),
})

export const Plot = Type.Array(orNull(Type.Number()), {
  minItems: MIN_CELLS,
  maxItems: MAX_CELLS,
  description: 'Oldest first; null: not known.',
})

export const History = Type.Object({
  step_seconds: Type.Union([Type.Literal(5), Type.Literal(60), Type.Literal(480)]),
  from: said(Time, 'When the first cell begins.'),
  accepted_events_per_second: Plot,
  accepted_requests_per_second: said(Plot, 'Answered 202, replays among them.'),
  refused_ours_per_second: Plot,
  refused_client_per_second: said(Plot, '400, 401, 404, 405, 413, 415.'),
  refused_limits_per_second: said(Plot, '402, 429.'),
  p50_seconds: Plot,
  p99_seconds: Plot,
  slowest_consumer_lag_seconds: Plot,
})

const RefusedCode = Type.Object({ code: Text, reason: orNull(Text, 'Of a 503; null elsewhere.'), count: Type.Number() })
const RefusedApp = Type.Object({ app_id: orNull(Text), count: Type.Number() })

export const Now = Type.Object({
  time: Time,
  ...nodeState,
  nodes: listOf(Node),
  rates: Rates,
  latency_seconds: orNull(
    Type.Object({ p50: Type.Number(), p99: Type.Number() }),
    'From the complete body to the answer, of the last minute; null: no requests.',
  ),
  ring: RingFacts,
  parser_queue: Type.Number(),
  parts: listOf(ShownPart),
  queue: orNull(Queue),
  refused_last_hour: Type.Object({
    by_code: listOf(RefusedCode, { maxItems: TOP, description: '503s by their reason too.' }),
    by_app: listOf(RefusedApp, { maxItems: TOP }),
  }),
  history: Type.Optional(History),
})

/** Of one step of a plot. */
export const Cell = Type.Object({
  step: Type.Number({ description: 'Unix seconds at its end, divided by the step.' }),
  accepted_per_second: Type.Number(),
  requests_accepted_per_second: Type.Optional(Type.Number()),
  ours_per_second: Type.Number(),
  client_per_second: Type.Number(),
  limits_per_second: Type.Number(),
  buckets: listOf(Type.Number()),
  slowest_consumer_seconds: OptionalNumber,
})

const RefusedCount = Type.Object({ ...RefusedCode.properties, ...RefusedApp.properties })

/** One process of itself. Counts can be added to those of others. A later version may have other parts, kinds and states. */
export const NodeReport = Type.Object({
  ...nodeFacts,
  ...nodeState,
  rates: Rates,
  bounds_seconds: listOf(Type.Number(), { description: 'Of the last 60 s.' }),
  buckets: listOf(Type.Number()),
  ring: RingFacts,
  parser_queue: Type.Number(),
  parts: listOf(
    Type.Object({
      part: Type.Unsafe<PartName>(Text),
      kind: Type.Unsafe<PartKind>(Text),
      state: Type.Unsafe<PartState>(Text),
      ...partText,
    }),
  ),
  queue: Queue,
  degraded_ms: Type.Optional(said(orNull(TimeMs), 'Since when it is `degraded` or `refusing`; null: it is neither.')),
  refused_last_hour: listOf(RefusedCount),
  cells: listOf(Cell, { maxItems: MAX_CELLS, description: 'Empty where it was not asked for.' }),
})

export type ReasonRate = Of<typeof ReasonRate>
export type NodeState = Of<typeof NodeState>
export type Rates = Of<typeof Rates>
export type RingFacts = Of<typeof RingFacts>
export type PartFacts = Of<typeof PartFacts>
export type ShownPart = Of<typeof ShownPart>
export type Queue = Of<typeof Queue>
export type NodeFacts = Of<typeof NodeFacts>
export type Node = Of<typeof Node>
export type Plot = Of<typeof Plot>
export type History = Of<typeof History>
export type Now = Of<typeof Now>
export type Cell = Of<typeof Cell>
export type RefusedCount = Of<typeof RefusedCount>
export type NodeReport = Of<typeof NodeReport>
