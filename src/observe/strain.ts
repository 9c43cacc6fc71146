// Says in the log what no request is refused for yet: a stage that has become slow, and file descriptors that run out.

import type { OnNotice } from '../lib/notice.ts'
import type { Timers } from '../lib/timers.ts'
import type { Metrics, Stage } from './metrics.ts'

const LOOK_MS = 10_000
/** Of the stage's mean, over the time since the last look. The objective is 50 ms for a whole request. */
const SLOW_SECONDS = 0.1
const MIN_REQUESTS = 5
const MOST_SHARE = 0.8

const LOOK_AT = {
  parse: 'bodies wait for a thread that checks them: see the CPU of this node, and SLUICE_PARSERS',
  admit: 'limits and keys wait for Redis: see its latency, and the event loop of this node',
  publish: 'records wait for the queue: see the disk of the journal, or the disks and the network of NATS',
} as const satisfies Partial<Record<Stage, string>>

export interface StrainOptions {
  readonly metrics: Pick<Metrics, 'stageSeconds'>
  readonly openFiles: () => number | undefined
  readonly maxOpenFiles: () => number
  readonly onNotice: OnNotice
  readonly timers: Pick<Timers, 'setInterval' | 'clear'>
}

/** Returns what stops it. */
export function watchStrain({ metrics, openFiles, maxOpenFiles, onNotice, timers }: StrainOptions): () => void {
  const stages = (Object.keys(LOOK_AT) as (keyof typeof LOOK_AT)[]).map((stage) => ({ stage, sum: 0, count: 0 }))
  const reported = new Set<string>()
  /** Once at its beginning and once at its end. */
  const report = (what: string, isSo: boolean, begun: () => string, ended: string): void => {
    if (isSo === reported.has(what)) return
    if (isSo) onNotice(begun())
    else onNotice(ended, 'info')
    if (isSo) reported.add(what)
    else reported.delete(what)
  }
  const timer = timers.setInterval(() => {
    for (const last of stages) {
      const { sum, counts } = metrics.stageSeconds[last.stage]
      const count = counts.reduce((total, each) => total + each, 0)
      const requests = count - last.count
      const meanSeconds = requests === 0 ? 0 : (sum - last.sum) / requests
      Object.assign(last, { sum, count })
      const { stage } = last
      report(
        stage,
        requests >= MIN_REQUESTS && meanSeconds > SLOW_SECONDS,
        () => `slow: ${LOOK_AT[stage]}; requests took ${Math.round(meanSeconds * 1000)} ms there on average`,
        `the stage ${stage} is as fast again as it should be`,
      )
    }
    const open = openFiles() ?? 0
    const most = maxOpenFiles()
    report(
      'files',
      open > MOST_SHARE * most,
      () =>
        `${open} of ${most} file descriptors are in use: without one left new connections hang and files cannot be opened; raise the limit (ulimit -n)`,
      'there are enough file descriptors again',
    )
  }, LOOK_MS)
  timer.unref()
  return () => timers.clear(timer)
}
