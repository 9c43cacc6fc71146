// One metrics page out of those of several front ends. Counters and histograms add up and never go back, though
// front ends end and others take their places; a gauge adds up too, or shows the worst of them.

interface Family {
  /** The HELP and TYPE lines. */
  readonly head: string
  readonly type: string
  /** By the text before the value: name and labels. */
  readonly samples: ReadonlyMap<string, number>
}

/** What was read from a page in Prometheus text format, by the families' names. */
export type Page = ReadonlyMap<string, Family>

export const EMPTY_PAGE: Page = new Map()

export const PAGE_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

type Combine = (left: number, right: number) => number

const sum: Combine = (left, right) => left + right

/** Gauges that are states, spans or limits of a process. All others are amounts, which add up. */
const COMBINED: Readonly<Record<string, Combine>> = {
  sluice_ready: Math.max,
  sluice_draining: Math.max,
  sluice_degraded: Math.max,
  sluice_redis_up: Math.min,
  sluice_nats_up: Math.min,
  // All front ends ask about one stream.
  sluice_stream_bytes: Math.max,
  sluice_stream_max_bytes: Math.max,
  sluice_stream_oldest_seconds: Math.max,
  sluice_stream_consumer_lag_seconds: Math.max,
  sluice_audit_lag_seconds: Math.max,
  sluice_build_info: Math.max,
  nodejs_version_info: Math.max,
  nodejs_eventloop_lag_min_seconds: Math.min,
  nodejs_eventloop_lag_p50_seconds: Math.max,
  nodejs_eventloop_lag_p90_seconds: Math.max,
  nodejs_eventloop_lag_p99_seconds: Math.max,
  nodejs_eventloop_lag_max_seconds: Math.max,
  process_start_time_seconds: Math.min,
  process_max_fds: Math.min,
}

/** Reads what the service itself wrote: each family in one piece, HELP before TYPE, no timestamps. */
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
      // prom-client writes Nan for what it cannot tell yet, which would make a sum of nothing.
      if (Number.isFinite(value)) samples.set(line.slice(0, at), value)
    }
  }
  return page
}

/**
 * What one place has counted, with what the front ends that were there before counted: `past`. `last` is what the
 * present one last said; its gauges are left out where it has not answered just now.
 */
export function countedIn(past: Page, last: Page, answered: boolean): Page {
  const page = new Map<string, Family>()
  for (const [name, family] of last) {
    if (!isGauge(family)) page.set(name, combine(past.get(name), family, sum))
    else page.set(name, answered ? family : { ...family, samples: new Map() })
  }
  for (const [name, family] of past) if (!page.has(name)) page.set(name, family)
  return page
}

/**
 * The page of all places, given in the same order each time: sums of fractions depend on the order, and a counter
 * that came out smaller by its last digit would look like a restart.
 */
export function mergePages(places: readonly Page[]): string {
  const merged = new Map<string, Family>()
  for (const place of places) {
    for (const [name, family] of place) {
      merged.set(name, combine(merged.get(name), family, isGauge(family) ? (COMBINED[name] ?? sum) : sum))
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
