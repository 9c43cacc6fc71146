// What the service is made of, with what is left of each part, and its nodes.

import type { JSX } from 'preact'
import type { Node, Now, Queue, ShownPart } from '../api-types.ts'
import type { Tone } from '../codes.ts'
import { bytes, count, percent, span } from '../format.ts'
import { STATES } from '../live.tsx'
import { Copy } from '../parts/controls.tsx'
import { Bar, Card, Dot, List } from '../parts/ui.tsx'

/** From here on something is near its limit. */
const NEAR = 0.8
const SOON_FULL_SECONDS = 4 * 3600
const LATE_AUDIT_SECONDS = 300

interface Line {
  readonly name: string
  readonly tone: Tone
  readonly words: string
  /** What is left of it, or how long it takes. */
  readonly figure: string
  readonly share?: number
}

const NAMES: Readonly<Record<ShownPart['part'], string>> = {
  service: 'Service',
  queue: 'Queue',
  limits: 'Rate limits',
  apps: 'App records',
  durability: 'Durability',
  http: 'HTTP',
  audit: 'Audit',
}

export function Parts({ now }: { now: Now }): JSX.Element {
  const { ring, queue, parser_queue: waiting } = now
  const audit = queue?.audit_lag_seconds ?? null
  const share = ring.size_bytes === 0 ? 0 : ring.used_bytes / ring.size_bytes
  const lines: Line[] = [
    ...now.parts.map((part) => {
      const line = partLine(part, part.part === 'queue' ? queue : null)
      return part.part === 'audit' && audit !== null ? withLag(line, audit) : line
    }),
    {
      name: 'Memory',
      tone: share >= NEAR ? 'near' : 'ok',
      words:
        waiting > 0 ? `bodies on their way; ${count(waiting)} wait for a thread` : 'bodies on their way to the queue',
      figure: `${bytes(ring.used_bytes)} of ${bytes(ring.size_bytes)}`,
      share,
    },
  ]
  if (queue !== null && queue.consumers.length > 0) lines.push(readersLine(queue))
  return (
    <Card title="What it is made of">
      <List two columns="8px 92px minmax(0,1fr) minmax(132px,max-content)" phone="8px 76px minmax(0,1fr) 112px">
        {lines.map(({ name, tone, words, figure, share: used }) => (
          <div class="item" key={name + words}>
            <Dot tone={tone} />
            <b>{name}</b>
            <span class={tone === 'ok' ? 'mid' : `said ${tone}`}>{words}</span>
            <span class="stack fill" style={{ '--gap': '4px' }}>
              <span style={{ textAlign: 'right' }}>{figure}</span>
              {used !== undefined && <Bar share={used} tone={tone === 'ok' ? undefined : tone} />}
            </span>
          </div>
        ))}
      </List>
    </Card>
  )
}

function partLine({ part, up, state, text, node, latency_seconds: latency }: ShownPart, queue: Queue | null): Line {
  const fill = queue === null ? null : fillOf(queue)
  return {
    name: queue?.kind === 'journal' ? 'Disk' : (NAMES[part] ?? part),
    tone: !up ? 'fail' : state === 'warn' ? 'near' : (fill?.tone ?? 'ok'),
    words: [node === null ? text : `${text} (${node})`, fill?.words].filter(Boolean).join(', '),
    figure: fill?.figure ?? (latency === null ? '' : span(latency)),
    ...(fill?.share === undefined ? {} : { share: fill.share }),
  }
}

/** How much is stored, of how much, and until when at this rate. */
function fillOf(queue: Queue): Pick<Line, 'tone' | 'words' | 'figure' | 'share'> {
  const { bytes: used, max_bytes: most, oldest_seconds: oldest, keep_seconds: kept, full_in_seconds: fullIn } = queue
  const share = used === null || !most ? null : used / most
  const isNear = (share ?? 0) >= NEAR || (fullIn !== null && fullIn < SOON_FULL_SECONDS)
  const full = fullIn === null ? '' : fullIn < 1 ? ', full' : `, full in ${span(fullIn)}`
  const size = used === null ? 'size not known' : most === null ? bytes(used) : `${bytes(used)} of ${bytes(most)}`
  const age = oldest === null ? '' : `oldest ${span(oldest)}${kept === null ? '' : ` of ${span(kept)}`}`
  const isFull = share !== null && share >= 1
  return {
    tone: isFull ? 'fail' : isNear ? 'near' : 'ok',
    words: age,
    figure: `${size}${full}`,
    ...(share === null ? {} : { share }),
  }
}

/** What counts the queue, with how far it is behind. */
function withLag(line: Line, seconds: number): Line {
  const tone = line.tone === 'ok' && seconds > LATE_AUDIT_SECONDS ? 'near' : line.tone
  return { ...line, tone, figure: `${span(seconds)} behind` }
}

/** Who reads the queue. */
function readersLine({ consumers, keep_seconds: kept }: Queue): Line {
  const words = consumers.map(({ name, lag_seconds: lag }) =>
    lag < 1 ? `${name} has read all` : `${name} ${span(lag)} behind`,
  )
  const late = consumers.filter(({ lag_seconds: lag }) => kept !== null && lag > kept / 2)
  return {
    name: 'Consumers',
    tone: late.length > 0 ? 'near' : 'ok',
    words: words.join(' · '),
    figure: `${consumers.length - late.length} of ${consumers.length} reading`,
  }
}

export function Nodes({ nodes, time }: { nodes: readonly Node[]; time: string }): JSX.Element {
  return (
    <Card title="Nodes">
      <List
        columns="minmax(0,1.4fr) minmax(0,1fr) 76px 48px 72px 64px"
        phone="minmax(0,1fr) minmax(0,1fr) 48px"
        heads={['Node', 'State', '->Clients', '>CPU', '->Memory', '->Up']}
      >
        {nodes.map((node) => (
          <div
            class={node.state === 'silent' ? 'item dim' : 'item'}
            key={node.node}
            title={`${node.version}, Node ${node.node_js}`}
          >
            <Copy text={node.node} />
            <span class="row">
              <Dot tone={node.state === 'silent' ? 'fail' : STATES[node.state][0]} />
              {node.state === 'silent' ? `silent for ${span(Math.floor(node.silent_seconds))}` : node.state}
            </span>
            <span class="number wide">{count(node.connections)}</span>
            <span class="number">{percent(node.cpu_percent / 100)}</span>
            <span class="number wide">{bytes(node.rss_bytes)}</span>
            <span class="number wide dim">{span((Date.parse(time) - Date.parse(node.started_at)) / 1000)}</span>
          </div>
        ))}
      </List>
    </Card>
  )
}
