// The check of imports against the table of rooms, on small trees that break it.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { budgetProblems, codeLines, tableOf, wallProblems } from '../../tools/walls.js'

const PAGE = `| room of \`src/\` | holds | may import | packages | lines of code |
|---|---|---|---|---|
| \`low\` | | - | - | 1 |
| \`high\` | | \`low\` | \`pino\` | 0 |
| \`high/web\` | | \`type low\` | - | 0 |

| \`later\` | | \`low\` | - | 9 |
`
/** Uses every permission of the page. */
const GOOD = {
  'src/low/a.ts': 'export const a = 1\n',
  'src/high/b.ts': "import { a } from '../low/a.ts'\nimport pino from 'pino'\nimport { c } from './c.ts'\n",
  'src/high/c.ts': "import { readFileSync } from 'node:fs'\n",
  'src/high/web/page.ts': "import type { A } from '../../low/a.ts'\n",
}

function problemsWith(files: Record<string, string>): string[] {
  return wallProblems(new Map(Object.entries({ ...GOOD, ...files })), tableOf(PAGE))
}

it('a tree that keeps to the table has no problem', () => {
  expect(problemsWith({})).toEqual([])
})

it.each([
  ['a room that is not allowed', { 'src/low/a.ts': "import { b } from '../high/b.ts'\n" }, 'low may not import high'],
  ['a package that is not allowed', { 'src/low/a.ts': "import Redis from 'ioredis'\n" }, 'low may not import ioredis'],
  ['an export from elsewhere', { 'src/low/a.ts': "export * from '../high/b.ts'\n" }, 'low may not import high'],
  ['an import when it runs', { 'src/low/a.ts': "await import('../high/b.ts')\n" }, 'low may not import high'],
  ['an import without a name', { 'src/low/a.ts': "import '../high/b.ts'\n" }, 'low may not import high'],
  ['several lines', { 'src/low/a.ts': "import {\n  b,\n} from '../high/b.ts'\n" }, 'low may not import high'],
  [
    'code where only types are',
    { 'src/high/web/x.ts': "import { a } from '../../low/a.ts'\n" },
    'high/web may not import low',
  ],
  ['a room within a room', { 'src/high/d.ts': "import './web/page.ts'\n" }, 'high may not import high/web'],
  ['a new folder', { 'src/new/a.ts': '', 'src/high/c.ts': "import '../new/a.ts'\n" }, 'high may not import new'],
  ['a folder without a row', { 'src/later/a.ts': '' }, 'no row for later'],
  [
    'a permission that nobody uses',
    { 'src/high/b.ts': "import pino from 'pino'\n" },
    'lets high import low, and nothing does',
  ],
])('names %s', (_, files, says) => {
  expect(problemsWith(files)).toContainEqual(expect.stringContaining(says))
})

it('a room with more lines of code than its row gives it is named, and no other', () => {
  const sizes = (files: Record<string, string>): string[] =>
    budgetProblems(new Map(Object.entries({ ...GOOD, ...files })), tableOf(PAGE))
  expect(sizes({})).toEqual([])
  expect(sizes({ 'src/low/b.ts': 'export const b = 1\n' })).toEqual([
    'low: 2 lines of code, and ARCHITECTURE.md gives 1',
  ])
  expect(sizes({ 'src/high/web/b.ts': 'code()\n' })).toEqual(['high/web: 1 lines of code, and ARCHITECTURE.md gives 0'])
})

it('blank lines, comments and imports are no lines of code', () => {
  const text = `// A head.

import { a } from './a.ts'
import {
  b,
} from './b.ts'
import './c.ts'

/** A comment. */
export const d = a // to the end

/**
 * Of several lines: import { x } from 'y'
 */
  /* another */
  // and one
const path = '/*' + b
export { e } from './e.ts'
`
  expect(codeLines(text)).toBe(3)
})

it('a page without the table is refused', () => {
  expect(() => tableOf('# Architecture\n')).toThrow('has no table')
})

it('the page of this project has a row for each room, and lets the contract import none', () => {
  const table = tableOf(readFileSync('ARCHITECTURE.md', 'utf8'))
  expect(table.get('contract')).toMatchObject({ rooms: new Set(), types: new Set() })
  expect(table.get('console/web')?.rooms).toEqual(new Set(['contract']))
})
