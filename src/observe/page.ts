// The service's own metrics as Prometheus text. The text that does not change between scrapes is built once, so that a
// scrape of about 170 lines blocks the event loop for some tens of microseconds.

import type { Histogram } from './histogram.ts'

export type Labels = Readonly<Record<string, string>>

/** The value of one set of labels, read at the scrape. null or undefined: the series is missing now. */
export interface Series {
  readonly labels: Labels
  readonly read: () => number | boolean | null | undefined
}

/** The values by the label's value. */
export type LabelledRead = () => Readonly<Record<string, number | boolean>>

export class MetricsPage {
  readonly #families: (() => string)[] = []

  /** Counters or gauges under one name. HELP and TYPE are on the page even while there is no series. */
  numbers(name: string, type: 'counter' | 'gauge', help: string, series: readonly Series[]): void {
    const lines = series.map(({ labels, read }) => ({ start: lineStart(name, labels), read }))
    const head = familyHead(name, type, help)
    this.#families.push(() => {
      let text = head
      for (const { start, read } of lines) {
        const value = read()
        if (value !== undefined && value !== null) text += `${start}${Number(value)}\n`
      }
      return text
    })
  }

  /**
   * A gauge whose label values are known only at the scrape. They never come from a client, so their number is bounded.
   */
  gaugeByLabel(name: string, help: string, label: string, read: LabelledRead): void {
    const head = familyHead(name, 'gauge', help)
    this.#families.push(() => {
      let text = head
      for (const [value, number] of Object.entries(read()))
        text += `${lineStart(name, { [label]: value })}${Number(number)}\n`
      return text
    })
  }

  histograms(name: string, help: string, members: readonly { labels: Labels; histogram: Histogram }[]): void {
    const head = familyHead(name, 'histogram', help)
    const prepared = members.map(({ labels, histogram }) => ({
      histogram,
      buckets: [...histogram.bounds, '+Inf'].map((bound) => lineStart(`${name}_bucket`, { ...labels, le: `${bound}` })),
      sum: lineStart(`${name}_sum`, labels),
      count: lineStart(`${name}_count`, labels),
    }))
    this.#families.push(() => {
      let text = head
      for (const { histogram, buckets, sum, count } of prepared) {
        let total = 0
        for (let bucket = 0; bucket < buckets.length; bucket++) {
          total += histogram.counts[bucket]
          text += `${buckets[bucket]}${total}\n`
        }
        text += `${sum}${histogram.sum}\n${count}${total}\n`
      }
      return text
    })
  }

  text(): string {
    let text = ''
    for (const family of this.#families) text += family()
    return text
  }
}

function familyHead(name: string, type: string, help: string): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
}

function lineStart(name: string, labels: Labels): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${escapeLabel(value)}"`)
  return pairs.length === 0 ? `${name} ` : `${name}{${pairs.join(',')}} `
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
