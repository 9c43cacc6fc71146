// The consoles of many processes together: each tells of itself when one asks, and any of them can ask. Bounded in time,
// bytes and nodes; a process that does not answer in time is shown as silent.

import type { Timer, Timers } from '../lib/timers.ts'
import type { OnPeerMessage, Peers } from '../nats/peers.ts'
import type { Inquiries, Inquiry, InquiryAnswer } from './inquiries.ts'
import { problemOf } from './inquiries.ts'
import type { NodeReport, SilentNode } from './now.ts'
import { isAsk, isHere, isInbox, isInquiry, isPieceOf } from './peer-checks.ts'
import { MAX_PIECE_BYTES, packed, splitAnswer, unpack, wholeAnswer } from './peer-messages.ts'
import type { Ask, OwnAnswers, Pieces, QuestionName, Questions, Told } from './questions.ts'

const ASK = 'sluice.console.ask'
/** One of the processes with stores answers for all. */
const ONE = 'sluice.console.one'
const HERE = 'sluice.console.here'
const ANSWER_TIMEOUT_MS = 500
/** A search may read the stream for 30 s. */
const ONE_TIMEOUT_MS = 35_000
const MAX_NODES = 100
const HERE_INTERVAL_MS = 30_000
/** A process that was heard of in this time and does not answer now is silent. Later it is forgotten. */
const REMEMBERED_MS = 900_000
const MAX_PARTS = 40
const AWAY = 'other nodes cannot be asked: NATS is away'

export type Transport = Pick<Peers, 'isUp' | 'on' | 'publish' | 'gather'>

export interface ClusterOptions {
  readonly peers: Transport
  /** null: this process takes no events, and only shows what others tell. */
  readonly own: OwnAnswers | null
  readonly ownInquiries: Inquiries | null
  /** Different in each process. */
  readonly id: string
  readonly timers: Timers
  readonly onFault: (error: unknown) => void
}

interface Known {
  readonly report: NodeReport
  readonly heardAtMs: number
}

interface AskMessage {
  readonly from: string
  readonly name: QuestionName
  readonly question: Questions[QuestionName]
}

type HereMessage =
  | { readonly from: string; readonly report: NodeReport }
  | { readonly from: string; readonly gone: string }

export class Cluster implements Inquiries {
  readonly #options: ClusterOptions
  /** By name. */
  readonly #known = new Map<string, Known>()
  readonly #ends: (() => void)[] = []
  #timer: Timer | null = null

  constructor(options: ClusterOptions) {
    this.#options = options
    const { own, ownInquiries, peers } = options
    this.#ends.push(peers.on(HERE, ({ data }) => this.#heard(unpack(data, isHere)?.head as HereMessage | undefined)))
    if (own !== null)
      this.#ends.push(
        peers.on(
          ASK,
          this.#guarded((message) => this.#answerAll(own, message)),
        ),
      )
    if (ownInquiries !== null) {
      this.#ends.push(
        peers.on(
          ONE,
          this.#guarded((message) => this.#answerOne(ownInquiries, message)),
          'one',
        ),
      )
    }
  }

  start(): void {
    this.#timer = this.#options.timers.setInterval(() => this.tellHere(), HERE_INTERVAL_MS)
    this.#timer.unref()
  }

  /** Lets the others know that this process is there. */
  tellHere(): void {
    const { own, id, peers, onFault } = this.#options
    if (own === null || !peers.isUp) return
    own
      .answer('now', { withHistory: false })
      .then((report) => peers.publish(HERE, packed({ from: id, report })))
      .catch(onFault)
  }

  /** So that the others do not wait for this process: it ends as it should. */
  tellGone(): void {
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
  ): Promise<Told<Pieces[Name]>> => {
    const { own } = this.#options
    const [mine, others] = await Promise.all([own?.answer(name, question), this.#askOthers(name, question)])
    const pieces = [...(mine === undefined ? [] : [mine]), ...(others ?? [])]
    const silent = name === 'now' ? this.#silent(pieces as NodeReport[]) : []
    return { pieces, silent, problem: others === null ? AWAY : null }
  }

  async #askOthers<Name extends QuestionName>(name: Name, question: Questions[Name]): Promise<Pieces[Name][] | null> {
    const { peers, id } = this.#options
    // Those that were silent the last time are not waited for.
    const expected = [...this.#known.values()].filter(({ heardAtMs }) => this.#ageMs(heardAtMs) < 2 * HERE_INTERVAL_MS)
    const replies = await peers.gather(ASK, packed({ from: id, name, question }), {
      timeoutMs: ANSWER_TIMEOUT_MS,
      maxReplies: MAX_NODES,
      isWhole: (all) => expected.length > 0 && all.length >= expected.length,
    })
    if (replies === null) return null
    const pieces = replies.flatMap(
      (reply) => (unpack(reply, isPieceOf(name))?.head as { piece: Pieces[Name] } | undefined)?.piece ?? [],
    )
    if (name === 'now') for (const report of pieces as NodeReport[]) this.#remember(report)
    return pieces
  }

  #answerAll(own: OwnAnswers, { data, reply }: Parameters<OnPeerMessage>[0]): void {
    const asked = unpack(data, isAsk)?.head as AskMessage | undefined
    if (asked === undefined || asked.from === this.#options.id || !isInbox(reply)) return
    const answer = async (): Promise<void> => {
      this.#options.peers.publish(reply, fitted(await own.answer(asked.name, asked.question)))
    }
    answer().catch(this.#options.onFault)
  }

  #answerOne(inquiries: Inquiries, { data, reply }: Parameters<OnPeerMessage>[0]): void {
    const asked = unpack(data, isInquiry)
    if (asked === null || !isInbox(reply)) return
    const head = asked.head as Omit<Inquiry, 'body'>
    const answer = async (): Promise<void> => {
      const parts = splitAnswer(await inquiries.answer({ ...head, body: asked.body }))
      for (const part of parts) this.#options.peers.publish(reply, part)
    }
    answer().catch(this.#options.onFault)
  }

  /** For a process without stores. */
  async answer({ name, query, body }: Inquiry): Promise<InquiryAnswer> {
    const replies = await this.#options.peers.gather(ONE, packed({ name, query }, body), {
      timeoutMs: ONE_TIMEOUT_MS,
      maxReplies: MAX_PARTS,
      isWhole: (parts) => wholeAnswer(parts) !== null,
    })
    if (replies === null) return problemOf(503, 'unavailable', AWAY)
    return wholeAnswer(replies) ?? problemOf(503, 'unavailable', 'no node answers: try again in a moment')
  }

  #guarded(handle: OnPeerMessage): OnPeerMessage {
    return (message) => {
      try {
        handle(message)
      } catch (error) {
        this.#options.onFault(error)
      }
    }
  }

  #heard(message: HereMessage | undefined): void {
    if (message === undefined || message.from === this.#options.id) return
    if ('gone' in message) this.#known.delete(message.gone)
    else this.#remember(message.report)
  }

  #remember(report: NodeReport): void {
    if (this.#known.size >= MAX_NODES && !this.#known.has(report.node)) return
    this.#known.set(report.node, { report: { ...report, cells: [] }, heardAtMs: this.#options.timers.monotonicMs() })
  }

  #silent(answered: readonly NodeReport[]): SilentNode[] {
    for (const [node, { heardAtMs }] of this.#known) {
      if (this.#ageMs(heardAtMs) > REMEMBERED_MS) this.#known.delete(node)
    }
    const names = new Set(answered.map(({ node }) => node))
    return [...this.#known.values()]
      .filter(({ report }) => !names.has(report.node))
      .map(({ report, heardAtMs }) => ({
        report,
        silentSeconds: Math.max(1, Math.round(this.#ageMs(heardAtMs) / 1000)),
      }))
  }

  #ageMs(heardAtMs: number): number {
    return this.#options.timers.monotonicMs() - heardAtMs
  }
}

/** Of a long list of refusals as much as fits into one message. The other pieces are bounded far below that. */
function fitted(piece: Pieces[QuestionName]): Buffer {
  const bytes = packed({ piece })
  if (bytes.length <= MAX_PIECE_BYTES || !('groups' in piece)) return bytes
  const { refusals, groups } = piece
  const half = <T>(list: readonly T[]): readonly T[] => list.slice(0, Math.floor(list.length / 2))
  return fitted({ ...piece, refusals: half(refusals), groups: half(groups) })
}
