// The scanner validates a body in one pass over its bytes. It answers "valid", with offsets, or "not sure". It remembers
// the layout of events, which makes it faster and changes no answer. This is the JavaScript side of the WebAssembly
// module, whose source is assembly/scanner.ts.

// The file is read once, when a thread starts.
// oxlint-disable-next-line no-restricted-imports
import { readFileSync } from 'node:fs'
import { MAX_EVENT_AGE_MS, MAX_EVENT_LEAD_MS } from '../contract/bounds.ts'
import { MINUTE_MS } from '../lib/spans.ts'
import { FIELD } from '../ring/layout.ts'
import { takeArea } from '../ring/memory.ts'

/** src/ and dist/ have the same depth, so that this path is right in both. */
const MODULE = new URL('../../dist/decode/scanner.wasm', import.meta.url)

/** With more extra members the scanner is not sure. */
const MAX_EXTRAS = 64

// Results of `scan`.
const NOT_SURE = 0
const FITS_WITH_LINE_BREAKS = 2

interface Exports {
  scan(start: number, end: number, fromMinute: number, fromMs: number, untilMinute: number, untilMs: number): number
  hash(start: number, end: number): number
  useArea(address: number): void
}

export class Scanner {
  /** The last body has line breaks between its tokens. */
  sawLineBreak = false
  /** The number of members of the last body that the schema does not name. */
  extraCount = 0
  /** Start and end of each extra member. */
  private readonly extraSpans = new Int32Array(2 * MAX_EXTRAS)
  private readonly bytes: Buffer
  private readonly exports: Exports
  // The start of the last body, and where its numbers are written.
  private start = 0
  private words: Int32Array = new Int32Array(0)
  private at = 0

  constructor(memory: WebAssembly.Memory) {
    this.bytes = Buffer.from(memory.buffer)
    const instance = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(MODULE)), {
      env: { memory },
      scanner: {
        found: this.found.bind(this),
        extra: this.extra.bind(this),
      },
    })
    this.exports = instance.exports as unknown as Exports
    const area = takeArea(memory)
    if (area !== 0) this.exports.useArea(area)
  }

  /** true: the bytes [start, end) are a valid body, whose numbers are in `words`. false: not sure. */
  scan(start: number, end: number, nowMs: number, words: Int32Array, at: number): boolean {
    this.start = start
    this.words = words
    this.at = at
    this.extraCount = 0
    const fromMs = nowMs - MAX_EVENT_AGE_MS
    const untilMs = nowMs + MAX_EVENT_LEAD_MS
    const fromMinute = Math.floor(fromMs / MINUTE_MS)
    const untilMinute = Math.floor(untilMs / MINUTE_MS)
    const answer = this.exports.scan(
      start,
      end,
      fromMinute,
      fromMs - fromMinute * MINUTE_MS,
      untilMinute,
      untilMs - untilMinute * MINUTE_MS,
    )
    this.sawLineBreak = answer === FITS_WITH_LINE_BREAKS
    return answer !== NOT_SURE && this.extraCount <= MAX_EXTRAS
  }

  /** Of the bytes [start, end), and never 0. */
  hash(start: number, end: number): number {
    return this.exports.hash(start, end) >>> 0
  }

  /** The app key of the last body. */
  appKey(): string {
    const { start, words, at } = this
    return this.bytes.toString('latin1', start + words[at + FIELD.appKeyStart], start + words[at + FIELD.appKeyEnd])
  }

  /** The extra members of the last body, joined by commas. */
  extras(): string {
    const members: string[] = []
    for (let index = 0; index < 2 * this.extraCount; index += 2) {
      members.push(this.bytes.toString('utf8', this.extraSpans[index], this.extraSpans[index + 1]))
    }
    return members.join(',')
  }

  private extra(start: number, end: number): void {
    if (this.extraCount < MAX_EXTRAS) {
      this.extraSpans[2 * this.extraCount] = start
      this.extraSpans[2 * this.extraCount + 1] = end
    }
    this.extraCount += 1
  }

  /** Without a rest parameter, which would allocate an array for every body. */
  private found(
    appKeyStart: number,
    appKeyEnd: number,
    sdkVersionStart: number,
    sdkVersionEnd: number,
    eventsStart: number,
    eventsEnd: number,
    tracks: number,
    screens: number,
    revenues: number,
  ): void {
    const { words, at } = this
    words[at + FIELD.appKeyStart] = appKeyStart
    words[at + FIELD.appKeyEnd] = appKeyEnd
    words[at + FIELD.sdkVersionStart] = sdkVersionStart
    words[at + FIELD.sdkVersionEnd] = sdkVersionEnd
    words[at + FIELD.eventsStart] = eventsStart
    words[at + FIELD.eventsEnd] = eventsEnd
    words[at + FIELD.track] = tracks
    words[at + FIELD.screen] = screens
    words[at + FIELD.revenue] = revenues
  }
}
