// How a session of console or portal begins, and those that were ended before their time. They hold on every node by their signature alone, so that each node has to know of an end: it tells the others, as far as they
// can be asked.

import { randomBytes } from 'node:crypto'
import type { SessionEnd } from '../inspect/peers/cluster.ts'

export const SESSION_SECONDS = 43_200
/** Beyond it the oldest is forgotten: only who may open a session can end one. */
const MAX_ENDED = 10_000

/** Its end in Unix seconds, and what nobody guesses. */
export function newSession(nowMs: number): string {
  return `${Math.floor(nowMs / 1000) + SESSION_SECONDS}.${randomBytes(16).toString('base64url')}`
}

export class EndedSessions {
  readonly #ended = new Map<string, number>()
  readonly #nowMs: () => number
  /** Tells other nodes. */
  onEnd: ((end: SessionEnd) => void) | null = null

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  has(session: string): boolean {
    return this.#ended.has(session)
  }

  /** Here and elsewhere. */
  end(end: SessionEnd): void {
    this.note(end)
    this.onEnd?.(end)
  }

  /** Another node says so. */
  note({ session, endsAt }: SessionEnd): void {
    const now = this.#nowMs() / 1000
    for (const [known, end] of this.#ended) if (end <= now) this.#ended.delete(known)
    if (endsAt <= now) return
    this.#ended.set(session, endsAt)
    for (const oldest of this.#ended.keys()) {
      if (this.#ended.size <= MAX_ENDED) break
      this.#ended.delete(oldest)
    }
  }
}
