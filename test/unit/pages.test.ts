// README and docs: what they name is there, and figures that follow from others do follow.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { pagesWith, readFigures } from '../../load/figures/pages.js'
import { SCRIPTS } from '../../load/run/scripts.js'
import { SETTINGS } from '../../src/settings/settings.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const PAGES = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  ...readdirSync(`${ROOT}docs`)
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
]
/** Written by runs and installs; a pattern; kubectl's short name of a Deployment. */
const NO_FILES = [/^load\/reports/, /node_modules$/, /NAME/, /^deploy\/(sluice|toolbox)$/]
const STREAM_NAME = 'SLUICE_EVENTS'
const BUCKET_NAME = 'SLUICE_APPS'
const read = (path: string): string => readFileSync(ROOT + path, 'utf8')

describe.each(PAGES)('%s', (page) => {
  const text = read(page)

  it('names no file that is not there', () => {
    const named = [
      ...text.matchAll(/(?<![\w./:-])(?:docs|deploy|examples|load|src|test|tools|bin)\/[\w*{},./-]*\w/g),
    ].map(([path]) => path)
    const plain = named.filter((path) => !/[*{}]/.test(path) && !NO_FILES.some((pattern) => pattern.test(path)))
    expect(plain.filter((path) => !existsSync(ROOT + path))).toEqual([])
  })

  it('names no npm script and no load script that is not there', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
    const called = [...text.matchAll(/npm run ([a-z\d:]+)/g)].map(([, name]) => name)
    expect(called.filter((name) => !(name in scripts))).toEqual([])
    const loads = [...text.matchAll(/npm run load -- ([a-z-]+)/g)].map(([, name]) => name)
    expect(loads.filter((name) => !(name in SCRIPTS) && !name.startsWith('-'))).toEqual([])
  })

  it('names no page and no section of a page that is not there', () => {
    const pages = [...text.matchAll(/(?<![\w./-])(README|[A-Z]+\.md|docs\/[\w-]+\.md)(?:, "([^"]+)")?/g)]
    const wrong = pages.filter(([, name, section]) => {
      const file = name === 'README' ? 'README.md' : name
      if (!existsSync(ROOT + file)) return true
      return section !== undefined && !read(file).includes(`## ${section}`)
    })
    expect(wrong.map(([whole]) => whole)).toEqual([])
  })

  it('names no command that is not there', () => {
    const commands = [...read('src/program.ts').matchAll(/^ {2}(\w+): \{\s+summary: /gm)].map(([, name]) => name)
    expect(commands.length).toBeGreaterThan(3)
    const called = [...text.matchAll(/(?:npx |`|-- )sluice ([a-z]+)/g)].map(([, name]) => name)
    expect(called.filter((name) => !commands.includes(name))).toEqual([])
  })

  it('names no setting that is not there', () => {
    const named = new Set(text.match(/\bSLUICE_[A-Z_]*[A-Z]\b/g) ?? [])
    const others = new Set([
      STREAM_NAME,
      BUCKET_NAME,
      'SLUICE_COUNTS',
      'SLUICE_PORT',
      // What the conformance kit gives an SDK's driver.
      'SLUICE_URL',
      'SLUICE_APP_KEY',
      'SLUICE_FOLDER',
      'SLUICE_TEST_BALANCER_REQUESTS',
      'SLUICE_TEST_BALANCER_SILENCES_MS',
      'SLUICE_TEST_CASES',
      'SLUICE_TEST_ENVOY',
      'SLUICE_TEST_NATS_SERVER',
      'SLUICE_TEST_CHDB',
      'SLUICE_TEST_SEED',
    ])
    expect([...named].filter((name) => !(name in SETTINGS) && !others.has(name))).toEqual([])
  })
})

it('the README leads to every page', () => {
  const readme = read('README.md')
  expect(PAGES.slice(1).filter((page) => !readme.includes(page))).toEqual([])
})

it.each([...pagesWith(readFigures())])('%s has the figures of the last run', (path, text) => {
  expect(read(path)).toBe(text)
})

describe('the capacity page', () => {
  const capacity = read('docs/capacity.md')
  const rowsUnder = (heading: string, text: string): string[][] => {
    const table = text.slice(text.indexOf(heading)).split('\n\n')[0]
    const rows = table.split('\n').filter((line) => line.startsWith('|'))
    return rows.slice(2).map((row) =>
      row
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
  }
  const figure = (cell: string): number => Number(cell.replaceAll(',', ''))
  const costs = rowsUnder('| requests of | queue |', capacity)

  it('has the costs that the bench measured', () => {
    const table = rowsUnder('| request                                      | requests /s', read('docs/lab/0.3.0.md'))
    const measured = new Map(table.map((row) => [row[0], row]))
    expect(costs.length).toBe(12)
    for (const [kind, queue, node, frontEnd, redis, nats] of costs) {
      const row = measured.get(`${kind}: ${queue === 'JetStream' ? 'JetStream and Redis' : 'embedded'}`) ?? []
      expect([node, frontEnd, redis, nats], `${kind}, ${queue}`).toEqual([row[3], row[5], row[7], row[8]])
    }
  })

  it('has rates that follow from the costs', () => {
    const nodeUs = new Map(costs.map(([kind, queue, node]) => [`${kind}, ${queue}`, figure(node)]))
    const rates = rowsUnder('| batch | JetStream |', capacity)
    expect(rates.length).toBe(3)
    for (const [batch, ...cells] of rates) {
      const kinds = ['JetStream', 'keyed, JetStream', 'embedded', 'keyed, embedded'].map((kind) => `${batch}, ${kind}`)
      for (const [index, kind] of kinds.entries()) {
        const rate = (1e6 / (nodeUs.get(kind) ?? 0)) * Number.parseInt(batch, 10)
        expect(Math.abs(figure(cells[index]) / rate - 1), `${kind}: ${rate}`).toBeLessThan(0.005)
      }
    }
  })
})

describe('the front page', () => {
  it('and all pages beside it have few words', () => {
    const pages = PAGES.filter((page) => page === 'README.md' || page.startsWith('docs/'))
    const words = pages.flatMap((page) => read(page).split(/\s+/).filter(Boolean)).length
    expect(words).toBeLessThanOrEqual(45_000)
  })

  it.each([
    ['README.md', 150],
    ['docs/performance.md', 160],
  ])('%s stays short', (path, most) => {
    expect(read(path).split('\n').length).toBeLessThanOrEqual(most)
  })
})
