import { expect, test } from 'vitest'
import { NEIGHBOURS, neighbourBodies, undisturbedMean } from '../../../load/bench/neighbours.js'
import { createRng } from '../../../load/payloads.js'

/** The names of each event's members and of its properties in their order, and its own name, since layouts are chosen by it. */
function layouts(name: string): string[] {
  const bodies = neighbourBodies({ name, like: 'uniform', count: 2, rng: createRng(1), nowMs: 0 })
  return bodies.flatMap((body) =>
    (JSON.parse(body) as { events: { name: string; properties: object }[] }).events.map((event) =>
      [event.name, ...Object.keys(event), ...Object.keys(event.properties)].join(),
    ),
  )
}

test.each([
  ['one layout', 1],
  ['ever-new layouts', 200],
  ['each new layout 16 times', 13],
  ["almost the other's", 200],
  ['all of these', 54],
])('a neighbour that sends %s sends %i layouts in 200 events', (name, count) => {
  expect(Object.keys(NEIGHBOURS)).toContain(name)
  expect(new Set(layouts(name)).size).toBe(count)
})

test('a mean leaves out turns in which the thread had to wait, and keeps those that cost some times more', () => {
  expect(undisturbedMean([1, 1, 1, 1, 6, 4000])).toBe(2)
})
