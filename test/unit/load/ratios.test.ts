import { expect, it } from 'vitest'
import { partLoadTable, ratioTable } from '../../../load/bench/compare.js'
import { ratioColumns } from '../../../load/bench/report.js'
import { flagsIn, nodeFlagsOf, ROOT } from '../../../load/shared/node-flags.js'

function side(cpuUsPerRequest: number, perSecond: number): { cpuUsPerRequest: number; perSecond: number } {
  return { cpuUsPerRequest, perSecond }
}

const TURNS = [
  { here: side(50, 300), there: side(100, 100) },
  // Both halves of this round met a busy machine, which no ratio shows.
  { here: side(600, 10), there: side(1000, 5) },
  { here: side(40, 100), there: side(50, 100) },
]

it('takes the ratio within each round, and gives the middle one and both ends', () => {
  const cells = (ratio: (turn: (typeof TURNS)[number]) => number) =>
    ratioColumns('ratio', ratio).map(([, cell]) => cell({ turns: TURNS }))
  expect(cells(({ here, there }) => here.cpuUsPerRequest / there.cpuUsPerRequest)).toEqual(['0.60', '0.50–0.80'])
  expect(cells(({ here, there }) => here.perSecond / there.perSecond)).toEqual(['2.00', '1.00–3.00'])
})

it('prints a row with the cost of each side, both ratios and their spread', () => {
  const text = ratioTable('T', 'abc', 'here', [{ name: '1 event', turns: TURNS }], { markdown: true })
  const cells = (line: string) => line.split('|').map((cell) => cell.trim())
  const [, , head, , row] = text.split('\n')
  expect(cells(head).slice(1, 4)).toEqual(['request', 'CPU µs abc', 'CPU µs here'])
  expect(cells(row).slice(1, -1)).toEqual(['1 event', '100.0', '50.0', '0.60', '0.50–0.80', '2.00', '1.00–3.00'])
})

it('prints what each side costs at a fixed rate, and how long its clients wait', () => {
  const turns = TURNS.map(({ here, there }) => ({
    here: { ...here, p50Ms: 1, p99Ms: here.cpuUsPerRequest / 10 },
    there: { ...there, p50Ms: 2, p99Ms: there.cpuUsPerRequest / 10 },
  }))
  const text = partLoadTable('T', 'abc', 'here', [{ name: '5 /s', turns }], { markdown: true })
  const lines = text.split('\n').map((line) => line.split('|').map((cell) => cell.trim()))
  const [head, row] = [lines[2], lines[4]]
  expect(Object.fromEntries(head.map((name, column) => [name, row[column]]))).toMatchObject({
    'CPU µs abc': '100.0',
    'CPU µs here': '50.0',
    'CPU ratio': '0.60',
    'p50 ms abc': '2.00',
    'p50 ms here': '1.00',
    'p99 ms abc': '10.00',
    'p99 ms here': '5.00',
  })
})

it('reads the flags of Node from a start script', () => {
  expect(flagsIn('node --one --two=3 dist/main.js serve')).toEqual(['--one', '--two=3'])
  expect(flagsIn('node dist/main.js serve --later')).toEqual([])
  expect(() => flagsIn('npm run other')).toThrow('does not run node')
  expect(nodeFlagsOf(ROOT).every((flag) => flag.startsWith('--'))).toBe(true)
})
