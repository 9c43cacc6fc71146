// The commands of README and docs, run as they stand: those of sluice and curl beside a service, in the order of their page, and those of
// npm as far as their options, since many of them run for minutes. What is not run here is named, with what runs it.

import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import { post, single } from '../support/client.ts'
import { runToEnd } from '../support/processes.js'
import { appRecord, makeFolder, type Service, startService } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const TOKEN = 'a-token-of-24-characters'
const RUN_ELSEWHERE: Readonly<Record<string, string>> = {
  'docs/cluster.md': 'a walk with a Redis and a NATS of its own, by hand',
  'docs/kubernetes.md': 'test/deploy/kubernetes-page.test.ts, and by hand on a cluster',
  'docs/upgrade.md': 'test/contract/way-back.test.ts',
  'docs/spool.md': 'test/integration/cli-spool.long.test.ts',
  'docs/browsers.md': 'test/integration/browser.long.test.ts',
}
/** What a service that runs beside would make wait, and what installs or serves for good. */
const NOT_HERE = /^npm (install|start|test|run (check|build))\b|^sluice demo/
const PAGES = [
  'README.md',
  ...readdirSync(`${ROOT}/docs`)
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
]

/** The lines of a page's blocks that begin with such a command, or with a variable for one. */
function commandsOf(page: string): string[] {
  const text = readFileSync(`${ROOT}/${page}`, 'utf8')
  const blocks = [...text.matchAll(/^( *)```sh\n(.*?)^ *```$/gms)].map(([, , block]) => block)
  return blocks
    .flatMap((block) => block.replaceAll(/\\\n */g, '').split('\n'))
    .map((line) => line.replace(/\s+#.*$/, '').trim())
    .filter((line) => /^(?:\w+=\S* )*(?:(?:npx )?sluice|npm|curl) |^\w+=http\S*$/.test(line))
}

/** What stands for something that only the reader has; and what would wait for events for ever. */
function ready(line: string, batchId: string): string {
  return line
    .replace(/\b(BATCH_)?ID\b(?! )/, batchId)
    .replace(/^(npx sluice|sluice) tail(?!.*--no-follow)/, '$& --no-follow')
    .replace(/ \| node consumer\.js$/, ' | cat')
}

async function runPage(lines: readonly string[], service: Service, folder: string, batchId: string) {
  const ports = { 8080: service.port, 9090: service.adminPort, 9191: service.portalPort }
  const text = lines.map((line) =>
    Object.entries(ports).reduce(
      (all, [named, port]) => all.replaceAll(`localhost:${named}`, `127.0.0.1:${port}`),
      line,
    ),
  )
  const steps = text.map(
    (line) => `{ ${ready(line, batchId)}\n} > said 2>&1 || { echo ${JSON.stringify(line)}; cat said; }`,
  )
  const script = [
    `sluice() { '${process.execPath}' '${ROOT}/dist/main.js' "$@"; }`,
    'npx() { "$@"; }',
    'curl() { command curl --fail-with-body "$@"; }',
    'USER_ID=u1',
    `READ_KEY=$(sluice apps read-key one --name page 2> /dev/null | head -n 1)`,
    ...steps,
  ]
  const env = { SLUICE_DATA_DIR: service.dataDir, SLUICE_CONSOLE_TOKEN: TOKEN, TOKEN, HOME: folder }
  return runToEnd({ command: ['bash', '-c', script.join('\n')], env, cwd: folder }, 240_000)
}

const RUN_HERE = PAGES.filter((page) => !(page in RUN_ELSEWHERE)).map((page) => ({ page, lines: commandsOf(page) }))
const BESIDE = RUN_HERE.map(({ page, lines }) => ({
  page,
  beside: lines.filter((line) => !/^(?:\w+=\S* )*npm /.test(line) && !NOT_HERE.test(line)),
})).filter(({ beside }) => beside.some((line) => /sluice|curl/.test(line)))
const SCRIPTS = RUN_HERE.map(({ page, lines }) => ({
  page,
  runs: lines.flatMap((line) => {
    const [, name = '', options = ''] = /^(?:\w+=\S* )*npm run (?!check|build)(\S+)(?: -- (.*?))?$/.exec(line) ?? []
    return name === '' ? [] : [{ line, name, options }]
  }),
})).filter(({ runs }) => runs.length > 0)

it.each(BESIDE)('$page has commands that do what they say', async ({ beside }) => {
  const service = await startService({
    apps: [appRecord('one')],
    env: { SLUICE_PORTAL_PORT: '0', SLUICE_CONSOLE_TOKEN: TOKEN },
  })
  const { headers } = await post(service, single('ak_one'))
  const { code, output } = await runPage(beside, service, await makeFolder(), String(headers['x-batch-id']))
  expect({ code, output }).toEqual({ code: 0, output: '' })
  await service.stop()
})

it.each(SCRIPTS)('$page has scripts that know their options', async ({ runs }) => {
  const { scripts } = JSON.parse(readFileSync(`${ROOT}/package.json`, 'utf8')) as { scripts: Record<string, string> }
  for (const { line, name, options } of runs) {
    const command = `${scripts[name] ?? 'false'} ${options} --help`
    const { code, output } = await runToEnd({ command: ['bash', '-c', command], cwd: ROOT }, 240_000)
    expect({ line, code }, output).toEqual({ line, code: 0 })
  }
})

it('names no page as run elsewhere that has no such command', () => {
  expect(BESIDE.length + SCRIPTS.length).toBeGreaterThan(8)
  expect(Object.keys(RUN_ELSEWHERE).filter((page) => commandsOf(page).length === 0)).toEqual([])
})
