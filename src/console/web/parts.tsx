// The parts of the service with what is left of each, and the nodes.

import type { JSX } from 'preact'
import type { NodeLine, Now, Queue } from './api-types.ts'
import { bytes, count, span } from './format.ts'
import { Copy, Dot, type Tone } from './ui.tsx'

/** From here on something is near its limit. */
const NEAR = 0.8
const SOON_FULL_SECONDS = 4 * 3600

interface Line {
  readonly name: string
  readonly tone: Tone
  readonly words: string
}

export function Parts({ now }: { now: Now }): JSX.Element {
  const lines: Line[] = now.parts.map(({ part, state, up, latency_seconds: latency }) => ({
    name: part,
    tone: part === 'ring' ? ringTone(now) : up ? 'ok' : 'fail',
    words: [state, ...(latency === null ? [] : [span(latency)])].join(' · '),
  }))
  if (now.parser_queue > 0) {
    lines.push({ name: 'parsers', tone: 'ok', words: `${count(now.parser_queue)} bodies wait` })
  }
  if (now.queue !== null) lines.push(...queueLines(now.queue))
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

function ringTone({ ring }: Now): Tone {
  return ring.size_bytes > 0 && ring.used_bytes / ring.size_bytes >= NEAR ? 'warn' : 'ok'
}

/** How much is stored, of how much, and for how long at this rate; then each consumer. */
function queueLines(queue: Queue): Line[] {
  const { bytes: used, max_bytes: most, oldest_seconds: oldest, keep_seconds: kept, full_in_seconds: fullIn } = queue
  const size = used === null ? 'size not known' : most === null ? bytes(used) : `${bytes(used)} of ${bytes(most)}`
  const share = used === null || !most ? 0 : used / most
  const full = fullIn === null ? '' : ` (full in ${span(fullIn)} at this rate)`
  const age = oldest === null ? '' : ` · oldest ${span(oldest)}${kept === null ? '' : ` of ${span(kept)}`}`
  const isNear = share >= NEAR || (fullIn !== null && fullIn < SOON_FULL_SECONDS)
  const lines: Line[] = [
    {
      name: queue.kind,
      tone: used === null ? 'unknown' : isNear ? 'warn' : 'ok',
      words: `${size}${full}${age}`,
    },
  ]
  for (const { name, lag_seconds: lag } of queue.consumers) {
    const isLate = kept !== null && lag > kept / 2
    lines.push({ name, tone: isLate ? 'warn' : 'ok', words: lag < 1 ? 'has read all' : `${span(lag)} behind` })
  }
  const audit = queue.audit_lag_seconds
  if (audit !== null) lines.push({ name: 'audit', tone: audit > 300 ? 'warn' : 'ok', words: `${span(audit)} behind` })
  return lines
}

const TONES: Readonly<Record<NodeLine['state'], Tone>> = {
  serving: 'ok',
  draining: 'warn',
  degraded: 'warn',
  'not ready': 'fail',
  silent: 'fail',
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
            <Dot tone={TONES[node.state]} />{' '}
            <span class={TONES[node.state]}>
              {node.state === 'silent' ? `silent for ${span(node.silent_seconds)}` : node.state}
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
