// The parts of the service with what is left of each, and the nodes.

import type { JSX } from 'preact'
import type { NodeLine, Now, Queue, ShownPart } from './api-types.ts'
import { bytes, count, many, percent, span } from './format.ts'
import { Copy, Dot, STATE_TONES, type Tone } from './ui.tsx'

/** From here on something is near its limit. */
const NEAR = 0.8
const SOON_FULL_SECONDS = 4 * 3600

interface Line {
  readonly name: string
  readonly tone: Tone
  readonly words: string
}

const NAMES: Readonly<Record<ShownPart['part'], string>> = {
  service: 'Service',
  queue: 'Queue',
  limits: 'Rate limits',
  apps: 'App records',
  durability: 'Durability',
  audit: 'Audit',
}

export function Parts({ now }: { now: Now }): JSX.Element {
  const { ring, queue } = now
  const connections = now.nodes.reduce((total, node) => total + (node.state === 'silent' ? 0 : node.connections), 0)
  const ringShare = ring.size_bytes === 0 ? 0 : ring.used_bytes / ring.size_bytes
  const lines: Line[] = [
    { name: 'HTTP', tone: 'ok', words: many(connections, 'connection') },
    {
      name: 'Ring',
      tone: ringShare >= NEAR ? 'warn' : 'ok',
      words: `${percent(ringShare)} of ${bytes(ring.size_bytes)}`,
    },
    ...now.parts.map((part) => partLine(part, part.part === 'queue' ? queue : null)),
  ]
  if (now.parser_queue > 0) {
    lines.push({ name: 'Decoder threads', tone: 'ok', words: `${count(now.parser_queue)} bodies wait` })
  }
  if (queue !== null) lines.push(...readerLines(queue))
  return (
    <ul class="parts">
      {lines.map(({ name, tone, words }) => (
        <li key={name}>
          <Dot tone={tone} />
          <span class="name">{name}</span>
          <span class={tone === 'fail' || tone === 'warn' ? tone : undefined}>{words}</span>
        </li>
      ))}
    </ul>
  )
}

function partLine({ part, up, state, text, node, latency_seconds: latency }: ShownPart, queue: Queue | null): Line {
  const fill = queue === null ? null : fillOf(queue)
  const said = [node === null ? text : `${text} (${node})`, fill?.words, latency === null ? undefined : span(latency)]
  return {
    name: NAMES[part] ?? part,
    tone: !up ? 'fail' : state === 'warn' ? 'warn' : (fill?.tone ?? 'ok'),
    words: said.filter((words) => words !== undefined).join(', '),
  }
}

/** How much is stored, of how much, and for how long at this rate. */
function fillOf(queue: Queue): Pick<Line, 'tone' | 'words'> {
  const { bytes: used, max_bytes: most, oldest_seconds: oldest, keep_seconds: kept, full_in_seconds: fullIn } = queue
  const size = used === null ? 'size not known' : most === null ? bytes(used) : `${bytes(used)} of ${bytes(most)}`
  const share = used === null || !most ? 0 : used / most
  const full = fullIn === null ? '' : ` (full in ${span(fullIn)} at this rate)`
  const age = oldest === null ? '' : `, oldest ${span(oldest)}${kept === null ? '' : ` of ${span(kept)}`}`
  const isNear = share >= NEAR || (fullIn !== null && fullIn < SOON_FULL_SECONDS)
  return { tone: used === null ? 'unknown' : isNear ? 'warn' : 'ok', words: `${size}${full}${age}` }
}

/** Each consumer, and the audit. */
function readerLines({ consumers, keep_seconds: kept, audit_lag_seconds: audit }: Queue): Line[] {
  const lines = consumers.map(({ name, lag_seconds: lag }): Line => {
    const isLate = kept !== null && lag > kept / 2
    return { name, tone: isLate ? 'warn' : 'ok', words: lag < 1 ? 'has read all' : `${span(lag)} behind` }
  })
  if (audit !== null) lines.push({ name: 'audit', tone: audit > 300 ? 'warn' : 'ok', words: `${span(audit)} behind` })
  return lines
}

export function Nodes({ nodes, time }: { nodes: readonly NodeLine[]; time: string }): JSX.Element {
  return (
    <div class="table nodes" role="table" aria-label="Nodes">
      <div class="head" role="row">
        {['node', 'state', 'version', 'up for', 'connections', 'CPU', 'memory'].map((title) => (
          <span key={title} role="columnheader">
            {title}
          </span>
        ))}
      </div>
      {nodes.map((node) => (
        <div key={node.node} role="row" class={node.state === 'silent' ? 'silent' : undefined}>
          <span role="cell" class="long">
            <Copy text={node.node}>{node.node}</Copy>
          </span>
          <span role="cell">
            <Dot tone={STATE_TONES[node.state]} />{' '}
            <span class={STATE_TONES[node.state]}>
              {node.state === 'silent' ? `no answer, last seen ${span(node.silent_seconds)} ago` : node.state}
            </span>
          </span>
          <span role="cell">
            {node.version} <span class="muted">Node {node.node_js.replace(/^v/, '')}</span>
          </span>
          <span role="cell" title={`since ${node.started_at}`}>
            {span((Date.parse(time) - Date.parse(node.started_at)) / 1000)}
          </span>
          <span role="cell" class="number" data-unit="connections">
            {count(node.connections)}
          </span>
          <span role="cell" class="number" data-unit="CPU">
            {count(node.cpu_percent)}%
          </span>
          <span role="cell" class="number" data-unit="memory">
            {bytes(node.rss_bytes)}
          </span>
        </div>
      ))}
    </div>
  )
}
