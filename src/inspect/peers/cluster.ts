// The consoles of many processes together: each answers for itself when one asks, and any of them can ask. Bounded in time,
// bytes and nodes; a process that does not answer in time is shown as silent.

import type { NodeReport } from '../../contract/admin/now.ts'
import type { LastHourPiece, Pieces, Questions } from '../../contract/admin/peers.ts'
import { problemOf } from '../../contract/admin/problems.ts'
import type { Timer, Timers } from '../../lib/timers.ts'
import type { OnPeerMessage, Peers } from '../../nats/peers.ts'
import type { Inquiries, Inquiry, InquiryAnswer } from '../inquiries.ts'
import type { SilentNode } from '../now/now.ts'
import type { Answers, Ask, OwnAnswers, QuestionName } from '../questions.ts'
import { isAsk, isHere, isInbox, isInquiry, isPiece, isSessionEnded } from './peer-checks.ts'
import { isOfOtherVersion, MAX_PIECE_BYTES, packed, splitAnswer, unpack, wholeAnswer } from './peer-messages.ts'

const ASK = 'sluice.console.ask'
/** One of the processes with stores answers for all. */
const ONE = 'sluice.console.one'
const HERE = 'sluice.console.here'
const ENDED = 'sluice.console.ended'
const ANSWER_TIMEOUT_MS = 500
/** To explain a body may take 10 s. */
const ONE_TIMEOUT_MS = 15_000
const MAX_NODES = 100
const HERE_INTERVAL_MS = 30_000
/** A process that sent something in this time and does not answer now is silent. Later it is forgotten. */
const REMEMBERED_MS = 900_000
const MAX_PARTS = 40
const AWAY = 'other nodes cannot be asked: NATS is away'
const OTHER_VERSION = 'nodes of another version are there, and are not shown'

export type Transport = Pick<Peers, 'isUp' | 'on' | 'publish' | 'gather'>

export interface ClusterOptions {
  readonly peers: Transport
  /** null: this process takes no events, and only shows what others answer. */
  readonly own: OwnAnswers | null
  readonly ownInquiries: Inquiries | null
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

export class Cluster implements Inquiries {
  readonly #options: ClusterOptions
  /** By name. */
  readonly #known = new Map<string, Known>()
  readonly #ends: (() => void)[] = []
  #otherVersionAtMs = Number.NEGATIVE_INFINITY
  /** Nobody answered the last question, and nobody was heard since. */
  #isAlone = false
  #timer: Timer | null = null

  constructor(options: ClusterOptions) {
    this.#options = options
    const { own, ownInquiries, peers } = options
    this.#ends.push(peers.on(HERE, ({ data }) => this.#onHere(data)))
    if (own !== null) this.#ends.push(peers.on(ASK, (message) => this.#answerAll(own, message)))
    if (ownInquiries !== null) {
      this.#ends.push(peers.on(ONE, (message) => this.#answerOne(ownInquiries, message), 'one'))
    }
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
    own
      .answer('now', { range: null })
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

  /** Of this process, and of all that answer in time. */
  readonly ask: Ask = async <Name extends QuestionName>(
    name: Name,
    question: Questions[Name],
  ): Promise<Answers<Pieces[Name]>> => {
    const { own } = this.#options
    const [mine, others] = await Promise.all([own?.answer(name, question), this.#askOthers(name, question)])
    const pieces = [...(mine === undefined ? [] : [mine]), ...(others ?? [])]
    const silent = name === 'now' ? this.#silent(pieces as NodeReport[]) : []
    const isMixed = this.#ageMs(this.#otherVersionAtMs) < 2 * HERE_INTERVAL_MS
    return { pieces, silent, problem: others === null ? AWAY : isMixed ? OTHER_VERSION : null }
  }

  async #askOthers<Name extends QuestionName>(name: Name, question: Questions[Name]): Promise<Pieces[Name][] | null> {
    const { peers, id } = this.#options
    // Whoever comes says so.
    if (this.#isAlone) return peers.isUp ? [] : null
    const expected = this.#heard()
    const replies = await peers.gather(ASK, packed({ from: id, name, question }), {
      timeoutMs: ANSWER_TIMEOUT_MS,
      maxReplies: MAX_NODES,
      isWhole: (all) => expected > 0 && all.length >= expected,
    })
    if (replies === null) return null
    this.#isAlone = replies.length === 0 && this.#heard() === 0
    const pieces = replies.flatMap((reply) => unpack(reply, isPiece[name])?.head.piece ?? [])
    if (name === 'now') for (const report of pieces as NodeReport[]) this.#remember(report)
    return pieces
  }

  /** How many are waited for: not those that were silent the last time. */
  #heard(): number {
    return [...this.#known.values()].filter(({ lastAtMs }) => this.#ageMs(lastAtMs) < 2 * HERE_INTERVAL_MS).length
  }

  #answerAll(own: OwnAnswers, { data, reply }: Parameters<OnPeerMessage>[0]): void {
    const asked = unpack(data, isAsk)?.head
    if (asked === undefined || asked.from === this.#options.id || !isInbox(reply)) return
    void this.#reply(reply, async () => [fitted(await own.answer(asked.name, asked.question))])
  }

  #answerOne(inquiries: Inquiries, { data, reply }: Parameters<OnPeerMessage>[0]): void {
    const asked = unpack(data, isInquiry)
    if (asked === null || !isInbox(reply)) return
    void this.#reply(reply, async () => splitAnswer(await inquiries.answer({ ...asked.head, body: asked.body })))
  }

  async #reply(inbox: string, answer: () => Promise<readonly Buffer[]>): Promise<void> {
    const { peers, onFault } = this.#options
    try {
      for (const message of await answer()) peers.publish(inbox, message)
    } catch (error) {
      onFault(error)
    }
  }

  /** For a process without stores. */
  async answer({ name, query, body, scope }: Inquiry): Promise<InquiryAnswer> {
    const replies = await this.#options.peers.gather(ONE, packed({ name, query, scope }, body), {
      timeoutMs: ONE_TIMEOUT_MS,
      maxReplies: MAX_PARTS,
      isWhole: (parts) => wholeAnswer(parts) !== null,
    })
    if (replies === null) return problemOf('unavailable', AWAY)
    return wholeAnswer(replies) ?? problemOf('unavailable', 'no node answers: try again in a moment')
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
    if (this.#known.size >= MAX_NODES && !this.#known.has(report.node)) return
    this.#known.set(report.node, { report: { ...report, cells: [] }, lastAtMs: this.#options.timers.monotonicMs() })
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

/** Of long lists as much as fits into one message. The report of a node is bounded far below that. */
function fitted(piece: Pieces[QuestionName]): Buffer {
  const bytes = packed({ piece })
  if (bytes.length <= MAX_PIECE_BYTES || 'node' in piece) return bytes
  if ('accepted' in piece) return fitted(ofFewerApps(piece))
  return fitted({ ...piece, refusals: shorter(piece.refusals), groups: shorter(piece.groups) })
}

function shorter<T>(list: readonly T[]): readonly T[] {
  return list.slice(0, Math.floor(list.length * 0.9))
}

/** Of an app that is left out nothing is known, so nothing of it is left. */
function ofFewerApps({ accepted, recent, refused, bytes = {} }: LastHourPiece): LastHourPiece {
  const left = new Set(shorter(Object.keys(accepted)))
  const ofLeft = <T>(counts: Readonly<Record<string, T>>): Record<string, T> =>
    Object.fromEntries(Object.entries(counts).filter(([appId]) => left.has(appId)))
  const stored = Object.entries(bytes).toSorted(([, [one]], [, [other]]) => other - one)
  return {
    accepted: ofLeft(accepted),
    recent: ofLeft(recent),
    refused: ofLeft(refused),
    has_all: false,
    bytes: Object.fromEntries(shorter(stored)),
    bytes_has_all: false,
  }
}
