// Clients: send batches, retry failed ones (under the same key if there is one), and replay some accepted ones.

import { batchIdOf } from '../../src/contract/ids.ts'
import type { Cluster } from './cluster.ts'
import type { Send } from './history.ts'
import type { Judge } from './judge.ts'
import type { Answer } from './node.ts'
import { Random } from './random.ts'

/** To a node, and back. */
const ONE_WAY_MS = 0.5
const UUID_BYTES = 16
/** A later answer counts as none. */
const ANSWER_TIMEOUT_MS = 30_000

const bodies = new Map<string, Buffer>()

function bodyOf(app: number, events: number, epochMs: number): Buffer {
  const name = `${app} ${events} ${epochMs}`
  let body = bodies.get(name)
  if (body === undefined) {
    const event = {
      type: 'track',
      name: 'opened',
      hashed_daily_id: 'd'.repeat(16),
      hashed_monthly_id: 'm'.repeat(16),
      session_id: 's',
      timestamp: new Date(epochMs).toISOString(),
      context: { os: 'iOS' },
    }
    body = Buffer.from(JSON.stringify({ app_key: `ak_${app}`, events: Array.from({ length: events }, () => event) }))
    if (bodies.size > 100) bodies.clear()
    bodies.set(name, body)
  }
  return body
}

export class Clients {
  sent = 0
  /** Sent, and neither answered nor disconnected. */
  waiting = 0
  readonly #cluster: Cluster
  readonly #judge: Judge
  readonly #random: Random

  constructor(cluster: Cluster, judge: Judge, seed: number) {
    this.#cluster = cluster
    this.#judge = judge
    this.#random = new Random(seed + 1)
  }

  start(send: Send): void {
    const { world } = this.#cluster
    for (let batch = 0; batch < send.batches; batch++) {
      const key = send.keyed ? this.#freshKey() : null
      world.after(batch * send.gapMs, () => this.#try(send, key, 1, send.replays))
      if (send.twinAfterMs === undefined) continue
      const twin = { ...send, node: send.node + 1 }
      world.after(batch * send.gapMs + send.twinAfterMs, () => this.#try(twin, key, 1, 0))
    }
  }

  /** Sends one request to one node. null: the connection broke, or no node is ready. */
  ask(send: Send, key: string | null, node: number): Promise<Answer | null> {
    const { world, ready } = this.#cluster
    if (ready.length === 0) return Promise.resolve(null)
    const found = ready[node % ready.length]
    const { app, events } = send
    const asked = { app, events, key: key === null ? null : batchIdOf(`app${app}`, key), sentAtMs: world.nowMs }
    this.#judge.asked(asked)
    this.sent++
    this.waiting++
    return new Promise((resolve) => {
      let isOver = false
      const end = (answer: Answer | null): void => {
        if (isOver) return
        isOver = true
        this.waiting--
        world.after(ONE_WAY_MS, () => resolve(answer))
      }
      found.host.receive(world.nowMs + ONE_WAY_MS, () => {
        found.receive(bodyOf(app, events, world.epochMs), key, (answer) => {
          if (answer !== null) this.#judge.answered(found, asked, answer)
          end(answer)
        })
      })
      found.host.onKill(() => end(null))
      world.after(ANSWER_TIMEOUT_MS, () => {
        if (!isOver && !found.isDead)
          this.#judge.reportNotRecovered(`a request was not answered in ${ANSWER_TIMEOUT_MS} ms`)
      })
    })
  }

  async #try(send: Send, key: string | null, attempt: number, replays: number): Promise<void> {
    const node = send.node + (attempt - 1) * send.retryOn
    const answer = await this.ask(send, key, node)
    const { world } = this.#cluster
    const isRefused = answer === null || answer.status === 503
    if (isRefused && attempt < send.tries) {
      world.after(send.retryAfterMs, () => void this.#try(send, key, attempt + 1, replays))
    } else if (answer?.status === 202 && replays > 0) {
      world.after(send.retryAfterMs, () => void this.#try(send, key, attempt + 1, replays - 1))
    }
  }

  #freshKey(): string {
    const bytes = new Uint8Array(UUID_BYTES)
    this.#random.fillBytes(bytes)
    const hex = Buffer.from(bytes).toString('hex')
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
  }
}
