// What the bench says beside its tables: which rows are missing and why, on which machine, the curve, histograms, flame graphs.

import { describe, expect, it, vi } from 'vitest'
import { CASES, nameOf } from '../../../load/bench/cases.js'
import { curveText, SHARES, secondsPerMillion } from '../../../load/bench/curve.js'
import { boxesOf, flameGraph } from '../../../load/bench/flame.js'
import { histogramFile } from '../../../load/bench/pacing.js'
import { histogramText, percentilesOf } from '../../../load/bench/percentiles.js'
import { table } from '../../../load/bench/report.js'
import { byTurns, withServers } from '../../../load/bench/turns.js'
import { verdict } from '../../../load/bench/verdict.js'
import { lastWords, orUnmeasured, unlessVoid, VoidRun } from '../../../load/bench/void-runs.js'
import { busyLine, coresInUse, diskOf, isBusy, machineLine } from '../../../load/shared/machine.js'

describe('a row that cannot be measured', () => {
  it('is tried again, then named with its cause, and the others stand', async () => {
    const printed = vi.spyOn(console, 'error').mockReturnValue()
    const options = { unmeasured: [] as { name: string; cause: string }[] }
    const runs = vi.fn<() => Promise<never>>(() => Promise.reject(new VoidRun('no request was answered within 1 s')))
    expect(await orUnmeasured(options, '1 event', () => unlessVoid('1 event, raw', runs))).toBeNull()
    expect(runs).toHaveBeenCalledTimes(4)
    expect(await orUnmeasured(options, '10 events', () => Promise.resolve(7))).toBe(7)
    expect(options.unmeasured).toEqual([{ name: '1 event', cause: '1 event, raw: no request was answered within 1 s' }])
    expect(lastWords(options.unmeasured, [])).toBe(
      '1 row was not measured, and the others stand:\n  1 event, raw: no request was answered within 1 s\nNo other program disturbed the run.',
    )
    printed.mockRestore()
  })

  it('is not what broke: that ends the run', async () => {
    const broken = () => Promise.reject(new TypeError('a bug'))
    await expect(orUnmeasured({ unmeasured: [] }, 'row', broken)).rejects.toThrow('a bug')
  })

  it('is none where all went well, and a run that others disturbed says so', () => {
    expect(lastWords([], ['Other programs use 2.0 of 2 cores'])).toBe(
      'Every row was measured.\nOther programs use 2.0 of 2 cores',
    )
  })
})

describe('the machine', () => {
  const times = (idle: number, user: number) => ({ times: { user, nice: 0, sys: 0, idle, irq: 0 } })

  it('is busy by what other programs use of its cores in this moment, not by the load of the last minute', () => {
    const others = coresInUse([times(100, 0), times(100, 0)], [times(150, 50), times(200, 0)])
    expect(others).toBe(0.5)
    expect(isBusy({ others, cores: 2, average: 0 })).toBe(true)
    expect(isBusy({ others: 0.1, cores: 2, average: 11 })).toBe(false)
    expect(busyLine({ others, cores: 2, average: 11 })).toContain('0.5 of 2 cores (load 11.0)')
  })

  it('names the file system of the longest mount point that holds the folder', () => {
    const mounts = '/dev/vda / ext4 rw 0 0\ntmpfs /tmp2 tmpfs rw 0 0\n/dev/nvme0n1 /proc/self xfs rw 0 0\n'
    expect(diskOf('/usr', mounts)).toBe('ext4 on vda')
    expect(diskOf('/', mounts)).toBe('ext4 on vda')
    expect(diskOf('/', '')).toBe('? on ?')
  })

  it('stands below each table', () => {
    const machine = {
      cpu: 'A',
      cores: 2,
      kernel: 'Linux 6',
      disk: 'ext4 on vda',
      node: 'v24',
      engine: 'e',
      commit: 'c',
    }
    const line = machineLine(machine, { average: 1.5, others: 0, cores: 2 })
    for (const value of [
      '2 × A',
      'Linux 6',
      'ext4 on vda',
      'v24',
      'commit c',
      'load average 1.5',
      'other programs 0.0 cores',
    ])
      expect(line).toContain(value)
    for (const markdown of [true, false]) {
      expect(table('T', ['b'], { markdown, machine: line }, [['a', (cell) => cell]]).endsWith(`\n\n${line}\n`)).toBe(
        true,
      )
    }
  })
})

describe('the curve', () => {
  const costs = [{ events: 10 as const, perSecond: 20_000, cpuUsPerRequest: 50 }]
  const points = SHARES.map((share) => ({
    share,
    perSecond: 200 * share,
    cpuUsPerRequest: 60,
    p50Ms: 1,
    p99Ms: share,
    p99sMs: [share, 2, 221.25],
    p999Ms: 2 * share,
    maxMs: 300,
  }))

  it('has what a million events cost, and both tables of one run', () => {
    expect(secondsPerMillion(costs[0])).toBe(5)
    const text = curveText({ events: 10, rounds: 3, costs, points }, { markdown: true })
    expect(text).toMatch(/\| 10 +\| +5\.00 \| +50\.0 \| +20,000 \| +200,000 \|/)
    expect(text).toMatch(
      /\| 50% +\| +10,000 \| +100,000 \| +60\.0 \| +1\.00 \| +50\.00 \| +50\.0, 2\.0, 221\.3 \| +100\.00 \| +300\.00 \|/,
    )
    expect(text).toContain('coordinated omission')
  })

  it('stands without a rate that was not reached', () => {
    const text = curveText({ events: 10, rounds: 3, costs, points: points.slice(0, 3) }, { markdown: false })
    expect(text).toContain('50%')
    expect(text).not.toContain('95%')
  })
})

describe('a histogram', () => {
  const lines = histogramText(Array.from({ length: 1000 }, (_, at) => 1000 - at)).split('\n')
  const valueAt = (percentile: number) => {
    const found = lines.map((line) => line.trim().split(/\s+/)).find((cells) => Number(cells[1]) >= percentile)
    return Number(found?.[0])
  }

  it('has the exact values, closer to each other towards the largest', () => {
    expect([0.5, 0.9, 1].map(valueAt)).toEqual([500, 900, 1000])
    expect(lines.filter((line) => /^ +\d/.test(line)).length).toBeGreaterThan(45)
    expect(lines.slice(-3)).toEqual([
      '#[Mean    = 500.500, StdDeviation   = 288.675]',
      '#[Max     = 1000.000, Total count    = 1000]',
      '',
    ])
  })

  it('has the percentiles that a table shows', () => {
    const latenciesMs = Array.from({ length: 1000 }, (_, at) => 999 - at)
    expect(percentilesOf(latenciesMs)).toEqual({ p50: 500, p99: 990, p999: 999, max: 999 })
  })

  it('of nothing has no value', () => {
    expect(histogramText([])).toContain('Total count    = 0]')
    expect(percentilesOf([])).toEqual({ p50: null, p99: null, p999: null, max: null })
  })

  it('gets a file for each run, where it was asked for', () => {
    expect(histogramFile({ histograms: '/tmp/h' }, 'curve 10% of the best rate')).toBe(
      '/tmp/h/curve-10-of-the-best-rate.hgrm',
    )
    expect(histogramFile({ histograms: undefined }, 'x')).toBeUndefined()
  })
})

describe('a flame graph', () => {
  const node = (id: number, functionName: string, children: number[] = []) => ({
    id,
    callFrame: { functionName, url: 'file:///x/queue/journal.js', lineNumber: 4 },
    children,
  })
  const profile = {
    nodes: [node(1, '(root)', [2, 4]), node(2, 'a<b>', [3]), node(3, 'inner'), node(4, '(idle)')],
    samples: [2, 3, 4, 3],
    timeDeltas: [100, 100, 5000, 200],
  }

  it('gives each function the width of its time and of what it called, without the time that the thread waited', () => {
    const boxes = boxesOf(profile).map(({ name, depth, share }) => [name.split(' ')[0], depth, share])
    expect(boxes).toEqual([
      ['(root)', 0, 1],
      ['a<b>', 1, 1],
      ['inner', 2, 0.75],
    ])
  })

  it('is an SVG with names that are no markup', () => {
    const svg = flameGraph('10 events', profile)
    expect(svg).toContain('a&lt;b&gt; queue/journal.js:5: 100.0%')
    expect(svg).not.toContain('a<b>')
  })
})

describe('the verdict of --quick', () => {
  /** Of the page: names, and the CPU time of the raw front end by that of the service. */
  const shares = [
    { name: '1 event, uniform', here: 12.7 / 25.8 },
    { name: '1 event, uniform, 8 connections', here: 11.8 / 58.4 },
  ]

  it('finds the rows of the page by their names', () => {
    expect(verdict(shares)).toContain('2 of 2 rows as good')
    expect(verdict([{ name: '2 events, of no page', here: 1 }])).toContain('0 of 0 rows')
    for (const { name } of shares) expect(CASES.map(nameOf)).toContain(name)
  })

  it('names a row whose share is more than a quarter below that of the page', () => {
    const slow = [{ ...shares[0], here: 12.7 / 40 }, shares[1]]
    expect(verdict(slow)).toMatch(/1 of 2 rows as good.*\n {2}lower: 1 event, uniform: 0.32, there 0.49\n/)
  })
})

describe('by turns', () => {
  it('warms each side up, measures it in every round, and begins each round with another one', async () => {
    const order: string[] = []
    const side = (name: string) => (seconds: number) => {
      order.push(`${name}${seconds}`)
      return Promise.resolve(order.length)
    }
    const turns = await byTurns(
      'row',
      { here: side('h'), there: side('t') },
      { rounds: 2, seconds: 2, warmUpSeconds: 3 },
    )
    expect(order).toEqual(['h3', 't3', 'h2', 't2', 't2', 'h2'])
    expect(turns).toEqual([
      { here: 3, there: 4 },
      { here: 6, there: 5 },
    ])
  })

  it('stops every server that was started, whatever fails', async () => {
    const stopped: string[] = []
    const start = (name: string) => () =>
      Promise.resolve({
        pid: 1,
        port: 1,
        adminPort: 1,
        portalPort: 1,
        stop: () => Promise.resolve(void stopped.push(name)),
      })
    const starts = { here: start('here'), there: start('there'), never: () => Promise.reject(new Error('no start')) }
    await expect(withServers(starts, () => Promise.resolve())).rejects.toThrow('no start')
    expect(stopped).toEqual(['here', 'there'])
  })
})
