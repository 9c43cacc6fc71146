// The figures of the pages and the picture of the curve, as `npm run figures` makes them of one run.

import { describe, expect, it } from 'vitest'
import { between, pagesWith, readFigures } from '../../../load/figures/pages.js'
import { curvePicture } from '../../../load/figures/picture.js'

const figures = readFigures()

describe('the figures of a page', () => {
  it('stand between their marks, and what is around stays', () => {
    const page = 'a\n<!-- x: npm run figures -->\nold\n<!-- /x -->\nb\n'
    expect(between(page, 'x', 'new\n')).toBe('a\n<!-- x: npm run figures -->\n\nnew\n\n<!-- /x -->\nb\n')
    expect(() => between('no marks', 'x', 'new')).toThrow('has no <!-- x:')
  })

  it('of the README are of one run: the best rate, and the latency at half of it', () => {
    const costs = [{ events: 10 as const, perSecond: 20_000, cpuUsPerRequest: 45 }]
    const point = {
      share: 50,
      perSecond: 10_000,
      cpuUsPerRequest: 60,
      p50Ms: 1.25,
      p99Ms: 7.75,
      p99sMs: [7.75],
      p999Ms: 9,
      maxMs: 9,
    }
    const numbers = { events: 10, rounds: 3, costs, points: [point] }
    const crash = { date: '2026-11-23', seed: 20261130, lost: 0, twice: 0, accepted: 1234, rounds: 50 }
    const text = pagesWith({ ...figures, crash, curve: { ...figures.curve, numbers } }).get('README.md')
    expect(text).toContain('| **4.5 CPU seconds per million events** | at full load in batches of 10; – one by one')
    expect(text).toContain(
      '| **200,000 events a second** | what one core takes at most, in 20,000 requests of 10 events',
    )
    expect(text).toContain('| **p50 1.3 ms, p99 7.8 ms** | at half of that rate')
    expect(text).toContain('| **0 lost, 0 twice** | of 1,234 batches answered 202, through 50 kills')
    expect(text).toContain('`npm run crash -- --rounds 50 --seed 20261130`, 2026-11-23 |')
    const without = pagesWith({ ...figures, curve: { ...figures.curve, numbers: { ...numbers, points: [] } } })
    expect(without.get('README.md')).not.toContain('at half of that')
  })

  it('is a picture that says in words what it shows, with a point for each rate', () => {
    const svg = curvePicture(figures.curve.numbers)
    const { points } = figures.curve.numbers
    expect(svg.match(/<circle class="p99"/g)).toHaveLength(points.length)
    for (const { share } of points) expect(svg).toContain(`at ${share}%: p50 `)
    expect(svg).toContain(`p99 ${points[0].p99Ms.toFixed(1)} ms`)
    expect(svg).not.toContain('NaN')
  })
})
