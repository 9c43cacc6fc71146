import { expect, it } from 'vitest'
import { SinkWatcher } from '../../../../src/console/watchers.ts'
import type { Now } from '../../../../src/contract/admin/now.ts'
import { NowFeed } from '../../../../src/inspect/live/now-feed.ts'
import { Sink } from '../../../support/sink.ts'
import { ManualTimers } from '../../../support/timers.ts'

class Stage {
  readonly timers = new ManualTimers()
  readonly faults: unknown[] = []
  readonly reads: (string | null)[] = []
  failsOnce = false
  readonly feed = new NowFeed({
    read: async (range) => {
      this.reads.push(range)
      const fails = this.failsOnce
      this.failsOnce = false
      if (fails) throw new Error('no report')
      return { time: `report ${this.reads.length}` } as Now
    },
    timers: this.timers,
    onFault: (error) => this.faults.push(error),
  })

  watch() {
    const got: string[] = []
    const sink = new Sink((text) => void got.push(/report \d+/.exec(text)?.[0] ?? text))
    return { got, end: this.feed.add(new SinkWatcher(sink)) }
  }
}

it('one report a second goes to all who watch, and none is made while nobody does', async () => {
  const stage = new Stage()
  const [one, other] = [stage.watch(), stage.watch()]
  await stage.timers.pass(1000)
  expect(stage.reads).toEqual(['15m', '15m', null])
  expect([one.got, other.got]).toEqual([
    ['report 1', 'report 3'],
    ['report 2', 'report 3'],
  ])
  one.end()
  other.end()
  await stage.timers.pass(5000)
  expect(stage.reads).toHaveLength(3)
})

it('a report that fails, even the first one, is followed by the next', async () => {
  const stage = new Stage()
  stage.failsOnce = true
  const { got } = stage.watch()
  await stage.timers.pass(1000)
  stage.failsOnce = true
  await stage.timers.pass(2000)
  expect(got).toEqual(['report 2', 'report 4'])
  expect(stage.faults).toHaveLength(2)
})
