// Merges the metrics pages of several worker processes into one. Counters and histograms are summed and never go back, even
// when a worker process is replaced; a gauge is summed too, or shows the worst value.

import { MERGES, type Merge } from './gauges.ts'

interface Family {
  /** The HELP and TYPE lines. */
  readonly head: string
  readonly type: string
  /** The key is the text before the value: name and labels. */
  readonly samples: ReadonlyMap<string, number>
}

/** A page in Prometheus text format, parsed: its families by name. */
export type Page = ReadonlyMap<string, Family>

export const EMPTY_PAGE: Page = new Map()

export const PAGE_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

type Combine = (left: number, right: number) => number

const COMBINE: Readonly<Record<Merge, Combine>> = {
  sum: (left, right) => left + right,
  max: Math.max,
  min: Math.min,
  farthest: (left, right) => (Math.abs(left) > Math.abs(right) ? left : right),
}

/** Of the gauges that are not in the table of gauges.ts: of the runtime, and of what runs. All others are amounts, which are summed. */
const MERGES_OF_OTHERS: Readonly<Record<string, Merge>> = {
  sluice_build_info: 'max',
  sluice_http_engine: 'max',
  nodejs_version_info: 'max',
  nodejs_eventloop_lag_min_seconds: 'min',
  nodejs_eventloop_lag_p50_seconds: 'max',
  nodejs_eventloop_lag_p90_seconds: 'max',
  nodejs_eventloop_lag_p99_seconds: 'max',
  nodejs_eventloop_lag_max_seconds: 'max',
  process_start_time_seconds: 'min',
}

/** Parses only what this service writes: each family in one piece, HELP before TYPE, no timestamps. */
export function readPage(text: string): Page {
  const page = new Map<string, Family>()
  let help = ''
  let samples = new Map<string, number>()
  for (const line of text.split('\n')) {
    if (line.startsWith('# HELP ')) {
      help = line
    } else if (line.startsWith('# TYPE ')) {
      const [name, type] = line.slice('# TYPE '.length).split(' ')
      samples = new Map()
      page.set(name, { head: `${help}\n${line}\n`, type, samples })
    } else if (line !== '') {
      const at = line.lastIndexOf(' ')
      const value = Number(line.slice(at + 1))
      // prom-client writes Nan for a value that is not known yet, which would make the whole sum NaN.
      if (Number.isFinite(value)) samples.set(line.slice(0, at), value)
    }
  }
  return page
}

/**
 * The counters of one slot: `past` are those of its former worker processes, `last` is the latest page of the present one.
 * Its gauges are dropped where it did not answer this time.
 */
export function countedIn(past: Page, last: Page, answered: boolean): Page {
  const page = new Map<string, Family>()
  for (const [name, family] of last) {
    if (!isGauge(family)) page.set(name, combine(past.get(name), family, COMBINE.sum))
    else page.set(name, answered ? family : { ...family, samples: new Map() })
  }
  for (const [name, family] of past) if (!page.has(name)) page.set(name, family)
  return page
}

/**
 * The page of all slots. Pass them in the same order each time: floating-point sums depend on the order, and a counter
 * that shrinks by its last digit would look like a restart.
 */
export function mergePages(slots: readonly Page[]): string {
  const merged = new Map<string, Family>()
  for (const slot of slots) {
    for (const [name, family] of slot) {
      const merge = isGauge(family) ? (MERGES.get(name) ?? MERGES_OF_OTHERS[name]) : undefined
      merged.set(name, combine(merged.get(name), family, COMBINE[merge ?? 'sum']))
    }
  }
  let text = ''
  for (const { head, samples } of merged.values()) {
    text += head
    for (const [start, value] of samples) text += `${start} ${value}\n`
  }
  return text
}

function isGauge({ type }: Family): boolean {
  return type === 'gauge'
}

function combine(left: Family | undefined, right: Family, how: Combine): Family {
  if (left === undefined) return right
  const samples = new Map(left.samples)
  for (const [start, value] of right.samples) {
    const before = samples.get(start)
    samples.set(start, before === undefined ? value : how(before, value))
  }
  return { ...right, samples }
}
