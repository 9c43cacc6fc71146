// The consoles of many processes together: each answers for itself when one asks, and any of them can ask. Bounded in time,
// bytes and nodes; a process that does not answer in time is shown as silent.

import { randomBytes } from 'node:crypto'
import type { NodeReport } from '../../contract/admin/now.ts'
import type { Pieces } from '../../contract/admin/peers.ts'
import { problemOf } from '../../contract/admin/problems.ts'
import { MAX_NODES, OF_EACH, type OfEach } from '../../contract/admin/words.ts'
import { systemTimers, type Timer, type Timers } from '../../lib/timers.ts'
import type { NatsAccess } from '../../nats/address.ts'
import { type OnPeerMessage, Peers } from '../../nats/peers.ts'
import type { SilentNode } from '../now/now.ts'
import { type Answer, type Answers, type Ask, type Own, ownPiece, type Question } from '../question.ts'
import { isHere, isInbox, isLiveBody, isQuestion, isSessionEnded, pieceIn } from './peer-checks.ts'
import { AnswersInParts, isOfOtherVersion, packed, splitAnswer, unpack } from './peer-messages.ts'

const ALL = 'sluice.console.ask'
/** One of the processes with stores answers for all. */
const ONE = 'sluice.console.one'
const HERE = 'sluice.console.here'
const ENDED = 'sluice.console.ended'
const ALL_TIMEOUT_MS = 500
/** To explain a body may take 10 s. */
const ONE_TIMEOUT_MS = 15_000
const HERE_INTERVAL_MS = 30_000
/** A process that sent something in this time and does not answer now is silent. Later it is forgotten. */
const REMEMBERED_MS = 900_000
/** Of one answer. */
const MAX_PARTS = 40
/** Of those of all: a thousand refusals are some. */
const MAX_PARTS_OF_ALL = 5 * MAX_NODES
const ID_BYTES = 6
const REPORT = { name: 'now', scope: 'all', query: '' } as const
const AWAY = 'other nodes cannot be asked: NATS is away'
const OTHER_VERSION = 'nodes of another version are there, and are not shown'

export type Transport = Pick<Peers, 'isUp' | 'on' | 'publish' | 'gather'>

export interface ClusterOptions {
  readonly peers: Transport
  /** null: this process takes no events and has no stores, and only shows what others answer. */
  readonly own: Own | null
  /** Different in each process. */
  readonly id: string
  readonly timers: Timers
  readonly onFault: (error: unknown) => void
}

export interface SessionEnd {
  readonly session: string
  /** Unix seconds at which it would end. */
  readonly endsAt: number
}

/** Sessions that were ended before their time. */
export interface EndedSessions {
  /** null: no other node is informed. */
  onEnd: ((end: SessionEnd) => void) | null
  note(end: SessionEnd): void
}

interface Known {
  readonly report: NodeReport
  readonly lastAtMs: number
}

export class Cluster implements Ask {
  readonly #options: ClusterOptions
  /** By name. */
  readonly #known = new Map<string, Known>()
  readonly #ends: (() => void)[] = []
  #otherVersionAtMs = Number.NEGATIVE_INFINITY
  /** When one was heard that was not before. */
  #newAtMs = Number.NEGATIVE_INFINITY
  /** Nobody answered the last question, and nobody was heard since. */
  #isAlone = false
  #timer: Timer | null = null

  constructor(options: ClusterOptions) {
    this.#options = options
    const { own, peers } = options
    this.#ends.push(peers.on(HERE, ({ data }) => this.#onHere(data)))
    if (own === null) return
    this.#ends.push(peers.on(ALL, (message) => this.#onQuestion(own, message, true)))
    this.#ends.push(peers.on(ONE, (message) => this.#onQuestion(own, message, false), 'one'))
  }

  /** What ends here ends elsewhere, and the other way round. */
  shareEnds(ended: EndedSessions): void {
    const { peers, id } = this.#options
    ended.onEnd = (end) => peers.publish(ENDED, packed({ from: id, ...end }))
    this.#ends.push(
      peers.on(ENDED, ({ data }) => {
        const end = unpack(data, isSessionEnded)?.head
        if (end !== undefined && end.from !== id) ended.note(end)
      }),
    )
  }

  start(): void {
    this.#timer = this.#options.timers.setInterval(() => this.announce(), HERE_INTERVAL_MS)
    this.#timer.unref()
  }

  /** NATS is up, as it was not: who was there then may not be heard for a while. */
  up(): void {
    this.#isAlone = false
    this.announce()
  }

  /** Lets the others know that this process is there. */
  announce(): void {
    const { own, id, peers, onFault } = this.#options
    if (own === null || !peers.isUp) return
    ownPiece(own, REPORT)
      .then((report) => peers.publish(HERE, packed({ from: id, report })))
      .catch(onFault)
  }

  /** So that the others do not wait for this process: it ends as it should. */
  announceEnd(): void {
    const { own, id, peers } = this.#options
    if (own !== null) peers.publish(HERE, packed({ from: id, gone: own.name }))
  }

  stop(): void {
    if (this.#timer !== null) this.#options.timers.clear(this.#timer)
    this.#timer = null
    for (const end of this.#ends.splice(0)) end()
  }

  async one(question: Question): Promise<Answer> {
    const { own } = this.#options
    if (own !== null) return await own.answer(question)
    const answers = await this.#gather(ONE, question, { timeoutMs: ONE_TIMEOUT_MS, maxReplies: MAX_PARTS, wanted: 1 })
    if (answers === null) return problemOf('unavailable', AWAY)
    return answers.at(0) ?? problemOf('unavailable', 'no node answers: try again in a moment')
  }

  async all<Name extends OfEach>(question: Question & { readonly name: Name }): Promise<Answers<Pieces[Name]>> {
    const { own } = this.#options
    const [mine, others] = await Promise.all([
      own === null ? [] : ownPiece(own, question).then((piece) => [piece]),
      this.#askOthers(question),
    ])
    const pieces = [...mine, ...(others ?? [])]
    const silent = question.name === 'now' ? this.#silent(pieces as NodeReport[]) : []
    const isMixed = this.#isRecent(this.#otherVersionAtMs)
    return { pieces, silent, problem: others === null ? AWAY : isMixed ? OTHER_VERSION : null }
  }

  async #askOthers<Name extends OfEach>(question: Question & { readonly name: Name }): Promise<Pieces[Name][] | null> {
    // Whoever comes says so.
    if (this.#isAlone) return this.#options.peers.isUp ? [] : null
    // Where one is new there may be others, which have not let themselves be heard yet.
    const wanted = this.#isRecent(this.#newAtMs) ? 0 : this.#heard()
    const options = { timeoutMs: ALL_TIMEOUT_MS, maxReplies: MAX_PARTS_OF_ALL, wanted }
    const answers = await this.#gather(ALL, question, options)
    if (answers === null) return null
    this.#isAlone = answers.length === 0 && this.#heard() === 0
    const pieces = answers.flatMap((answer) => pieceIn(question.name, answer) ?? [])
    if (question.name === 'now') for (const report of pieces as NodeReport[]) this.#remember(report)
    return pieces
  }

  /** `wanted`: of so many processes; 0: that is not known. null: nobody can be asked. */
  async #gather(
    subject: string,
    { name, scope, query, body }: Question,
    { timeoutMs, maxReplies, wanted }: { timeoutMs: number; maxReplies: number; wanted: number },
  ): Promise<readonly Answer[] | null> {
    const { peers, id } = this.#options
    const answers = new AnswersInParts()
    const onReply = (reply: Uint8Array): boolean => {
      answers.add(reply)
      return wanted > 0 && answers.whole.length >= wanted
    }
    const message = packed({ from: id, name, scope, query }, body)
    return (await peers.gather(subject, message, { timeoutMs, maxReplies, onReply })) ? answers.whole : null
  }

  /** How many are waited for: not those that were silent the last time. */
  #heard(): number {
    return [...this.#known.values()].filter(({ lastAtMs }) => this.#isRecent(lastAtMs)).length
  }

  /** Whoever is there lets itself be heard in this time, also where one message is lost. */
  #isRecent(atMs: number): boolean {
    return this.#ageMs(atMs) < 2 * HERE_INTERVAL_MS
  }

  #onQuestion(own: Own, { data, reply }: Parameters<OnPeerMessage>[0], isForAll: boolean): void {
    const { id } = this.#options
    const message = unpack(data, isQuestion)
    if (message === null || message.head.from === id || !isInbox(reply)) return
    const { head, body } = message
    // What the stores answer is too dear for all to do at once.
    if (OF_EACH.some((name) => name === head.name) !== isForAll || (head.name === 'live' && !isLiveBody(body))) return
    void this.#reply(reply, async () => splitAnswer(id, await own.answer({ ...head, body })))
  }

  async #reply(inbox: string, answer: () => Promise<readonly Buffer[]>): Promise<void> {
    const { peers, onFault } = this.#options
    try {
      for (const message of await answer()) peers.publish(inbox, message)
    } catch (error) {
      onFault(error)
    }
  }

  #onHere(data: Uint8Array): void {
    const message = unpack(data, isHere)?.head
    if (message === undefined) {
      if (isOfOtherVersion(data)) this.#otherVersionAtMs = this.#options.timers.monotonicMs()
    } else if (message.from !== this.#options.id) {
      this.#isAlone = false
      if ('gone' in message) this.#known.delete(message.gone)
      else this.#remember(message.report)
    }
  }

  #remember(report: NodeReport): void {
    const known = this.#known.get(report.node)
    if (this.#known.size >= MAX_NODES && known === undefined) return
    const lastAtMs = this.#options.timers.monotonicMs()
    if (known === undefined || !this.#isRecent(known.lastAtMs)) this.#newAtMs = lastAtMs
    this.#known.set(report.node, { report: { ...report, cells: [] }, lastAtMs })
  }

  #silent(answered: readonly NodeReport[]): SilentNode[] {
    for (const [node, { lastAtMs }] of this.#known) {
      if (this.#ageMs(lastAtMs) > REMEMBERED_MS) this.#known.delete(node)
    }
    const names = new Set(answered.map(({ node }) => node))
    return [...this.#known.values()]
      .filter(({ report }) => !names.has(report.node))
      .map(({ report, lastAtMs }) => ({
        report,
        silentSeconds: Math.max(1, Math.round(this.#ageMs(lastAtMs) / 1000)),
      }))
  }

  #ageMs(lastAtMs: number): number {
    return this.#options.timers.monotonicMs() - lastAtMs
  }
}

/** Over a connection of its own, so that what people look at never waits before what is stored. */
export function joinOthers(nats: NatsAccess, { own, onFault }: Pick<ClusterOptions, 'own' | 'onFault'>) {
  const id = randomBytes(ID_BYTES).toString('hex')
  const peers: Peers = new Peers({ nats, onFault, onUp: () => cluster.up() })
  const cluster: Cluster = new Cluster({ peers, own, id, timers: systemTimers, onFault })
  cluster.start()
  const stop = async (): Promise<void> => {
    cluster.stop()
    await peers.stop()
  }
  return { cluster, stop }
}
