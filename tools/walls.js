// Holds every import of src/ to the table of rooms in ARCHITECTURE.md, and each room to the lines of code that the table gives it,
// and prints the lines of each room, and of each folder of test/ and load/. What the table does not allow is refused: a new folder
// is imported by nobody until it has a row, and a room that grows has to ask for it there. With --budgets it writes today's lines
// of code into the table, for a room that has shrunk.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const TABLE_HEAD = /^\| room of `src\/` \|/
const IMPORT =
  /(?:^|[\n;}])\s*(?:import|export)\s+(type\s)?(?:[\w*{][^'"`;]*?\sfrom\s*)?['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]/g

/**
 * The table of rooms: `| room | what it holds | rooms it may import | packages it may import | lines of code, at most |`. A room
 * after `type` gives types alone.
 * @param {string} page ARCHITECTURE.md
 * @returns {Map<string, { rooms: Set<string>, types: Set<string>, packages: Set<string>, lines: number }>}
 */
export function tableOf(page) {
  const lines = page.split('\n')
  const from = lines.findIndex((line) => TABLE_HEAD.test(line))
  if (from === -1) throw new Error('ARCHITECTURE.md has no table that begins with "| room of `src/` |"')
  const table = new Map()
  for (const line of lines.slice(from + 2)) {
    if (!line.startsWith('|')) break
    const [names, , rooms, packages, lines] = line.split('|').slice(1)
    const allowed = words(rooms)
    const row = {
      rooms: new Set(allowed.filter((name) => !name.startsWith('type '))),
      types: new Set(allowed.filter((name) => name.startsWith('type ')).map((name) => name.slice('type '.length))),
      packages: new Set(words(packages)),
      lines: Number(lines),
    }
    for (const name of words(names)) table.set(name, row)
  }
  return table
}

/** @param {string} cell */
function words(cell) {
  return cell
    .split(',')
    .map((word) => word.replaceAll('`', '').trim())
    .filter((word) => word !== '' && word !== '-')
}

/**
 * @param {Map<string, string>} files text by path, such as `src/ring/ring.ts`
 * @param {ReturnType<typeof tableOf>} table
 * @returns {string[]} one sentence for each import that the table does not allow, and for each permission that nobody uses
 */
export function wallProblems(files, table) {
  const problems = new Set()
  const used = new Set()
  for (const [path, text] of files) {
    const from = roomOf(path, table)
    const row = table.get(from)
    if (row === undefined) {
      problems.add(`${path}: the table of rooms in ARCHITECTURE.md has no row for ${from}`)
      continue
    }
    for (const { name, isType } of importsOf(text)) {
      if (name.startsWith('node:')) continue
      const target = name.startsWith('.') ? normalize(join(dirname(path), name)) : name
      const to = name.startsWith('.') ? roomOf(target, table) : packageOf(name)
      if (to === from || (name.startsWith('.') && !target.startsWith('src/'))) continue
      used.add(`${from} ${to}`)
      const allowed = name.startsWith('.') ? row.rooms.has(to) || (isType && row.types.has(to)) : row.packages.has(to)
      if (!allowed) problems.add(`${path} imports ${target}: ${from} may not import ${to}`)
    }
  }
  // Rooms that share a row share its permissions.
  for (const { rooms, types, packages } of new Set(table.values())) {
    const names = [...table.keys()].filter((name) => table.get(name).rooms === rooms)
    for (const to of [...rooms, ...types, ...packages]) {
      if (!names.some((name) => used.has(`${name} ${to}`)))
        problems.add(`ARCHITECTURE.md lets ${names.join(', ')} import ${to}, and nothing does`)
    }
  }
  return [...problems]
}

/**
 * @param {Map<string, string>} files text by path
 * @param {ReturnType<typeof tableOf>} table
 * @returns {string[]} one sentence for each row whose rooms have more lines of code than it gives them
 */
export function budgetProblems(files, table) {
  return rowsOf(files, table)
    .filter(({ row, lines }) => !(lines <= row.lines))
    .map(
      ({ names, row, lines }) => `${names.join(', ')}: ${lines} lines of code, and ARCHITECTURE.md gives ${row.lines}`,
    )
}

/** @param {Map<string, string>} files @param {ReturnType<typeof tableOf>} table */
function rowsOf(files, table) {
  return [...new Set(table.values())].map((row) => {
    const names = [...table.keys()].filter((name) => table.get(name) === row)
    const texts = [...files].filter(([path]) => names.includes(roomOf(path, table))).map(([, text]) => text)
    return { names, row, lines: texts.reduce((sum, text) => sum + codeLines(text), 0) }
  })
}

/** Without blank lines, comments and imports. @param {string} text */
export function codeLines(text) {
  const code = text
    .replaceAll(/^ *\/\*[^]*?\*\/$/gm, '')
    .replaceAll(/^ *(\/\/|--).*$/gm, '')
    .replaceAll(/^import\s[^'"]*['"][^'"]*['"]$/gm, '')
  return code.split('\n').filter((line) => line.trim() !== '').length
}

/** The longest room of the table that holds the file: `console/web` before `console`. A file beside the rooms is one. */
function roomOf(path, table) {
  const parts = path.split('/').slice(1)
  const inner = parts.slice(0, 2).join('/')
  return parts.length > 2 && table.has(inner) ? inner : parts[0]
}

/** @param {string} name such as `@nats-io/kv` or `preact/hooks` */
function packageOf(name) {
  return name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/')
}

/** @param {string} text */
function importsOf(text) {
  return [...text.matchAll(IMPORT)].map(([whole, type, name, loaded]) => ({
    name: name ?? loaded,
    // `import('./x.ts').X` as a type looks like a load: it is taken for one.
    isType: type !== undefined,
    whole,
  }))
}

/** Text of each file below that folder, without installed packages. @param {string} folder */
function readAll(folder) {
  const all = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
  const paths = all
    .filter((entry) => entry.isFile() && !entry.parentPath.includes('node_modules'))
    .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length))
  return new Map(paths.sort().map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]))
}

/** @param {string} folder @param {Map<string, string>} files @param {(path: string) => string} roomIn */
function printSizes(folder, files, roomIn) {
  const sizes = new Map()
  for (const [path, text] of files) {
    for (const name of [roomIn(path), `all of ${folder}`]) {
      sizes.set(name, (sizes.get(name) ?? 0) + text.split('\n').length - 1)
    }
  }
  const width = Math.max(...[...sizes.keys()].map((name) => name.length))
  const rows = [...sizes].sort(([, one], [, other]) => one - other)
  for (const [room, lines] of rows) console.log(`${room.padEnd(width)} ${String(lines).padStart(6)} lines`)
}

/** @param {Map<string, string>} files @param {ReturnType<typeof tableOf>} table */
function writeBudgets(files, table) {
  const path = join(ROOT, 'ARCHITECTURE.md')
  let page = readFileSync(path, 'utf8')
  for (const { names, row, lines } of rowsOf(files, table)) {
    const begin = `| ${names.map((name) => `\`${name}\``).join(', ')} |`
    page = page.replace(/^.*$/gm, (line) => (line.startsWith(begin) ? line.replace(/[^|]*\|$/, ` ${lines} |`) : line))
    row.lines = lines
  }
  writeFileSync(path, page)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const table = tableOf(readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8'))
  const files = readAll('src')
  const code = new Map([...files].filter(([path]) => /\.tsx?$/.test(path) && !path.includes('/assembly/')))
  const counted = new Map([...files].filter(([path]) => /\.(tsx?|lua)$/.test(path)))
  if (process.argv.includes('--budgets')) writeBudgets(counted, table)
  const problems = [...wallProblems(code, table), ...budgetProblems(counted, table)]
  printSizes('src', files, (path) => roomOf(path, table))
  for (const folder of ['test', 'load']) {
    const code = [...readAll(folder)].filter(([path]) => /\.[jt]sx?$/.test(path))
    printSizes(folder, new Map(code), (path) => path.split('/').slice(0, 2).join('/'))
  }
  for (const problem of problems) console.error(problem)
  if (problems.length > 0) process.exit(1)
}
