import { describe, expect, it } from 'vitest'
import { createMetrics } from '../../../src/observe/metrics.ts'
import { watchStrain } from '../../../src/observe/strain.ts'

function watched(): {
  stageSeconds: ReturnType<typeof createMetrics>['stageSeconds']
  open: (files: number | undefined) => void
  look: () => string[]
} {
  const metrics = createMetrics({ version: '0', runtime: false })
  let look = (): void => {}
  let files: number | undefined = 10
  const told: string[] = []
  watchStrain({
    metrics,
    openFiles: () => files,
    maxOpenFiles: () => 100,
    onNotice: (message, level) => void told.push(`${level ?? 'warn'} ${message}`),
    timers: {
      setInterval: (task) => {
        look = task
        return { unref: () => {} }
      },
      clear: () => {},
    },
  })
  return {
    stageSeconds: metrics.stageSeconds,
    open: (now) => (files = now),
    look: () => {
      look()
      return told.splice(0)
    },
  }
}

describe('what is logged before a request is refused', () => {
  it('is a stage that takes long on average since the last look, once, and that it is fast again', () => {
    const { stageSeconds, look } = watched()
    const publish = (seconds: number, requests: number) => {
      for (let at = 0; at < requests; at++) stageSeconds.publish.observe(seconds)
    }
    publish(0.001, 100_000)
    expect(look()).toEqual([])
    publish(0.4, 5)
    expect(look()).toEqual([
      expect.stringMatching(
        /^warn slow: records wait for the queue: see the disk .*; requests took 400 ms there on average$/,
      ),
    ])
    publish(0.4, 5)
    expect(look()).toEqual([])
    publish(0.01, 50)
    expect(look()).toEqual(['info the stage publish is as fast again as it should be'])
  })

  it('is no stage that few requests met slow, or that only uploads hold up', () => {
    const { stageSeconds, look } = watched()
    for (let at = 0; at < 4; at++) stageSeconds.admit.observe(1)
    for (let at = 0; at < 100; at++) stageSeconds.receive.observe(5)
    expect(look()).toEqual([])
  })

  it('is that file descriptors run out, where the system counts them', () => {
    const { open, look } = watched()
    open(80)
    expect(look()).toEqual([])
    open(81)
    expect(look()).toEqual([expect.stringMatching(/^warn 81 of 100 file descriptors are in use: /)])
    open(82)
    expect(look()).toEqual([])
    open(undefined)
    expect(look()).toEqual(['info there are enough file descriptors again'])
  })
})
