// What this process refused: the newest requests one by one, and the counts of the last hour. Bounded, and nothing of
// what a client sent but its SDK version. Nothing here is on a metric, whose labels hold no app.

import { MAX_REFUSALS_KEPT } from '../bounds.ts'
import type { Refusal, RefusalGroup, RefusalLine } from './refusal.ts'
import { RefusalCounts } from './refusal-counts.ts'

type Writable<T> = { -readonly [Name in keyof T]: T[Name] }

export class Refusals {
  /** A circular buffer, whose entries are written over: an overload allocates nothing here. */
  readonly #kept: Writable<Refusal>[] = []
  #next = 0
  readonly #counts = new RefusalCounts()
  /** Called with each refusal from now on. null: nobody watches. */
  onRefused: ((refusal: Refusal) => void) | null = null

  /** `sdkVersion`: decoded, and short. */
  add(
    timeMs: number,
    requestId: string,
    appId: string | null,
    code: string,
    path: string | null,
    message: string,
    sdkVersion: string | null,
  ): void {
    const refusal = this.#entry()
    refusal.time_ms = timeMs
    refusal.request_id = requestId
    refusal.app_id = appId
    refusal.code = code
    refusal.path = path
    refusal.message = message
    refusal.sdk_version = sdkVersion
    // It is the service's fault, whoever asked, and must stay cheap in an overload.
    if (code === 'service_overloaded') this.#counts.add(refusal, null, null, null)
    else this.#counts.add(refusal, appId, path === null ? null : path.replaceAll(/\[\d+\]/g, '[*]'), sdkVersion)
    this.onRefused?.({ ...refusal })
  }

  #entry(): Writable<Refusal> {
    if (this.#kept.length < MAX_REFUSALS_KEPT) {
      this.#kept.push({
        time_ms: 0,
        request_id: '',
        app_id: null,
        code: '',
        path: null,
        message: '',
        sdk_version: null,
      })
    }
    const entry = this.#kept[this.#next]
    this.#next = (this.#next + 1) % MAX_REFUSALS_KEPT
    return entry
  }

  /** Those that are kept, newest first. */
  newest(): Refusal[] {
    const { length } = this.#kept
    return Array.from({ length }, (_, age) => ({ ...this.#kept[(this.#next - 1 - age + length) % length] }))
  }

  /** The groups of the last hour, the most frequent first. */
  rows(nowMs: number): RefusalGroup[] {
    return this.#counts.groups(nowMs)
  }

  /** What was refused since the last call. */
  takeLines(): RefusalLine[] {
    return this.#counts.takeLines()
  }
}
